#!/usr/bin/env bash
# Checks everything on any machine: style (ruff), types (mypy), format of the C++ sources (clang-format), tests (pytest).
#
#     bash run_tests.sh                      # all of it
#     bash run_tests.sh tests/titan -k data  # arguments go to pytest
#
# It uses the active virtual environment, or makes .venv; installs and builds as run_train.sh does.

set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

case "${1:-}" in
-h | --help)
    sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

# The C++ sources must compile without a warning here, if not for users of other compilers.
export NPU_LP_WERROR="${NPU_LP_WERROR:-ON}"
# shellcheck source=scripts/setup_env.sh
. "$root/scripts/setup_env.sh" titan,test
cd "$root"

step() {
    echo "== $*"
    "$@"
}

# What the kernel tests need for AArch64. Where it cannot be installed, they say that they are skipped; in CI they fail.
missing=()
command -v aarch64-linux-gnu-g++ >/dev/null || missing+=(g++-aarch64-linux-gnu)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if ((${#missing[@]})) && ((EUID == 0)) && command -v apt-get >/dev/null; then
    step apt-get update -qq || true
    step apt-get install -y -qq --no-install-recommends "${missing[@]}" || true
fi

step ruff check .
step mypy python/npu_lp
mapfile -t sources < <(git ls-files "csrc/*.h" "csrc/*.cpp" "csrc/*.inc" "tests/kernels/*.h" "tests/kernels/*.cpp")
if ((${#sources[@]})); then
    echo "== clang-format --dry-run -Werror (${#sources[@]} files)"
    clang-format --dry-run -Werror "${sources[@]}"
fi
# One thread a process: two processes of tests use two cores better than one process with two threads.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
step pytest -n "${PYTEST_WORKERS:-2}" "$@"
