"""A checkpoint folder opens under every head, with the package and without it."""

import json

import pytest
import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

from fresh_process import answer, run_fresh
from toy_models import SMALL, make_inputs, make_model

CHECKPOINTS = {
    "masked": ("ForMaskedLM", dict(bidirectional=True)),
    "causal": ("ForCausalLM", dict()),
    "values": ("ForPreTraining", dict(input_type="values", num_channels=2, bidirectional=True)),
}
OPEN = """
import json, sys, warnings
from pathlib import Path
import torch
from safetensors.torch import load_file
import transformers
from transformers import AutoConfig, GenerationConfig
IMPORT

def check(ok, what):
    assert ok, what

for folder in sorted(Path("HOME/checkpoints").iterdir()):
    head = json.loads((folder / "config.json").read_text())["architectures"][0]
    head = head[head.index("For"):]
    expected = load_file(folder / "expected" / "io.safetensors")
    inputs = {name: x for name, x in expected.items() if name.startswith("input")}
    config = AutoConfig.from_pretrained(folder, FLAG)
    opens = {"AutoModel": "hidden", "AutoModel" + head: "logits", "AutoModelForSequenceClassification": None}
    if head == "ForCausalLM":
        opens["AutoModelForMaskedLM"] = "logits"
    for auto, key in opens.items():
        model, info = getattr(transformers, auto).from_pretrained(folder, FLAG, output_loading_info=True)
        home = type(model).__module__.split(".")[0]
        check(home == "WHERE", (folder.name, auto, home))
        new = {name.split(".")[0] for name in info["missing_keys"]}
        check(new == (set() if key else {"classifier"}), (folder.name, auto, info))
        check(all(p.isfinite().all() for p in model.parameters()), (folder.name, auto))
        with torch.no_grad():
            out = model.eval()(**inputs)[0]
        if key:
            torch.testing.assert_close(out, expected[key])
    if head == "ForCausalLM":
        GenerationConfig.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, FLAG)
        made = model.generate(inputs["input_ids"], max_new_tokens=3, do_sample=False, pad_token_id=0)
        check(torch.equal(made, expected["generated"]), folder.name)
print("opened")
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Folders of every architecture and objective, with what their models compute."""
    home = tmp_path_factory.mktemp("home")
    for arch in SMALL:
        for objective, (head, options) in CHECKPOINTS.items():
            model = make_model(arch, head, **options)
            folder = home / "checkpoints" / f"{arch}-{objective}"
            model.save_pretrained(folder)
            batch = make_inputs(model)
            with torch.no_grad():
                expected = {"logits": model(**batch).logits, "hidden": model.model(**batch).last_hidden_state}
                if head == "ForCausalLM":
                    made = model.generate(batch["input_ids"], max_new_tokens=3, do_sample=False, pad_token_id=0)
                    expected["generated"] = made
            (folder / "expected").mkdir()
            save_file({**batch, **expected}, folder / "expected" / "io.safetensors")
    return home


def script(home, installed: bool) -> str:
    words = {
        "HOME": str(home),
        "IMPORT": "import hf_longseq" if installed else "",
        "FLAG": "trust_remote_code=None" if installed else "trust_remote_code=True",
        "WHERE": "hf_longseq" if installed else "transformers_modules",
    }
    code = OPEN
    for word, value in words.items():
        code = code.replace(word, value)
    return code


# fast: a card's snippets, which open two models without the package, in test_model_card.py
@pytest.mark.slow
@pytest.mark.parametrize("installed", [False, True], ids=["hidden", "installed"])
def test_every_head_opens_in_a_fresh_process(home, installed):
    assert "opened" in answer(run_fresh(script(home, installed), home, hide_package=not installed))


@pytest.mark.parametrize("arch", SMALL)
@pytest.mark.parametrize("objective", CHECKPOINTS)
def test_the_folder_ships_what_it_imports_and_names_every_head(tmp_path, arch, objective):
    head, options = CHECKPOINTS[objective]
    model = make_model(arch, head, **options)
    model.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert set(auto_map) >= {
        "AutoConfig",
        "AutoModel",
        "AutoModelForMaskedLM",
        "AutoModelForCausalLM",
        "AutoModelForPreTraining",
        "AutoModelForSequenceClassification",
    }
    for reference in auto_map.values():
        module, name = reference.split(".")
        assert f"class {name}(" in (tmp_path / f"{module}.py").read_text()
    assert (tmp_path / "generation_config.json").is_file() == (objective == "causal")


def test_a_new_head_is_said_to_be_new(tmp_path, caplog):
    make_model("s4", "ForMaskedLM", bidirectional=True).save_pretrained(tmp_path)
    model, info = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert {name.split(".")[0] for name in info["missing_keys"]} == {"classifier"}
    assert not info["unexpected_keys"]


def test_checkpoints_of_a_plain_trainer_are_self_contained(tmp_path):
    model = make_model("dlr", "ForMaskedLM", bidirectional=True)
    ids = make_inputs(model)["input_ids"].tolist()
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=1, save_steps=1, report_to="none", disable_tqdm=True, use_cpu=True
    )
    rows = Dataset.from_dict({"input_ids": ids, "labels": ids}).with_format("torch")
    Trainer(model=model, args=arguments, train_dataset=rows).train()
    checkpoint = tmp_path / "out" / "checkpoint-1"
    config = json.loads((checkpoint / "config.json").read_text())
    assert config["auto_map"]["AutoModelForSequenceClassification"] == "modeling_dlr.DLRForSequenceClassification"
    assert (checkpoint / "modeling_dlr.py").is_file() and (checkpoint / "ssm_convolution.py").is_file()
