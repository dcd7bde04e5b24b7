#!/usr/bin/env bash
# Builds the documentation site into build/site; a broken link is an error: bash scripts/site.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source=build/site-source # the pages link to results and cards beside docs/, so all of them are staged in one tree
rm -rf "$source" && mkdir -p "$source"
git ls-files README.md CONTRIBUTING.md CHANGELOG.md LICENSE CITATION.cff '*.md' '*.png' '*.html' '*.json' '*.yaml' |
    grep -E '^[A-Z][^/]*$|^(docs|results|model_cards|benchmarks|scripts)/|^src/hf_longseq/data/embedded/.*\.md$' |
    tar --create --files-from=- | tar --extract --directory "$source"
export NO_MKDOCS_2_WARNING=1
exec "${PYTHON:-python}" -m mkdocs build --strict --quiet --site-dir build/site "$@"
