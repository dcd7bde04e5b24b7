#!/usr/bin/env bash
# The main job on real data: each model from scratch and after self-pretraining, over three seeds, on two CPU cores.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/install.sh"

export HF_HUB_OFFLINE=1
.venv/bin/hf-longseq spt --recipe demo --seeds 0 1 2 --output_dir runs/demo --jobs 2 "$@"
echo
echo "The best checkpoint, opened in a new process through the Auto classes:"
"$PYTHON" scripts/classify_held_out.py runs/demo/best
