"""Converted checkpoints are published as well: the card says where the weights come from and claims no results."""

import hashlib
import json

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import save_file

from fresh_process import answer, run_fresh
from golden_files import relative_error
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.convert import ConversionOptions, convert_checkpoint
from hf_longseq.hub.publish import publish
from hf_longseq.hub.records import read_converted
from official_checkpoints import golden_backbone

REPO = "longseq-tests/converted"


@pytest.fixture
def converted(tmp_path):
    """A checkpoint with a denoising decoder and a classifier, converted; and what the official code computed."""
    weights, golden = golden_backbone("backbone_s4_postnorm_batch")
    save_file(weights, tmp_path / "last.safetensors")
    convert_checkpoint(tmp_path / "last.safetensors", tmp_path / "converted", ConversionOptions(pooling="mean"))
    return tmp_path / "converted", golden


@pytest.mark.slow
def test_a_converted_checkpoint_is_published_with_all_its_heads(online, converted, tmp_path, capsys):
    folder, golden = converted
    assert main(["publish", str(folder), "--repo_id", REPO, "--license", "mit"]) == 0
    assert f"published: {online.url}/{REPO}" in capsys.readouterr().out
    torch.save(golden, tmp_path / "golden.pt")
    code = f"""
    import torch
    from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification
    golden = torch.load({str(tmp_path / "golden.pt")!r}, weights_only=True)
    found = []
    for auto, key in ((AutoModelForMaskedLM, "lm_logits"), (AutoModelForSequenceClassification, "class_logits")):
        model = auto.from_pretrained({REPO!r}, trust_remote_code=True).eval()
        with torch.no_grad():
            found.append(model(input_ids=golden["input_ids"]).logits)
    torch.save(found, {str(tmp_path / "found.pt")!r})
    """
    home = tmp_path / "stranger"
    home.mkdir()
    answer(run_fresh(code, home, hide_package=True, **online.environment(home)))
    masked, classes = torch.load(tmp_path / "found.pt", weights_only=True)
    assert relative_error(masked, golden["lm_logits"]) < 1e-4
    assert relative_error(classes, golden["class_logits"]) < 1e-4

    card = ModelCard(online.repo(REPO).files["README.md"].decode())
    assert card.data.license == "mit" and card.data.pipeline_tag is None and not card.data.eval_results
    source = hashlib.sha256((tmp_path / "last.safetensors").read_bytes()).hexdigest()
    for said in (
        "last.safetensors",
        source,
        "hf-longseq convert last.safetensors --output_dir converted --pooling mean",
    ):
        assert said in card.text, said
    assert "None" not in card.text.replace("[None]", "") and "## Results" not in card.text
    assert str(tmp_path) not in "".join(map(str, online.repo(REPO).files.values()))


@pytest.mark.parametrize("check", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_checkpoint_without_a_head_is_checked_and_described_too(tmp_path, check, request):
    if not check:
        request.getfixturevalue("unchecked")
    weights, _ = golden_backbone("backbone_dlr_postnorm_layer")
    save_file({name: x for name, x in weights.items() if "decoder" not in name}, tmp_path / "bare.safetensors")
    convert_checkpoint(tmp_path / "bare.safetensors", tmp_path / "converted")
    done = publish(tmp_path / "converted", REPO, dry_run=True, output_dir=tmp_path / "built")
    assert done.usage.startswith("from transformers import AutoModel\n")
    assert {"README.md", "conversion.json", "model.safetensors", "kernels.png"} <= set(done.files)
    card = (tmp_path / "built" / "README.md").read_text()
    assert card.count("\n```python\n") == 2 and "\n\n\n\n" not in card and "{{" not in card


def test_a_damaged_record_is_said_to_be_damaged(converted, capsys):
    folder, _ = converted
    assert read_converted(folder).command.endswith("--pooling mean")
    for damage in ("{", "[]", json.dumps({"source": 3})):
        (folder / "conversion.json").write_text(damage)
        with pytest.raises(HfLongSeqError, match="is damaged .*convert the checkpoint again|is not readable as JSON"):
            read_converted(folder)
    assert main(["publish", str(folder), "--repo_id", REPO, "--dry_run"]) == 2
    assert "conversion.json is damaged" in capsys.readouterr().err.splitlines()[-1]
