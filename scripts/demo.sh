#!/usr/bin/env bash
# The main job on real data: a Transformer from scratch, with equal steps, and self-pretrained, over three seeds.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/install.sh"

export HF_HUB_OFFLINE=1
.venv/bin/hf-longseq spt --recipe demo --inits scratch spt scratch-tied@steps --seeds 0 1 2 \
    --output_dir runs/demo --jobs 2 "$@"
