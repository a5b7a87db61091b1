#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing, and says what it does: setup.sh build|check|demo|full|deb|ci
#
# What is looked for are commands and headers, not packages: on a machine that has them, whatever its
# system, nothing is installed and no network is needed. What is missing comes from Debian's packages
# (apt-get, with sudo where needed) and, for pictures and the tests of .npz files, from Python's
# (into .venv, never into the system).
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:-build}

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() { has_command cc && echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
# cmocka's header wants others before it, so its presence is what the preprocessor is asked about.
has_include() { has_command cc && printf '#if !__has_include(<%s>)\n#error no\n#endif\n' "$1" | cc -E -x c - >/dev/null 2>&1; }
has_venv() { has_command python3 && python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }
has_hdf5() { has_command h5cc || (has_command pkg-config && pkg-config --exists hdf5); }
has_mpi() { has_command mpicc && has_command mpirun; }
has_clang_format() { has_command clang-format-14 || (clang-format --version 2>/dev/null | grep 'version 14\.' >/dev/null); }
has_package() { dpkg -s "$1" >/dev/null 2>&1; }
has_clang_sanitizers() { has_command clang && [ -e "$(clang -print-file-name=libclang_rt.tsan-$(uname -m).a)" ]; }
has_cpp() { has_command g++; }
has_nvcc() { has_command nvcc || [ -x /usr/local/cuda/bin/nvcc ]; }

required=()
optional=()
need() { "${@:2}" || required+=("$1"); }
want() { "${@:2}" || optional+=("$1"); }

need gcc has_command cc
need libc6-dev has_header stdio.h
need cmake has_command cmake
if ! has_command ninja && ! has_command make; then required+=(make); fi
need zlib1g-dev has_include zlib.h
# The GPU module wants NVIDIA's compiler, which no package of Debian's main archive brings.
if has_nvcc; then
    need g++ has_cpp # nvcc compiles with it
elif [ -e /dev/nvidiactl ]; then
    echo "setup: GPU module: not built, no nvcc (in PATH or /usr/local/cuda/bin); kith computes on the processor"
fi
want ninja-build has_command ninja
want git has_command git
want libhdf5-dev has_hdf5
case $goal in
    check | full | ci)
        need libcmocka-dev has_include cmocka.h
        need python3 has_command python3
        want g++ has_cpp
        want pkg-config has_command pkg-config
        want libopenmpi-dev has_mpi
        want openmpi-bin has_mpi
        want clang-format-14 has_clang_format
        want python3-venv has_venv
        ;;&
    demo)
        need python3 has_command python3
        need python3-venv has_venv
        ;;
    full)
        want chromium has_command chromium # which looks at the site's pages
        need valgrind has_command valgrind
        ;;&
    full | ci)
        need clang has_command clang
        need libclang-rt-dev has_clang_sanitizers
        need clang-tidy has_command clang-tidy
        ;;&
    deb | ci)
        need git has_command git
        need lintian has_command lintian
        need dpkg-dev has_command dpkg-buildpackage
        # Debian's tools look for packages, so these are packages: debian/control's Build-Depends.
        for package in cmake debhelper dh-python libhdf5-dev libopenmpi-dev ninja-build pkg-config python3 zlib1g-dev; do
            need $package has_package $package
        done
        ;;
esac
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has_command sudo; then
        sudo "$@"
    else
        return 1
    fi
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >>setup.log 2>&1
}

if [ ${#required[@]} -gt 0 ] || [ ${#optional[@]} -gt 0 ]; then
    if has_command apt-get; then
        echo "setup: apt-get installs: ${required[*]} ${optional[*]}"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >setup.log 2>&1 ||
            echo "setup: apt-get update failed; going on with the lists that are there"
        if [ ${#required[@]} -gt 0 ] && ! install_packages "${required[@]}"; then
            tail -n 5 setup.log >&2
            echo "setup: could not install: ${required[*]} (see setup.log; install them by hand, then try again)" >&2
            exit 1
        fi
        for package in "${optional[@]}"; do
            install_packages "$package" || echo "setup: going on without $package, which is optional"
        done
    elif [ ${#required[@]} -gt 0 ]; then
        echo "setup: missing, under Debian's names: ${required[*]} (install them by hand, then try again)" >&2
        exit 1
    fi
fi

python_modules_ready() { .venv/bin/python -c 'import numpy, scipy, matplotlib' >/dev/null 2>&1; }

make_venv() {
    python_modules_ready && return 0
    has_venv || return 1
    if [ ! -x .venv/bin/python ]; then
        echo "setup: python3 -m venv .venv"
        # With the system's packages in sight, a machine that has NumPy needs no network.
        python3 -m venv --system-site-packages .venv >>setup.log 2>&1 || return 1
    fi
    python_modules_ready && return 0
    echo "setup: pip installs into .venv: numpy scipy matplotlib"
    .venv/bin/python -m pip install -q --disable-pip-version-check numpy scipy matplotlib >>setup.log 2>&1
}

# What the Python package gives to scikit-learn, tqdm and Dask is tested where they are.
want_for_package() {
    .venv/bin/python -c 'import sklearn, tqdm, dask.array, distributed' >/dev/null 2>&1 && return 0
    echo "setup: pip installs into .venv: scikit-learn tqdm dask distributed"
    .venv/bin/python -m pip install -q --disable-pip-version-check scikit-learn tqdm "dask[array]" distributed >>setup.log 2>&1
}

case $goal in
    check | full | ci | demo)
        if ! make_venv; then
            if [ "$goal" = demo ]; then
                echo "setup: no NumPy, SciPy and Matplotlib: the demo draws no pictures (see setup.log)"
            else
                echo "setup: no NumPy, SciPy and Matplotlib: tests that load .npz with them are skipped (see setup.log)"
            fi
        elif [ "$goal" != demo ] && ! want_for_package; then
            echo "setup: no scikit-learn or Dask: what the Python package gives to them is not tested (see setup.log)"
        fi
        ;;
esac
