"""Checkpoints of the official code open as ours and compute the same."""

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
)

from golden_files import load_golden, relative_error
from hf_longseq.cli.main import main
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.convert import ConversionOptions, build, convert_checkpoint, convert_tensors
from official_checkpoints import golden_backbone, official_tensors
from toy_models import make_inputs, make_model

BACKBONES = [
    "backbone_s4_postnorm_batch",
    "backbone_s4_prenorm_layer",
    "backbone_dlr_postnorm_layer",
    "backbone_transformer_rotary_prenorm",
]
HEADS = {AutoModel: "hidden", AutoModelForMaskedLM: "lm_logits", AutoModelForSequenceClassification: "class_logits"}


def convert(tensors, **options):
    """Our model made of official tensors, in memory."""
    conversion = convert_tensors(dict(tensors), ConversionOptions(**options))
    return build(conversion), conversion


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("kind", ["safetensors", "state dict", "lightning"])
def test_golden_backbones(tmp_path, name, kind):
    weights, golden = golden_backbone(name)
    path = tmp_path / {"safetensors": "m.safetensors", "state dict": "m.pt", "lightning": "m.ckpt"}[kind]
    if kind == "safetensors":
        save_file(weights, path)
    elif kind == "state dict":
        torch.save(weights, path)
    else:
        torch.save({"state_dict": weights, "hyper_parameters": {"x": Unpicklable()}, "epoch": 1}, path)
    convert_checkpoint(path, tmp_path / "out")
    for auto_class, key in HEADS.items():
        model, info = auto_class.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not info["missing_keys"]
        with torch.no_grad():
            outputs = model.eval()(input_ids=golden["input_ids"])
        assert relative_error(outputs[0], golden[key]) < 1e-5
    record = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert record["source"] == path.name and str(tmp_path) not in json.dumps(record)


class Unpicklable:
    """An object whose class the reader never sees."""

    def __setstate__(self, state):
        raise AssertionError("built")


@pytest.mark.parametrize(
    "variant, options, head",
    [
        ("dlr", dict(bidirectional=True), "ForMaskedLM"),
        ("dlr", dict(), "ForCausalLM"),
        ("dlr", dict(norm="batch", norm_position="post", bidirectional=True), "ForMaskedLM"),
        ("dlr", dict(input_type="values", num_channels=3, bidirectional=True), "ForPreTraining"),
        ("dlr", dict(input_type="values", num_levels=256, bidirectional=True), "ForPreTraining"),
        ("dlr", dict(num_labels=4, pooling="max", bidirectional=True), "ForSequenceClassification"),
        ("dlr", dict(num_labels=4, classifier_hidden_size=16, classifier_act="relu"), "ForSequenceClassification"),
        ("dlr", dict(bidirectional=True, intermediate_size=24), "ForMaskedLM"),
        ("dlr", dict(), "Model"),
        ("transformer", dict(bidirectional=True), "ForMaskedLM"),
        ("transformer", dict(), "ForCausalLM"),
        ("transformer", dict(bidirectional=True, hidden_act="relu", norm_position="post"), "ForMaskedLM"),
        ("transformer-sinusoidal", dict(bidirectional=True, num_labels=3), "ForSequenceClassification"),
        ("transformer-window", dict(bidirectional=True), "ForMaskedLM"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "net.module."])
def test_every_size_is_found_again(variant, options, head, prefix):
    ours = make_model(variant, head, **options)
    told = {}
    if "transformer" in variant:
        told = dict(causal=not ours.config.bidirectional, num_attention_heads=4, activation=ours.config.hidden_act)
        told |= dict(attention_window=ours.config.attention_window, positions=ours.config.position_embedding)
    if head == "ForSequenceClassification":
        told |= dict(pooling=ours.config.pooling)
    tensors = {prefix + name: x for name, x in official_tensors(ours).items()}
    theirs, conversion = convert(tensors, **told)
    assert type(theirs) is type(ours)
    batch = make_inputs(ours)
    with torch.no_grad():
        torch.testing.assert_close(theirs(**batch)[0], ours(**batch)[0], atol=1e-6, rtol=1e-5)


def test_a_value_encoder_without_a_mask_column_gets_one_that_does_nothing():
    ours = make_model("dlr", "ForSequenceClassification", input_type="values", num_channels=2, num_labels=5)
    tensors = official_tensors(ours)
    tensors["encoder.0.weight"] = tensors["encoder.0.weight"][:, :2]
    theirs, conversion = convert(tensors)
    assert theirs.config.num_channels == 2 and any("is not the mask flag" in a for a in conversion.assumptions)
    batch = make_inputs(ours)
    with torch.no_grad():
        torch.testing.assert_close(theirs(**batch).logits, ours(**batch).logits)
        flagged = theirs(**batch, bool_masked_pos=torch.zeros(3, 11)).logits
    torch.testing.assert_close(flagged, ours(**batch).logits)


def test_a_decoder_for_pairs():
    ours = make_model("dlr", "ForSequenceClassification", pair_classification=True, classifier_hidden_size=8)
    tensors = {
        name.replace("output_transform", "retrieval.classifier"): x for name, x in official_tensors(ours).items()
    }
    theirs, _ = convert(tensors)
    assert theirs.config.pair_classification and theirs.config.classifier_act == "gelu"
    batch = make_inputs(ours)
    with torch.no_grad():
        pair = dict(batch, input_ids_2=batch["input_ids"].flip(1))
        torch.testing.assert_close(theirs(**pair).logits, ours(**pair).logits)


@pytest.mark.parametrize(
    "name", ["s4d_inv_bidirectional", "s4d_lin_causal", "s4_dplr_causal_shared_ssm", "s4_dplr_shorter_than_lmax"]
)
def test_state_space_layers_of_every_kind(name):
    golden, meta = load_golden(name)
    width = meta["d_model"]
    weights = {
        "model.layers.0.layer." + key.split(".", 1)[1]: x
        for key, x in golden.items()
        if key.startswith(("param.", "buffer."))
    }
    weights |= {
        "model.layers.0.norm.norm.weight": torch.ones(width),
        "model.layers.0.norm.norm.bias": torch.zeros(width),
    }
    theirs, _ = convert({**weights, "encoder.weight": torch.randn(9, width)})
    assert theirs.config.kernel == ("diagonal" if "s4d" in name else "dplr")
    assert theirs.config.bidirectional == meta["bidirectional"]
    with torch.no_grad():
        assert relative_error(theirs.layers[0].mixer(golden["input"])[0], golden["output"]) < 1e-5


def test_a_language_model_whose_decoder_came_out_empty():
    weights, golden = golden_backbone("backbone_dlr_postnorm_layer")
    bare = without("decoder")(weights)
    assert convert(bare)[1].head == "Model"
    with pytest.raises(HfLongSeqError, match="vocabulary of 20, more than its 16 channels"):
        convert(bare, head="denoising")
    with pytest.raises(HfLongSeqError, match="no decoder"):
        convert(bare, head="classification")
    theirs, _ = convert({**bare, "encoder.weight": weights["encoder.weight"][:12]}, head="denoising", pooling="max")
    ids = golden["input_ids"].clamp(max=11)
    with torch.no_grad():
        out = theirs(input_ids=ids, output_hidden_states=True)
    assert type(theirs).__name__ == "DLRForMaskedLM" and theirs.config.pooling == "max"
    torch.testing.assert_close(out.logits, out.hidden_states[-1][..., :12])


@pytest.mark.parametrize("wrapper", ["_orig_mod.", "module.", "module._orig_mod."])
def test_names_that_compilation_and_data_parallelism_wrapped(wrapper):
    weights, _ = golden_backbone("backbone_dlr_postnorm_layer")
    inner = {name.replace("model.", f"model.{wrapper}", 1): x for name, x in weights.items()}  # the backbone alone
    for wrapped in (inner, {wrapper + name: x for name, x in weights.items()}):
        assert convert(wrapped)[0].state_dict().keys() == convert(weights)[0].state_dict().keys()
    with pytest.raises(HfLongSeqError, match="twice"):
        convert({**weights, **{wrapper + name: x for name, x in weights.items()}})


def test_the_norm_of_a_transposed_layout():
    weights, golden = golden_backbone("backbone_dlr_postnorm_layer")
    transposed = {name: x for name, x in weights.items() if ".norm." not in name}
    for index in range(2):
        transposed[f"model.layers.{index}.norm.norm.m"] = torch.tensor([0.3])
        transposed[f"model.layers.{index}.norm.norm.s"] = torch.tensor([1.7])
        transposed[f"model.layers.{index}.layer.output_linear.0.weight"] = weights[
            f"model.layers.{index}.layer.output_linear.0.weight"
        ][..., None]
    theirs, _ = convert(transposed)
    norm, x = theirs.model.layers[0].mixer_norm, torch.randn(2, 5, 16)
    deviation, mean = torch.std_mean(x, dim=-1, unbiased=False, keepdim=True)
    torch.testing.assert_close(norm(x), 1.7 / deviation * (x - mean + 0.3 * deviation), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind, auto_class", [("values", AutoModelForPreTraining), ("tokens", AutoModelForCausalLM)])
def test_the_command_converts_and_says_what_it_assumed(tmp_path, capsys, kind, auto_class):
    ours = make_model("dlr", "ForPreTraining" if kind == "values" else "ForCausalLM", input_type=kind)
    torch.save(official_tensors(ours), tmp_path / "m.ckpt")
    words = ["convert", str(tmp_path / "m.ckpt"), "--output_dir", str(tmp_path / "out")]
    for _ in range(2):  # the second time replaces what the first has made
        assert main(words) == 0
        assert "assumed: the decoder is for denoising (--head)" in capsys.readouterr().out
    batch = make_inputs(ours)
    with torch.no_grad():
        opened = auto_class.from_pretrained(tmp_path / "out").eval()
        torch.testing.assert_close(opened(**batch).logits, ours(**batch).logits)


def without(word):
    return lambda tensors: {name: x for name, x in tensors.items() if word not in name}


def plus(name, value):
    return lambda tensors: {**tensors, name: value}


@pytest.mark.parametrize(
    "change, options, message",
    [
        (plus("model.layers.0.layer.gate.weight", torch.ones(2)), {}, "gate.weight"),
        (plus("optimizer.state", torch.ones(2)), {}, "optimizer.state"),
        (plus("encoder.embedding.cls", torch.ones(2)), {}, "encoder.embedding.cls"),
        (plus("decoder.conv.weight", torch.ones(2, 2, 2)), {}, "decoder.conv.weight"),
        (plus("encoder.weight", torch.ones(20, 15)), {}, "fit"),
        (plus("encoder.weight", torch.full((20, 16), torch.nan)), {}, "not finite"),
        (plus("encoder.pe", torch.randn(20, 16)), {}, "positions"),
        (plus("model.layers.1.layer.D", torch.ones(1, 15)), {}, "15"),
        (
            plus("model.layers.1.layer.output_linear.0.weight", torch.ones(16, 16)),
            {},
            "has shape (16, 16)",
        ),
        (plus("model.layers.0.layer.kernel.W", torch.ones(3, 16, 64, 2)), {}, "mode_weight_W has shape"),
        (without("kernel.W"), {}, "mode_weight_W"),
        (without("layers.0."), {}, "numbered"),
        (without("layers"), {}, "no single backbone"),
        (without("encoder"), {}, "no encoder weight"),
        (without("norm"), {}, "no tensors"),
        (without("nothing"), {"positions": "rotary"}, "positions"),
        (without("nothing"), {"causal": True}, "--causal"),
        (without("decoder_lm"), {"head": "denoising"}, "lm_head"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(change, options, message):
    weights, _ = golden_backbone("backbone_dlr_postnorm_layer")
    with pytest.raises(HfLongSeqError) as error:
        convert(change(weights), **options)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change, options, message",
    [
        (without("rope"), {}, "--num_attention_heads"),
        (without("rope"), {"num_attention_heads": 3}, "does not divide"),
        (without("nothing"), {"num_attention_heads": 3}, "--num_attention_heads is 3"),
        (without("nothing"), {"positions": "sinusoidal"}, "--positions"),
        (without("layer.ff"), {}, "numbered"),
        (without("nothing"), {"activation": "no-such"}, "no-such"),
    ],
)
def test_options_of_the_transformer_are_checked(change, options, message):
    weights, _ = golden_backbone("backbone_transformer_rotary_prenorm")
    with pytest.raises(HfLongSeqError, match=message):
        convert(change(weights), **options)


def test_nothing_is_written_over_and_nothing_half_written(tmp_path, capsys):
    weights, _ = golden_backbone("backbone_dlr_postnorm_layer")
    save_file(weights, tmp_path / "m.safetensors")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    words = ["convert", str(tmp_path / "m.safetensors"), "--output_dir"]
    assert main([*words, str(tmp_path / "mine")]) == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    assert main([*words, str(tmp_path / "new"), "--positions", "rotary"]) == 2
    assert main(["convert", str(tmp_path / "none.ckpt"), "--output_dir", str(tmp_path / "new")]) == 2
    assert all(line.startswith("hf-longseq: error: ") for line in capsys.readouterr().err.splitlines())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.safetensors", "mine"]
