#include "models/common/sources.h"

#include <stdexcept>
#include <string>
#include <unordered_set>

namespace sharpbeam {

void check_tokens(const char* name, const int32_t* token, int64_t count, int64_t vocab_size) {
  for (int64_t i = 0; i < count; ++i)
    if (token[i] < 0 || token[i] >= vocab_size)
      throw std::invalid_argument(std::string(name) + " " + std::to_string(i) + " is " + std::to_string(token[i]) +
                                  "; it must be between 0 and " + std::to_string(vocab_size - 1) + ".");
}

void check_sources(const int32_t* request, const Sources& sources, int64_t vocab_size,
                   const std::function<bool(int32_t)>& admitted) {
  std::unordered_set<int32_t> asked;
  int64_t positions = 0;
  for (int64_t i = 0; i < sources.count; ++i) {
    const std::string name = "request " + std::to_string(request[i]);
    if (admitted(request[i]) || !asked.insert(request[i]).second)
      throw std::invalid_argument(name + " is admitted already, or named twice; evict it first.");
    if (sources.length[i] < 1)
      throw std::invalid_argument(name + " has a source of " + std::to_string(sources.length[i]) +
                                  " tokens; it must have 1 or more.");
    positions += sources.length[i];
  }
  if (positions != sources.positions)
    throw std::invalid_argument("the lengths of the sources sum to " + std::to_string(positions) + "; there are " +
                                std::to_string(sources.positions) + " tokens.");
  check_tokens("source token", sources.token, positions, vocab_size);
}

void throw_unknown_request(int32_t request) {
  throw std::invalid_argument("request is " + std::to_string(request) +
                              "; it must be one that was admitted and not yet evicted.");
}

}  // namespace sharpbeam
