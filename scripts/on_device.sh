#!/usr/bin/env bash
# For the first person with an Ascend 950: builds npu_lp with your CANN toolkit, runs conformance, op tests and benchmarks
# on the device, and packs what came out into one file to send.
#
#     bash scripts/on_device.sh             # about half an hour; on_device_DATE.tar.gz when done
#     bash scripts/on_device.sh --quick     # conformance and a few shapes only
#
# It needs ASCEND_HOME_PATH (source set_env.sh of the toolkit), torch 2.13 and torch_npu 2.13 in the active virtual
# environment. Every step runs even if an earlier one failed: a failure is what we want to see. Nothing is sent
# anywhere; the file holds logs, versions (python -m npu_lp env), and figures.

set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
quick=0
case "${1:-}" in
-h | --help)
    sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
--quick) quick=1 ;;
"") ;;
*)
    echo "error: unknown argument '$1'; --help shows what there is" >&2
    exit 2
    ;;
esac

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

[[ -n "${ASCEND_HOME_PATH:-}" ]] || fail "ASCEND_HOME_PATH is not set. Source the CANN toolkit's set_env.sh first."
[[ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ]] || fail "no virtual environment is active. Activate the one with torch_npu 2.13."
python -c 'import torch, torch_npu; assert torch.npu.is_available()' ||
    fail "torch_npu does not import here, or sees no NPU. Try: python -c 'import torch_npu, torch; print(torch.npu.device_count())'"

name="on_device_$(date +%Y%m%d_%H%M%S)"
out="$(mktemp -d)/$name"
mkdir -p "$out"
cd "$root" || exit 1
failed=()

step() { # NAME COMMAND...: runs it, keeps its output in NAME.log
    local step_name="$1"
    shift
    echo "== $step_name: $*"
    if (time "$@") >"$out/$step_name.log" 2>&1; then
        echo "   done"
    else
        echo "   FAILED, see $step_name.log"
        failed+=("$step_name")
    fi
    tail -n 3 "$out/$step_name.log" | sed 's/^/   /'
}

git -C "$root" log -1 --format='%H %cd' >"$out/commit.txt" 2>/dev/null || echo "no git" >"$out/commit.txt"
cp "$ASCEND_HOME_PATH"/version.cfg "$ASCEND_HOME_PATH"/*/ascend_toolkit_install.info "$out/" 2>/dev/null || true
step npu-smi npu-smi info
step build pip install --no-build-isolation -e "$root[test]"
step env python -m npu_lp env
step conformance python -m npu_lp.conformance tests/data/golden_cases.json --device npu:0 --verbose
if ((quick)); then
    step benchmark python scripts/device_benchmark.py --quick --json "$out/benchmark.json"
else
    NPU_LP_TEST_BACKENDS=npu step op_tests python -m pytest tests/ops -q -p no:cacheprovider --maxfail=200
    step benchmark python scripts/device_benchmark.py --json "$out/benchmark.json"
    step model python scripts/device_benchmark.py --model --json "$out/model.json"
fi
printf '%s\n' "${failed[@]:-none}" >"$out/failed_steps.txt"

tar -C "$(dirname "$out")" -czf "$root/$name.tar.gz.part" "$name" && mv "$root/$name.tar.gz.part" "$root/$name.tar.gz"
echo
echo "failed steps: ${failed[*]:-none}"
echo "results: $root/$name.tar.gz (please look through it, then attach it to an issue)"
