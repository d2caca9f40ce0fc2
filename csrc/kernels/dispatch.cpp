// The choice of a table of kernels.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/isa_tables.h"

#if defined(SHARPBEAM_ARM) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(SHARPBEAM_ARM) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace sharpbeam {
namespace {

constexpr const char* kVariable = "SHARPBEAM_ISA";

#ifdef SHARPBEAM_ARM
// Whether the processor has the dot products of FEAT_DotProd or FEAT_I8MM.
#if defined(__linux__)
bool has_dot_product() { return (getauxval(AT_HWCAP) & (1ul << 20)) != 0; }  // HWCAP_ASIMDDP
bool has_i8mm() { return (getauxval(AT_HWCAP2) & (1ul << 13)) != 0; }        // HWCAP2_I8MM
#elif defined(__APPLE__)
bool has_feature(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dot_product() { return has_feature("hw.optional.arm.FEAT_DotProd"); }
bool has_i8mm() { return has_feature("hw.optional.arm.FEAT_I8MM"); }
#else
bool has_dot_product() { return false; }
bool has_i8mm() { return false; }
#endif
#endif

// The tables that this machine can run, lowest first.
struct Available {
  const Kernels* tables[6] = {};
  const char* names[7] = {};
  int count = 0;

  Available() {
    add(kScalarKernels);
#ifdef SHARPBEAM_X86
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx2) add(kAvx2Kernels);
    if (avx512) add(kAvx512Kernels);
    if (avx2 && __builtin_cpu_supports("avxvnni")) add(kAvxVnniKernels);
    if (avx512 && __builtin_cpu_supports("avx512vnni")) {
      add(kAvx512VnniKernels);
      if (__builtin_cpu_supports("avx512vbmi")) add(kAvx512VbmiKernels);
    }
#endif
#ifdef SHARPBEAM_ARM
    add(kNeonKernels);
    if (has_dot_product()) {
      add(kNeonDotKernels);
      if (has_i8mm()) add(kNeonI8mmKernels);
    }
#endif
  }
  void add(const Kernels& table) {
    tables[count] = &table;
    names[count++] = table.name;
  }
};

const Available& available() {
  static const Available tables;
  return tables;
}

const Kernels& find(const char* what, const char* name) {
  const Available& all = available();
  std::string allowed;
  for (int i = 0; i < all.count; ++i) {
    if (std::strcmp(all.names[i], name) == 0) return *all.tables[i];
    allowed += (i ? ", " : "") + std::string(all.names[i]);
  }
  throw std::invalid_argument(std::string(what) + " is \"" + name + "\"; this machine can run: " + allowed);
}

const Kernels& choose() {
  const char* wanted = std::getenv(kVariable);
  if (wanted != nullptr && *wanted != '\0') return find(kVariable, wanted);
  return *available().tables[available().count - 1];
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

const Kernels& kernels(const char* name) { return find("isa", name); }

const char* const* kernel_names() { return available().names; }

}  // namespace sharpbeam
