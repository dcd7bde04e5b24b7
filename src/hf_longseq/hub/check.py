# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens a folder as a stranger would, before it is published: in a new process, offline, without this package.

Every head that fits the model is loaded with the code in the folder, the outputs of the saved head are compared with
those of the source, and the snippets that this package wrote for the card are run. The card itself is not read: what
it shows of records may be written by anybody.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from hf_longseq import models
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run_folder import file_hash

HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_longseq":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
STRANGER = """
import hashlib, json
from pathlib import Path
import torch, transformers
from safetensors.torch import load_file
from transformers import dynamic_module_utils

HEADS = ("classifier.", "lm_head.", "reconstruction_head.")
folder, expected, heads, processors, snippets, hashes = json.loads(sys.argv[1])

def import_known(name, module, *args, load=dynamic_module_utils.get_class_in_module, **options):
    file = Path(dynamic_module_utils.HF_MODULES_CACHE, module)
    for file in (file, *map(Path, dynamic_module_utils.get_relative_import_files(file))):
        same = hashlib.sha256(file.read_bytes()).hexdigest() == hashes.get(file.name)
        assert same, f"{file.name} is not the code of this package"
    return load(name, module, *args, **options)

dynamic_module_utils.get_class_in_module = import_known
io = load_file(expected)
inputs = {name: x for name, x in io.items() if name != "logits"}
for auto, own in heads:
    model, info = getattr(transformers, auto).from_pretrained(
        folder, trust_remote_code=True, dtype="float32", output_loading_info=True
    )
    assert type(model).__module__.startswith("transformers_modules"), f"{auto} did not use the code in the folder"
    lacking = [name for name in sorted(info["missing_keys"]) if own or not name.startswith(HEADS)]
    assert not lacking, f"{auto} lacks {lacking[0]}"
    assert not info["mismatched_keys"], f"{auto} has tensors of another shape"
    if own:
        with torch.no_grad():
            logits = model.eval()(**inputs)[0]
        error = (logits - io["logits"]).abs().max().item()
        assert error <= 1e-4 * (1 + io["logits"].abs().max().item()), f"{auto} differs from the source by {error:.3g}"
for auto, needs_code in processors:
    getattr(transformers, auto).from_pretrained(folder, trust_remote_code=needs_code)
for snippet in snippets:
    exec(compile(snippet, "a snippet of the card", "exec"), {})
"""


@torch.no_grad()
def check_folder(folder: Path, source, repo_id: str, snippets: Sequence[str] = ()) -> None:
    """Raise HfLongSeqError if the folder does not open by itself, or computes something else than the model `source`,
    or if a snippet, code that this package wrote for the card, does not run. No code but this package's is run."""
    hashes = refuse_other_code(folder)
    config, own = source.config, type(source).__name__
    generator = torch.Generator().manual_seed(0)
    if config.input_type == "tokens":
        inputs = {"input_ids": torch.randint(config.vocab_size, (2, 48), generator=generator)}
    else:
        inputs = {"input_values": torch.randn(2, 48, config.num_channels, generator=generator)}
    if config.pair_classification and own.endswith("ForSequenceClassification"):
        inputs |= {f"{name}_2": x.flip(1) for name, x in inputs.items()}
    logits = source.eval().float()(**inputs)[0]
    named = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    heads = [(auto, reference.endswith(f".{own}")) for auto, reference in named.items() if _fits(auto, config)]
    with tempfile.TemporaryDirectory() as scratch:
        expected = Path(scratch) / "expected.safetensors"
        save_file({**{name: x.contiguous() for name, x in inputs.items()}, "logits": logits.contiguous()}, expected)
        _run([str(folder), str(expected), heads, _processors(folder), list(snippets), hashes], scratch, repo_id)


def refuse_other_code(folder: Path) -> dict[str, str]:
    """Raise if a folder holds code other than this package's; returns the hash of every file that it may hold."""
    hashes = {path.name: file_hash(path) for path in Path(models.__file__).parent.glob("*.py")}
    for path in sorted(folder.rglob("*.py")):
        if hashes.get(path.relative_to(folder).as_posix()) != file_hash(path):
            raise HfLongSeqError(f"{path.name} is not the code of this package: it is neither run nor published.")
    return hashes


def _processors(folder: Path) -> list[tuple[str, bool]]:
    """The Auto classes that open what prepares the inputs, and whether their code travels with the model."""
    found = [("AutoTokenizer", False)] if (folder / "tokenizer_config.json").is_file() else []
    if (folder / "preprocessor_config.json").is_file():
        content = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
        found += [(auto, True) for auto in content["auto_map"]]
    return found


def _fits(auto: str, config) -> bool:
    """Whether a head can be built for this kind of model at all."""
    if not auto.startswith("AutoModel"):
        return False
    if auto == "AutoModelForCausalLM":
        return config.input_type == "tokens" and not config.bidirectional
    if auto == "AutoModelForMaskedLM":
        return config.input_type == "tokens"
    return config.input_type == "values" if auto == "AutoModelForPreTraining" else True


def _run(arguments: list, scratch: str, repo_id: str) -> None:
    secrets = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT")
    environment = {name: value for name, value in os.environ.items() if name not in secrets}
    environment |= {"HF_HOME": scratch, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + STRANGER, json.dumps(arguments)],
        env=environment,
        cwd=scratch,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        reason = next(
            (line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit code {done.returncode}"
        )
        raise HfLongSeqError(f"the folder for {repo_id} does not open by itself, so nothing was published: {reason}")
