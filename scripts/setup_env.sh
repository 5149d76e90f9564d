# Sourced by run_train.sh and run_tests.sh: `. scripts/setup_env.sh EXTRAS`, EXTRAS being "titan" or "titan,test".
#
# Uses the active virtual environment (or conda environment), else .venv, which it makes with $PYTHON (default python3).
# Installs torch 2.13.0 unless some 2.13 is there (from $TORCH_INDEX_URL if set, e.g.
# https://download.pytorch.org/whl/cpu for the small CPU build), then npu_lp with its pinned dependencies, which builds
# it. That is done again only when something that matters has changed, and it says what. Extras that are there stay, and
# so does NPU_LP_WERROR=ON: run_train.sh and run_tests.sh can take turns.
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

# What an installation with the extras $1 and the torch $2 is made of, one thing a line: name, tab, value.
_npu_lp_state() {
    (
        cd "$_npu_lp_root" || exit 1
        printf 'extra %s\tyes\n' ${1//,/ }
        printf '%s\t%s\n' torch "$2" python "$(python --version)" NPU_LP_WERROR "$NPU_LP_WERROR" \
            ASCEND_HOME_PATH "${ASCEND_HOME_PATH-}" NPU_LP_NPU "${NPU_LP_NPU:-ON}"
        find pyproject.toml setup.py CMakeLists.txt cmake csrc -type f -not -path '*/__pycache__/*' -print0 |
            xargs -0 sha256sum | sed -E 's/^([0-9a-f]+)..(.*)/\2\t\1/'
    ) | LC_ALL=C sort
}

_npu_lp_torch_version() {
    python -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true
}

# The folder that `import npu_lp` takes it from; nothing if it fails.
_npu_lp_imported() {
    python -P -c 'import os, npu_lp; print(os.path.dirname(os.path.realpath(npu_lp.__file__)))' 2>/dev/null || true
}

# Why it has to be installed or built (again), in words; nothing if it need not. $1: the stamp, $2: the state.
_npu_lp_why() {
    local here imported changed
    here="$(realpath "$_npu_lp_root/python/npu_lp")"
    if [[ ! -f "$1" ]]; then
        echo "for the first time in this environment"
        return
    fi
    changed="$(LC_ALL=C comm -3 "$1" <(echo "$2") | sed 's/^\t//' | cut -f1 | LC_ALL=C uniq)"
    if [[ -n "$changed" ]]; then
        echo "new or changed: $(head -n 3 <<<"$changed" | paste -sd, | sed 's/,/, /g')$(
            (($(wc -l <<<"$changed") <= 3)) || echo " and $(($(wc -l <<<"$changed") - 3)) more"
        )"
        return
    fi
    imported="$(_npu_lp_imported)"
    if [[ -z "$imported" ]]; then
        echo "import npu_lp fails"
    elif [[ "$imported" != "$here" ]]; then
        echo "this environment has the npu_lp of $imported"
    fi
}

_npu_lp_install() {
    local extras="$1" torch stamp state why constraint imported
    _npu_lp_version python
    torch="$(_npu_lp_torch_version)"
    if [[ "$torch" != 2.13.* ]]; then
        echo "Installing torch 2.13.0"
        python -m pip install ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch==2.13.0
        torch="$(_npu_lp_torch_version)"
    fi
    stamp="$(python -c 'import sys; print(sys.prefix)')/npu_lp.installed"
    if [[ -f "$stamp" ]]; then
        extras="$({ tr , '\n' <<<"$extras" && sed -n 's/^extra \(.*\)\t.*/\1/p' "$stamp"; } | LC_ALL=C sort -u | paste -sd,)"
        : "${NPU_LP_WERROR:=$(sed -n 's/^NPU_LP_WERROR\t//p' "$stamp")}"
    fi
    export NPU_LP_WERROR="${NPU_LP_WERROR:-OFF}"
    state="$(_npu_lp_state "$extras" "$torch")"
    why="$(_npu_lp_why "$stamp" "$state")"
    if [[ -z "$why" ]]; then
        echo "npu_lp[$extras] is up to date: nothing to install or build"
        return
    fi
    command -v "${CXX:-g++}" >/dev/null || _npu_lp_fail "no C++ compiler (${CXX:-g++}). On Debian: apt install g++"
    echo "Installing npu_lp[$extras] and building what changed ($why)"
    # No dependency may replace the torch that npu_lp is compiled against.
    constraint="$(mktemp)"
    echo "torch==$torch" >"$constraint"
    rm -f "$stamp"
    if ! python -m pip install -c "$constraint" -e "$_npu_lp_root[$extras]"; then
        rm -f "$constraint"
        _npu_lp_fail "the installation failed; see the messages above"
    fi
    rm -f "$constraint"
    imported="$(_npu_lp_imported)"
    if [[ "$imported" != "$(realpath "$_npu_lp_root/python/npu_lp")" ]]; then
        _npu_lp_fail "import npu_lp finds ${imported:-nothing}, not $_npu_lp_root/python/npu_lp. Is it in PYTHONPATH? Unset it"
    fi
    echo "$state" >"$stamp"
}

_npu_lp_venv
_npu_lp_install "$1"

# Threads that wait must give their core away: spinning, they slow small matmuls down several times as soon as anything
# else runs on the machine. Read when torch is loaded, so it has to be set before Python starts.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
