#!/usr/bin/env bash
# One example of docs/examples on real data: bash scripts/examples.sh wrist-sensors [options of hf-longseq compare]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name="${1:-}"
if [ ! -f "docs/examples/$name.yaml" ]; then
    echo "Name an example: $(cd docs/examples && ls ./*.yaml | sed 's|^./||; s|.yaml$||' | paste -sd' ')" >&2
    exit 2
fi
shift
source scripts/install.sh
"$PYTHON" docs/examples/get_data.py "$name" --out runs/examples
exec .venv/bin/hf-longseq compare --recipe "docs/examples/$name.yaml" --inits scratch,spt-masked --seeds 0 1 2 \
    --output_dir "runs/examples/$name" --jobs 2 "$@"
