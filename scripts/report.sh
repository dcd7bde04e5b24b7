#!/usr/bin/env bash
# Writes the report of everything under results/ into results/report/, from the committed JSON alone.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/install.sh"

.venv/bin/hf-longseq report results --output_dir results/report "$@"
