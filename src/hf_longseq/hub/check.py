# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Opens a folder as a stranger would, before it is published: in a new process, offline, without this package.

Every head that fits the model is loaded with the code in the folder. The saved head must give the outputs of the
source, and the snippets that this package wrote for the card must run.
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
    """Check that a folder opens by itself and computes what `source` does, and that the `snippets` of its card run.

    Raises:
        HfLongSeqError: If not, or if it holds other code; that is never run.
    """
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
    """Raise if a folder holds other code than this package's; returns the hashes of the package's files."""
    hashes = {path.name: file_hash(path) for path in Path(models.__file__).parent.glob("*.py")}
    for path in sorted(folder.rglob("*.py")):
        if hashes.get(path.relative_to(folder).as_posix()) != file_hash(path):
            raise HfLongSeqError(f"{path.name} is not the code of this package: it is neither run nor published.")
    return hashes


def _processors(folder: Path) -> list[tuple[str, bool]]:
    """The Auto classes of tokenizer and processor, and whether their code travels with the model."""
    found = [("AutoTokenizer", False)] if (folder / "tokenizer_config.json").is_file() else []
    if (folder / "preprocessor_config.json").is_file():
        content = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
        found += [(auto, True) for auto in content["auto_map"]]
    return found


def _fits(auto: str, config) -> bool:
    """Whether this kind of model can have a head."""
    if not auto.startswith("AutoModel"):
        return False
    if auto == "AutoModelForCausalLM":
        return config.input_type == "tokens" and not config.bidirectional
    if auto == "AutoModelForMaskedLM":
        return config.input_type == "tokens"
    if auto == "AutoModelForTokenClassification":
        return not config.pair_classification
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
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise HfLongSeqError(f"the folder for {repo_id} does not open by itself, so nothing was published: {reason}")
