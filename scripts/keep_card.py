"""Puts the card of a finished run with its checkpoint, which must be small, into model_cards/ for review.

python scripts/keep_card.py RUN NAME

The folder is the one that `hf-longseq publish` would upload, with links to src/hf_longseq/models in the place of the
model code, so that it opens as it lies.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import publish
from hf_longseq.training.run_folder import replace_folder

CARDS = Path(__file__).parents[1] / "model_cards"
CODE = Path("..", "..", "src", "hf_longseq", "models")
MAX_BYTES = 1_000_000


def main(run: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / name
        publish(run, f"hf-longseq/{name}", dry_run=True, output_dir=built)
        size = (built / "model.safetensors").stat().st_size
        if size > MAX_BYTES:
            raise HfLongSeqError(f"the weights have {size / 1e6:.1f} MB: keep a model below {MAX_BYTES / 1e6:g} MB.")
        for path in built.glob("*.py"):
            path.unlink()
            path.symlink_to(CODE / path.name)
        replace_folder(CARDS / name, lambda fresh: shutil.copytree(built, fresh, symlinks=True, dirs_exist_ok=True))
    kept = sum(path.lstat().st_size for path in (CARDS / name).iterdir())
    print(f"{CARDS / name}: {kept / 1e6:.2f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a finished run")
    parser.add_argument("name", help="of the folder in model_cards/")
    options = parser.parse_args()
    try:
        main(options.run, options.name)
    except HfLongSeqError as error:
        sys.exit(f"keep_card: {error}")
