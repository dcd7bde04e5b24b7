"""Puts the card of a finished run with its checkpoint, which must be small, into model_cards/ for review.

python scripts/keep_card.py RUN NAME
python scripts/keep_card.py --links    # after a file of src/hf_longseq/models was added, renamed or removed

The folder is the one that `hf-longseq publish` would upload, with links to src/hf_longseq/models in the place of the
model code, so that it opens as it lies.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from transformers.dynamic_module_utils import get_relative_import_files

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import publish
from hf_longseq.training.run_folder import replace_folder

CARDS = Path(__file__).parents[1] / "model_cards"
SOURCES = Path(__file__).parents[1] / "src" / "hf_longseq" / "models"
CODE = Path("..", "..", "src", "hf_longseq", "models")
MAX_BYTES = 1_000_000


def main(run: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / name
        publish(run, f"hf-longseq/{name}", dry_run=True, output_dir=built)
        size = (built / "model.safetensors").stat().st_size
        if size > MAX_BYTES:
            raise HfLongSeqError(f"the weights have {size / 1e6:.1f} MB: keep a model below {MAX_BYTES / 1e6:g} MB.")
        link_code(built)
        replace_folder(CARDS / name, lambda fresh: shutil.copytree(built, fresh, symlinks=True, dirs_exist_ok=True))
    kept = sum(path.lstat().st_size for path in (CARDS / name).iterdir())
    print(f"{CARDS / name}: {kept / 1e6:.2f} MB")


def link_code(folder: Path) -> None:
    """Put links to the modules that the configuration names, and to those that they import, in the place of code."""
    for path in folder.glob("*.py"):
        path.unlink()
    named = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"].values()
    for module in {SOURCES / f"{name.split('.')[0]}.py" for name in named}:
        for path in (module, *map(Path, get_relative_import_files(module))):
            link = folder / path.name
            if not link.is_symlink():
                link.symlink_to(CODE / path.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", help="folder of a finished run")
    parser.add_argument("name", nargs="?", help="of the folder in model_cards/")
    parser.add_argument("--links", action="store_true", help="link the code of every folder anew")
    options = parser.parse_args()
    if options.links == (options.name is not None):
        parser.error("give RUN and NAME, or --links")
    try:
        if options.links:
            for config in CARDS.glob("*/config.json"):
                link_code(config.parent)
        else:
            main(options.run, options.name)
    except HfLongSeqError as error:
        sys.exit(f"keep_card: {error}")
