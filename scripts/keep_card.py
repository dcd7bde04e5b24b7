"""Puts the card of a finished run, and its checkpoint if that is small, into model_cards/ for review.

python scripts/keep_card.py RUN NAME

The folder is the one that `hf-longseq publish` would upload, without the model code, which is src/hf_longseq/models
here, and without weights above 2 MB.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import publish
from hf_longseq.training.run_folder import replace_folder

CARDS = Path(__file__).parents[1] / "model_cards"
MAX_BYTES = 2_000_000


def main(run: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / name
        publish(run, f"hf-longseq/{name}", dry_run=True, output_dir=built)
        for path in built.glob("*.py"):
            path.unlink()
        for path in (built / "config.json", built / "preprocessor_config.json"):
            if path.is_file():
                content = {key: value for key, value in json.loads(path.read_text()).items() if key != "auto_map"}
                path.write_text(json.dumps(content, indent=2) + "\n")
        if (built / "model.safetensors").stat().st_size > MAX_BYTES:
            (built / "model.safetensors").unlink()
        replace_folder(CARDS / name, lambda fresh: shutil.copytree(built, fresh, dirs_exist_ok=True))
    kept = sum(path.stat().st_size for path in (CARDS / name).iterdir())
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
