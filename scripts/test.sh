#!/usr/bin/env bash
# Runs the tests, offline, in two processes: bash scripts/test.sh [pytest arguments, e.g. -m "not slow"]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/install.sh"

.venv/bin/ruff check .
# the slow test of the demo app needs a browser, and is skipped without one
[[ " $* " == *"not slow"* ]] || bash scripts/install_browser.sh || true
# to compile the drawing of Pathfinder takes longer than the few pictures of the fast tests
[[ " $* " != *"not slow"* ]] || export NUMBA_DISABLE_JIT=1
# one thread per process: at toy sizes threads of one operation only get in each other's way
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
# in the order of the files: by number of tests the longest, which have few, would come last, each alone
exec "$PYTHON" -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
