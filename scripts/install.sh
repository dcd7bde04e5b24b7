#!/usr/bin/env bash
# Makes .venv and installs the package with the tested versions; does nothing when that is already so.
# Sourced by the other scripts, which then use "$PYTHON".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON="$PWD/.venv/bin/python"
stamp=.venv/installed-for
wanted="$PWD $(cat pyproject.toml constraints.txt scripts/install.sh | cksum)"

if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    if [ -L .venv ] || { [ -e .venv ] && [ ! -f "$stamp" ]; }; then
        echo "$PWD/.venv was not made by this script, which would empty it: move it away and run this again." >&2
        exit 1
    fi
    base=""
    for candidate in python3 python3.13 python3.12 python3.11 python3.10 python; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            base="$candidate"
            break
        fi
    done
    if [ -z "$base" ]; then
        echo "No Python >= 3.10 with the venv module was found on PATH; install one and run this again." >&2
        exit 1
    fi
    echo "Installing hf-longseq into .venv with $("$base" --version) (once; a few minutes)"
    "$base" -m venv --clear .venv
    touch "$stamp"  # whoever stops here may start again
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
    echo "$wanted" >"$stamp"
fi
