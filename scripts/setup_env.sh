# Sourced by run_train.sh and run_tests.sh: `. scripts/setup_env.sh EXTRAS`, EXTRAS being "titan" or "titan,test".
#
# Uses the active virtual environment (or conda environment), else .venv, which it makes with $PYTHON (default python3).
# Installs torch 2.13.0 unless some 2.13 is there (from $TORCH_INDEX_URL if set, e.g.
# https://download.pytorch.org/whl/cpu for the small CPU build), then npu_lp with its pinned dependencies, which builds
# it; skipped when nothing changed since the last time.
# shellcheck shell=bash

_npu_lp_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

_npu_lp_fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

_npu_lp_venv() {
    if [[ -n "${VIRTUAL_ENV:-}" || -n "${CONDA_PREFIX:-}" ]]; then
        return
    fi
    local python="${PYTHON:-python3}" venv="$_npu_lp_root/.venv"
    # Asking for pip also finds an environment whose making was interrupted.
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        command -v "$python" >/dev/null || _npu_lp_fail "$python not found. On Debian: apt install python3 python3-venv"
        "$python" -c 'import ensurepip, venv' 2>/dev/null ||
            _npu_lp_fail "$python cannot make virtual environments. On Debian: apt install python3-venv"
        _npu_lp_version "$python"
        echo "Making the virtual environment $venv"
        "$python" -m venv --clear "$venv"
    fi
    # shellcheck disable=SC1091
    . "$venv/bin/activate"
}

_npu_lp_version() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
        _npu_lp_fail "$1 is $("$1" --version 2>&1); npu_lp needs Python 3.11 to 3.13. Set PYTHON=python3.11 (12, 13)"
}

# Everything that decides whether the installation is up to date, as one hash.
_npu_lp_fingerprint() {
    (
        cd "$_npu_lp_root" || exit 1
        echo "$1 $(command -v python) $2"
        find pyproject.toml setup.py CMakeLists.txt cmake csrc -type f 2>/dev/null | LC_ALL=C sort | xargs sha256sum
    ) | sha256sum | cut -d' ' -f1
}

_npu_lp_torch_version() {
    python -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true
}

_npu_lp_install() {
    local extras="$1" torch stamp fingerprint constraint
    _npu_lp_version python
    torch="$(_npu_lp_torch_version)"
    if [[ "$torch" != 2.13.* ]]; then
        echo "Installing torch 2.13.0"
        python -m pip install ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch==2.13.0
        torch="$(_npu_lp_torch_version)"
    fi
    stamp="$(python -c 'import sys; print(sys.prefix)')/.npu_lp-$extras"
    fingerprint="$(_npu_lp_fingerprint "$extras" "$torch")"
    if [[ -f "$stamp" && "$(cat "$stamp")" == "$fingerprint" ]] && python -c 'import npu_lp' 2>/dev/null; then
        return
    fi
    command -v "${CXX:-g++}" >/dev/null || _npu_lp_fail "no C++ compiler (${CXX:-g++}). On Debian: apt install g++"
    echo "Installing npu_lp[$extras] and building it"
    # No dependency may replace the torch that npu_lp is compiled against.
    constraint="$(mktemp)"
    echo "torch==$torch" >"$constraint"
    if ! python -m pip install -c "$constraint" -e "$_npu_lp_root[$extras]"; then
        rm -f "$constraint"
        _npu_lp_fail "the installation failed; see the messages above"
    fi
    rm -f "$constraint"
    echo "$fingerprint" >"$stamp"
}

_npu_lp_venv
_npu_lp_install "$1"

# Threads that wait must give their core away: spinning, they slow small matmuls down several times as soon as anything
# else runs on the machine. Read when torch is loaded, so it has to be set before Python starts.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
