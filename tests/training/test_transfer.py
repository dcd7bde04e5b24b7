import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_longseq import ARCHITECTURES
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models import S4Config
from hf_longseq.training.assemble import CLASSIFIER, configuration, fresh_model, head_class
from hf_longseq.training.run import load_data
from hf_longseq.training.run_folder import claim_folder
from hf_longseq.training.transfer import load_pretrained, model_section

ARCHS = ("s4", "dlr", "transformer")


@pytest.fixture
def pretrained(tiny, tmp_path):
    """Save an untrained model with its pretraining head; return its folder and the configuration of its classifier."""

    def make(folder="checkpoint", **options):
        recipe = tiny(**options)
        spec = load_data(recipe.data).spec
        config = configuration(recipe.model, recipe.pretrain, spec)
        fresh_model(head_class(recipe.pretrain, spec), config).save_pretrained(tmp_path / folder)
        return tmp_path / folder, configuration(recipe.model, recipe.finetune, spec)

    return make


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("task, head", [("waves", "reconstruction_head"), ("tags", "lm_head"), ("twins", "lm_head")])
@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_the_whole_trunk_is_loaded_and_only_the_heads_change(pretrained, arch, task, head, objective):
    folder, config = pretrained(arch=arch, task=task, pretrain={"objective": objective})
    model, report = load_pretrained(folder, config)
    stored = load_file(folder / "model.safetensors")
    for name, tensor in model.state_dict().items():
        if not name.startswith("classifier."):
            assert torch.equal(tensor[: len(stored[name])], stored[name]), name
            assert tensor.shape == stored[name].shape or name in report.forward
    assert bool(report.forward) == (objective == "causal" and arch != "transformer")
    assert all(name.startswith("classifier.") for name in report.new) and report.new
    assert all(name.startswith(f"{head}.") for name in report.dropped) and report.dropped
    assert len(report.loaded) + len(report.forward) + len(report.new) == len(model.state_dict())


@pytest.mark.parametrize(
    "other, message",
    [
        ({"arch": "dlr"}, "is a longseq_s4 model, but model.arch asks for longseq_dlr"),
        ({"model": {"hidden_size": 32}}, "has hidden_size=16, but this run has hidden_size=32"),
        ({"model": {"num_hidden_layers": 1}}, "has num_hidden_layers=2"),
        ({"model": {"bidirectional": False}}, "has bidirectional=True"),
        ({"task": "tags"}, "reads values, but the data hold tokens"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(pretrained, other, message):
    folder, _ = pretrained()
    _, config = pretrained("other", **other)
    with pytest.raises(HfLongSeqError, match=message):
        load_pretrained(folder, config)


def test_another_task_is_a_note(pretrained, tmp_path):
    folder, config = pretrained()
    stage = tmp_path / "stage"
    claim_folder(stage, {"data": {"task": "heartbeats"}})
    (stage / "resolved.yaml").rename(folder / "resolved.yaml")
    assert load_pretrained(folder, config, task="waves")[1].pretrained_on == "heartbeats"
    assert load_pretrained(folder, config, task="heartbeats")[1].pretrained_on is None


def test_series_of_other_channels_start_with_a_new_embedding(pretrained):
    folder, _ = pretrained()
    _, config = pretrained("other", task="heights")
    _, report = load_pretrained(folder, config)
    embedding = {"model.embed_values.weight", "model.embed_values.bias"}
    assert {name for name in report.new if not name.startswith("classifier.")} == embedding
    assert embedding <= set(report.dropped) and len(report.loaded) > 10


@pytest.mark.parametrize("names, kept", [(("a", "b"), True), (("a", "c"), False), (("a", "b", "c"), False)])
def test_a_classifier_keeps_its_head_for_classes_of_the_same_names(pretrained, tmp_path, names, kept):
    _, config = pretrained()
    config.id2label = {0: "a", 1: "b"}
    config.label2id = {"a": 0, "b": 1}
    fresh_model(CLASSIFIER, config).save_pretrained(tmp_path / "classifier")
    config.id2label = dict(enumerate(names))
    _, report = load_pretrained(tmp_path / "classifier", config)
    assert bool(report.new) != kept and bool(report.dropped) != kept


@pytest.mark.parametrize("change", ["missing", "foreign", "shape"])
def test_a_checkpoint_whose_tensors_do_not_fit_is_refused(pretrained, change):
    folder, config = pretrained()
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if ".mixer." in name)
    if change == "missing":
        del tensors[name]
    elif change == "foreign":
        tensors["model.layers.7.extra"] = torch.zeros(2)
    else:
        tensors[name] = torch.zeros(3, 3, 3)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HfLongSeqError, match="fit"):
        load_pretrained(folder, config)


@pytest.mark.parametrize("written", ['{"model_type": "foo"}', "{", '{"model_type": "longseq_s4", "hidden_size": "x"}'])
def test_a_configuration_that_cannot_be_read_is_named(tmp_path, written):
    (tmp_path / "config.json").write_text(written)
    said = f"init_from {tmp_path} has a configuration that cannot be read: "
    with pytest.raises(HfLongSeqError, match=said):
        load_pretrained(tmp_path, S4Config(vocab_size=5))
    with pytest.raises(HfLongSeqError, match=said):
        model_section(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path, pretrained):
    folder, config = pretrained()
    with pytest.raises(HfLongSeqError, match="holds no config.json"):
        load_pretrained(tmp_path, config)
    (folder / "model.safetensors").unlink()
    with pytest.raises(HfLongSeqError, match="holds no model.safetensors"):
        load_pretrained(folder, config)


def test_damaged_weights_are_refused(pretrained):
    folder, config = pretrained()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(HfLongSeqError, match="cannot be loaded"):
        load_pretrained(folder, config)


def test_pooling_and_dropout_may_differ_between_the_phases(pretrained):
    folder, _ = pretrained()
    _, config = pretrained("other", model={"pooling": "max", "dropout": 0.1})
    model, _ = load_pretrained(folder, config)
    assert (model.config.pooling, model.config.dropout) == ("max", 0.1)
    assert json.loads((folder / "config.json").read_text())["pooling"] == "mean"


@pytest.mark.parametrize("arch", ["s4", "dlr", "lru", "s5", "mega", "cnn"])
def test_the_backward_direction_starts_as_from_scratch_after_causal_pretraining(pretrained, arch):
    folder, config = pretrained(arch=arch, pretrain={"objective": "causal"})
    torch.manual_seed(3)
    scratch = fresh_model(CLASSIFIER, config).state_dict()
    torch.manual_seed(3)
    model, report = load_pretrained(folder, config)
    stored = load_file(folder / "model.safetensors")
    assert model.config.bidirectional and report.forward
    for name, tensor in model.state_dict().items():
        if name in report.forward:
            known = len(stored[name])
            assert torch.equal(tensor[:known], stored[name]) and torch.equal(tensor[known:], scratch[name][known:])
        elif name in report.new:
            assert torch.equal(tensor, scratch[name])


OBJECTIVES = {
    "masked": {"objective": "masked"},
    "causal": {"objective": "causal"},
    "both": {"objective": "causal", "both_directions": True},
}
NO_STEPS = [(arch, objective) for arch in ARCHITECTURES for objective in OBJECTIVES]
NO_STEPS += [("hf:mamba2", "causal"), ("hf:modernbert", "masked")]


@pytest.mark.parametrize("task", ["waves", "tags"])
@pytest.mark.parametrize("arch, objective", NO_STEPS)
def test_pretraining_of_no_steps_gives_the_weights_of_scratch(pretrained, arch, objective, task):
    torch.manual_seed(3)
    folder, config = pretrained(arch=arch, task=task, pretrain=OBJECTIVES[objective])
    torch.manual_seed(3)
    scratch = fresh_model(CLASSIFIER, config).state_dict()
    torch.manual_seed(3)
    model, _ = load_pretrained(folder, config)
    assert all(torch.equal(tensor, scratch[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("task", ["waves", "tags"])
def test_the_whole_trunk_is_loaded_after_causal_pretraining_in_both_directions(pretrained, arch, task):
    folder, config = pretrained(arch=arch, task=task, pretrain={"objective": "causal", "both_directions": True})
    model, report = load_pretrained(folder, config)
    stored = load_file(folder / "model.safetensors")
    assert model.config.bidirectional and not report.forward
    assert all(name.startswith("classifier.") for name in report.new)
    assert all(torch.equal(tensor, stored[name]) for name, tensor in model.state_dict().items() if name in stored)


def test_a_one_directional_classifier_takes_all_of_a_causal_checkpoint(pretrained):
    folder, config = pretrained(model={"bidirectional": False}, pretrain={"objective": "causal"})
    model, report = load_pretrained(folder, config)
    assert not model.config.bidirectional and not report.forward


def test_a_checkpoint_that_looks_ahead_cannot_be_made_causal(pretrained):
    folder, _ = pretrained()
    _, config = pretrained("other", model={"bidirectional": False})
    with pytest.raises(HfLongSeqError, match="bidirectional=True, but this run has bidirectional=False"):
        load_pretrained(folder, config)
