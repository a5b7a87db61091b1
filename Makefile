# SPDX-License-Identifier: Apache-2.0
# The front door. CMake does the work (CMakeLists.txt, CMakePresets.json).
#
#   make             build into build/; the command is build/kith. CUDA=ON: with the GPU module for all
#                    chips, or for CHIPS=90 alone, OFF: without it; else for the GPU of this machine, if it
#                    has nvcc and one; DRAFT=ON: only to see whether it compiles, and not for use
#   make demo        set up what is missing, build, two graphs of real data with pictures: demo-out/
#   make check       set up what is missing, build, tests and benchmarks, too, and run all CPU tests
#   make check-gpu   build, all tests that need a GPU; TESTS="test_x ..." for some of them
#   make check-full  also sanitizers, valgrind, clang, clang-tidy, long fuzz, pipelines, site
#   make fuzz        every fuzz target for MINUTES=5 with libFuzzer; TARGETS="fuzz_tree ..."
#   make soak        10,000 mixed calls of the whole interface; CALLS, THREADS, SEED
#   make bench       kith beside its peers; ARGS="--threads 2 --isa avx2" and PYTHON are passed on
#   make tune        measures all methods of selection and rewrites their table; DEVICE=cuda on a GPU
#   make site        the documents as a site, with the gallery: build/site
#   make gallery     the gallery's pictures alone: build/gallery
#   make fmt         clang-format on every C file
#   make tidy        clang-tidy on every C file
#   make coverage    which lines the tests reach
#   make install     PREFIX=/usr/local
#   make dist        source tarball of the last commit: dist/
#   make deb         Debian packages of the last commit: dist/; ARGS=--no-cuda without the GPU module
#   make wheel       a wheel that package indexes take: dist/; ARGS="--machine aarch64"; CUDA=ON: with the GPU module
#   make sdist       the source for pip, built, checked and tried: dist/
#   make clean       remove build folders

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
# For build folders that are made now; a folder keeps the generator that it was made with.
ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif

.PHONY: build all configure demo check check-gpu check-full fuzz soak bench tune site gallery fmt tidy coverage install dist deb wheel sdist clean

build: configure
	@tools/build.sh build kith_product $(JOBS)

# What tests and benchmarks are made of takes longer to look for than all else: a new folder has them when they are
# asked for, and keeps them.
build: TESTS_TOO = $(if $(wildcard build/CMakeCache.txt),,OFF)
all: TESTS_TOO = ON

configure:
	@cmake --preset release $(if $(TESTS_TOO),-DBUILD_TESTING=$(TESTS_TOO)) $(if $(CUDA),-DKITH_CUDA=$(CUDA)) $(if $(CHIPS),-DKITH_CUDA_ARCHS=$(CHIPS)) -DKITH_CUDA_DRAFT=$(or $(DRAFT),OFF) >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log

all: configure
	@cmake --build build -j $(JOBS)

demo:
	@tools/setup.sh demo
	@$(MAKE) --no-print-directory build
	@tools/demo.sh

# One more at a time than there are processors: kith-mpi's tests and Python's wait for processes most of the time.
check:
	@tools/setup.sh check
	@$(MAKE) --no-print-directory all
	@ctest --test-dir build -j $$(($(JOBS) + 1)) --output-on-failure

check-gpu: all
	@tools/check_gpu.sh build $(TESTS)

check-full: check
	@tools/setup.sh full
	@tools/check_full.sh

fuzz:
	@tools/setup.sh full
	@FUZZ_SECONDS=$$(($(or $(MINUTES),5) * 60)) tools/fuzz.sh $(TARGETS)

soak: all
	@build/tests/soak/soak_calls $(or $(CALLS),10000) $(or $(THREADS),1) $(SEED)

bench: all
	@PYTHON=$(PYTHON) tools/bench.sh $(ARGS)

tune: all
	@build/bench_select --device $(or $(DEVICE),cpu) --tune src/select/select_tune.inc

site: build
	@tools/site.sh

gallery: build
	@tools/site.sh --gallery

fmt:
	@tools/check_format.sh --fix

tidy:
	@tools/check_tidy.sh

coverage:
	@tools/check_coverage.sh

install: build
	cmake --install build --prefix $(PREFIX)

dist:
	@tools/make_dist.sh

deb:
	@tools/setup.sh deb
	@tools/make_debs.sh $(ARGS)

wheel:
	@tools/make_wheel.sh $(if $(filter ON,$(CUDA)),--cuda) $(ARGS)

sdist:
	@tools/make_sdist.sh

clean:
	rm -rf build build-chips build-clang build-asan build-tsan build-fuzz build-coverage demo-out dist
