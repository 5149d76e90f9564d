#!/usr/bin/env bash
# Trains DeepSeek-V4 on real text with 8-bit matmuls, on any machine:
#
#     bash run_train.sh                                      # recipe mix: block MX, experts with MXFP4 QAT
#     ENABLE_QUANTIZED_TRAINING=false bash run_train.sh      # the BF16 baseline
#     RECIPE=all_mxfp8 bash run_train.sh --training.steps 1000      # any torchtitan flag
#
# Variables:
#     RECIPE                      which matmuls run in which format (default mix)
#     ENABLE_QUANTIZED_TRAINING   false: BF16, whatever RECIPE says (default true)
#     ENABLE_MXFP4_QAT            false: no MXFP4 fake quantization of routed experts in mix, mix_mxfp8 (default true)
#     DST_TYPE_MAX                what MXFP4 QAT (0, 6 to 12) or all_hif8 (0, 15, 56, 224, 32768) scales a maximum to
#     MXFP8_DUAL_AXIS_FORWARD     1: quantize along both axes in forward (default); 0: quantize again in backward
#     MODEL                       deepseek_v4 (default) or deepseek_v3
#     BASE_MODEL                  flavor: debug (default), 1b, flash, pro; of deepseek_v3: debug, 16b, 236b, 671b
#     NGPU                        number of processes (default: one for each device, 1 on a CPU)
#     DATASET_PATH                JSON Lines file with `text` fields, or directory of text files (default: Python's sources)
#     TOKENIZER_PATH              directory with a Hugging Face tokenizer.json (default: a small one, shipped)
#     OUTPUT_DIR                  folder for metrics, curves, checkpoints (default: outputs/MODEL_FLAVOR_RECIPE)
#     TORCH_INDEX_URL, PYTHON     see scripts/setup_env.sh
#
# It uses the active virtual environment, or makes .venv; installs, builds, and trains. All flags of torchtitan:
#     python -m npu_lp.titan.train --module npu_lp.titan.deepseek_v4 --config debug_all_mxfp8 --help

set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

case "${1:-}" in
-h | --help)
    sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

# shellcheck source=scripts/setup_env.sh
. "$root/scripts/setup_env.sh" titan
exec python -m npu_lp.titan.launch "$@"
