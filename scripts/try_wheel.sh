#!/usr/bin/env bash
# Installs a wheel in an empty environment and trains with it: bash scripts/try_wheel.sh dist/*.whl 3.13 highest [more]
# The last words are further requirements, such as torch==2.13.0. Needs uv, which brings the Python that is asked for.
set -euo pipefail

wheel=$(realpath "$1") python=$2 resolution=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv venv --quiet --python "$python" "$work/venv"
# named once more on their own, for uv takes the lowest versions of what is named, and not of what that needs
unzip -p "$wheel" '*/METADATA' | sed -n 's/^Requires-Dist: \([^;]*\)$/\1/p' >"$work/requirements.txt"
uv pip install --quiet --python "$work/venv" --resolution "$resolution" "$wheel" -r "$work/requirements.txt" "$@"
cd "$work"
export PYTHONPATH= HF_HUB_OFFLINE=1 HF_LONGSEQ_CACHE="$work/cache"
venv/bin/hf-longseq --help >/dev/null
venv/bin/hf-longseq env
venv/bin/hf-longseq spt --task listops --tiny --output_dir trial
venv/bin/python -c '
from transformers import AutoModelForSequenceClassification
print(type(AutoModelForSequenceClassification.from_pretrained("trial/best", trust_remote_code=True)).__name__)'
