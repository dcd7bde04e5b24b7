"""Architectures of transformers as `hf:...`: the same commands, the same rules, tokens and values."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

from hf_longseq import Recipe, evaluate, finetune, predict, pretrain
from hf_longseq.comparison import spt
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models.configuration_adapter import looks_back_only
from hf_longseq.training import run_folder
from hf_longseq.training.assemble import configuration, fresh_model, head_class
from hf_longseq.training.hf_architectures import base_config, commit_of
from hf_longseq.training.run import load_data
from hf_longseq.training.transfer import load_pretrained, spelled, start_from_weights

ENCODERS = ("bert", "roberta", "modernbert", "longformer")
DECODERS = ("gpt_neox", "llama", "mamba2")
every_type = pytest.mark.parametrize("model_type", [*ENCODERS, *DECODERS])


@pytest.fixture
def toy(tiny):
    """A tiny recipe of a type, with the objective that it can do."""

    def make(model_type, task="tags", **sections):
        objective = "causal" if model_type in DECODERS else "masked"
        pretraining = {"objective": objective, "max_steps": 2, "eval_steps": 1, **sections.pop("pretrain", {})}
        short = {"max_steps": 2, "eval_steps": 1}
        return tiny(task, f"hf:{model_type}", pretrain=pretraining, finetune=short, scratch=short, **sections)

    return make


def parts(recipe):
    """The task's description, and a fresh model of pretraining."""
    spec = load_data(recipe.data).spec
    torch.manual_seed(0)
    return spec, fresh_model(head_class(recipe.pretrain, spec), configuration(recipe.model, recipe.pretrain, spec))


@every_type
def test_the_trunk_is_taken_over_whole_for_tokens_and_for_values(toy, model_type, tmp_path):
    for task in ("twins", "heights"):
        recipe = toy(model_type, task)
        spec, model = parts(recipe)
        model.save_pretrained(tmp_path / task)
        config = configuration(recipe.model, recipe.finetune, spec)
        classifier, report = load_pretrained(tmp_path / task, config)
        own = classifier.state_dict()
        trunk = AutoModel.from_pretrained(tmp_path / task).state_dict()
        ending = {name: next((own[key] for key in own if key.endswith(name)), None) for name in trunk}
        for name, tensor in trunk.items():
            if not name.startswith("pooler."):
                assert torch.equal(ending[name], tensor), name
        assert len(report.loaded) + len(report.new) == len(own)
        head = ("classifier.", "score.", "head.")
        assert all(name.startswith(head) or ".pooler." in name for name in report.new) and report.new
        heads = ("lm_head.", "cls.", "head.", "decoder.", "embed_out.", "reconstruction_head.")
        assert all(name.startswith(heads) for name in report.dropped) and report.dropped


@pytest.mark.parametrize("model_type, task", [("modernbert", "tags"), ("mamba2", "waves")])
def test_both_phases_evaluation_and_prediction(toy, model_type, task, tmp_path):
    recipe = toy(model_type, task)
    first = pretrain(recipe, tmp_path / "first")
    second = finetune(recipe, tmp_path / "second", init_from=first.output_dir)
    assert second.metrics["transfer"]["loaded"] > 10
    for run in (first, second):
        split = "validation"
        scores = evaluate(run.output_dir, split=split)
        assert scores["loss"] == pytest.approx(run.metrics["validation"]["loss"], rel=1e-5)
    assert len(predict(second.output_dir, limit=3)) == 3
    saved = json.loads((second.output_dir / "config.json").read_text())
    own_class = model_type == "modernbert"
    assert saved["model_type"] == (model_type if own_class else "longseq_adapter")
    assert AutoModelForSequenceClassification.from_pretrained(second.output_dir).config.num_labels == 2


def test_a_row_beside_our_own_architecture(toy, tmp_path):
    settings = toy("bert", "waves").to_dict()
    ours = {"hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
    settings["variants"] = {"s4": {"model": {"arch": "s4", **ours}}}
    table = spt(settings, tmp_path / "plan", seeds=[0], inits=("scratch", "spt")).table()
    assert "bert " in table and "S4 " in table
    assert (tmp_path / "plan" / "runs" / "hf-bert-spt-s0" / "metrics.json").is_file()


def test_an_interrupted_run_goes_on_with_the_same_weights(toy, tmp_path):
    recipe = toy("gpt_neox", pretrain={"max_steps": 4, "eval_steps": 2})
    whole = pretrain(recipe, tmp_path / "whole")

    def stop(label, step, total, text):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(recipe, tmp_path / "parts", listener=stop)
    again = pretrain(recipe, tmp_path / "parts")
    expected = load_file(whole.output_dir / "model.safetensors")
    for name, tensor in load_file(again.output_dir / "model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("model_type", ["bert", "gpt_neox"])
def test_accumulation_gives_the_weights_of_one_large_batch(toy, model_type, tmp_path):
    weights = []
    for micro in (8, 2):  # the heads of transformers would divide by the number of batches, or not at all
        recipe = toy(model_type, pretrain={"per_device_train_batch_size": micro}, model=without_dropout(model_type))
        run = pretrain(recipe, tmp_path / f"{micro}")
        weights.append(load_file(run.output_dir / "model.safetensors"))
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], atol=2e-5, rtol=1e-4)


def without_dropout(model_type):
    return {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if model_type == "bert" else {}


def test_biases_norms_and_state_space_parameters_are_not_decayed(toy, tmp_path):
    from transformers import TrainingArguments

    from hf_longseq.training.trainer import LongSeqTrainer

    _, model = parts(toy("mamba2"))
    trainer = LongSeqTrainer(model=model, args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True))
    decayed = set(trainer.get_decay_parameter_names(model))
    assert "backbone.layers.0.mixer.in_proj.weight" in decayed
    kept = {name for name, tensor in model.named_parameters() if tensor.ndim < 2}
    assert kept and not kept & decayed


@every_type
def test_the_longest_sequence_has_a_position(toy, model_type):
    recipe = toy(model_type, model={"max_position_embeddings": 4} if model_type != "mamba2" else {})
    spec, model = parts(recipe)
    ids = torch.full((1, spec.max_length), 3)
    assert model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.shape[1] == spec.max_length


@pytest.mark.parametrize(
    "arch, message",
    [
        ("hf:modrenbert", "did you mean 'modernbert'"),
        ("hf:vit", "neither a masked nor a causal language-model head"),
        ("hf:wav2vec2", "neither a masked nor a causal language-model head"),
        ("hf:bart", "is an encoder-decoder"),
        ("hf:gemma3", "is composed of several models"),
        ("hf:fnet", "takes no attention_mask"),
        ("hf:xlnet", "sees both sides, and has no masked language-model head"),
        ("hf:bert-generation", "sees both sides, and has no masked language-model head"),
        ("hf:./nowhere", "or a folder that exists"),
        ("hf:nobody/nothing", "the configuration of 'nobody/nothing' cannot be read"),
        ("modernbert", "those of transformers as hf:TYPE"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_sentence(tiny, arch, message):
    with pytest.raises(HfLongSeqError, match=message) as error:
        tiny("tags", arch)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("model_type, wrong", [("mamba2", "masked"), ("bert", "causal")])
@pytest.mark.parametrize("task", ["tags", "waves"])
def test_an_objective_that_the_architecture_cannot_do_is_refused_before_training(
    toy, model_type, wrong, task, tmp_path
):
    recipe = toy(model_type, task, pretrain={"objective": wrong})
    other = {"masked": "causal", "causal": "masked"}[wrong]
    with pytest.raises(HfLongSeqError, match=f"'{wrong}', but hf:{model_type} .* can do {other} pretraining"):
        pretrain(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    configuration(recipe.model, recipe.finetune, load_data(recipe.data).spec)  # fine-tuning alone has no objective


@pytest.mark.parametrize(
    "arch, task, model, objective, message",
    [
        ("hf:bert", "waves", {"bidirectional": True}, "masked", "bert sees both sides already"),
        ("hf:mamba2", "waves", {"bidirectional": "twice"}, "masked", "bidirectional is 'twice'; choose one of"),
        ("hf:mamba2", "waves", {"direction_join": "product"}, "masked", "direction_join is 'product'; choose one of"),
        ("hf:xlstm", "tags", {}, "causal", "takes no attention_mask .* set model.bidirectional to true"),
        ("hf:codegen", "tags", {"bidirectional": None}, "masked", "set model.bidirectional to true"),
        ("hf:gemma4_text", "waves", {}, "causal", "embeds token ids, .* set model.hidden_size_per_layer_input to 0"),
    ],
)
def test_directions_that_cannot_be_are_refused(tiny, arch, task, model, objective, message):
    recipe = tiny(task, arch, model=model, pretrain={"objective": objective})
    with pytest.raises(HfLongSeqError, match=message):
        settings = recipe.finetune if objective == "masked" and task == "waves" else recipe.pretrain
        configuration(recipe.model, settings, load_data(recipe.data).spec)


@pytest.mark.parametrize("task, directions", [("tags", True), ("waves", "separate")])
def test_a_causal_trunk_that_reads_both_ways_does_masked_pretraining(tiny, task, directions, tmp_path):
    short = {"max_steps": 2, "eval_steps": 1}
    model = {"bidirectional": directions, "direction_join": "concat"}
    recipe = tiny(task, "hf:mamba2", model=model, pretrain=short, finetune=short, scratch=short)
    first = pretrain(recipe, tmp_path / "first")
    second = finetune(recipe, tmp_path / "second", init_from=first.output_dir)
    report = second.metrics["transfer"]
    assert report["new"] and all(name.startswith("classifier.") for name in report["new"])
    assert all(name.startswith(("lm_head.", "reconstruction_head.")) for name in report["dropped"])
    assert evaluate(second.output_dir, split="test")["loss"] > 0 and len(predict(second.output_dir, limit=3)) == 3


def test_a_decoder_that_is_told_to_be_one_may_predict(toy):
    recipe = toy("bert", pretrain={"objective": "causal"}, model={"is_decoder": True})
    _, model = parts(recipe)
    assert type(model).__name__ == "BertLMHeadModel" and looks_back_only(model.config)
    config = configuration(recipe.model, recipe.finetune, load_data(recipe.data).spec)
    assert config.model_type == "longseq_adapter"  # its own classifier reads the first token, which saw nothing


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"hidden_siz": 8}, "did you mean 'hidden_size'"),
        ({"vocab_size": 8}, "is set from the task"),
        ({"hidden_size": "wide"}, "give a whole number"),
        ({"hidden_size": 15}, "hidden_size|hidden size"),
        ({"state_size": 8}, "is not a field of architecture 'hf:"),
        ({"pooling": "middle"}, "pooling"),
        ({"pretrained": True}, "is a type without weights"),
    ],
)
def test_a_wrong_field_is_named(toy, fields, message):
    with pytest.raises(HfLongSeqError, match=message):
        recipe = toy("bert", "waves", model=fields)
        config = configuration(recipe.model, recipe.finetune, load_data(recipe.data).spec)
        fresh_model(AutoModelForSequenceClassification, config)


def test_a_stated_pooling_takes_our_head_on_tokens_too(toy):
    recipe = toy("bert", model={"pooling": "max"})
    config = configuration(recipe.model, recipe.finetune, load_data(recipe.data).spec)
    assert (config.model_type, config.pooling, config.input_type) == ("longseq_adapter", "max", "tokens")


def test_variants_named_after_architectures_hold_for_them_alone():
    source = {
        "model": {"arch": "s4", "hidden_size": 8},
        "data": {"task": "tags"},
        "variants": {"hf:bert": {"model": {"num_attention_heads": 2}}},
    }
    assert "num_attention_heads" not in Recipe.load(source, arch="s4").model.fields
    assert Recipe.load(source, arch="hf:bert").model.fields == {"hidden_size": 8, "num_attention_heads": 2}


@pytest.mark.parametrize("name", ["listops/modernbert", "listops/pythia-70m"])
def test_a_shipped_recipe_runs_at_toy_size_without_a_network(name, tmp_path):
    recipe = Recipe.load(name, {phase: {"max_steps": 1} for phase in ("pretrain", "finetune")}, tiny=True)
    first = pretrain(recipe, tmp_path / "first")
    assert finetune(recipe, tmp_path / "second", init_from=first.output_dir).metrics["transfer"]["loaded"] > 10


# Pretrained weights


@pytest.fixture
def foundation(tmp_path):
    """A folder with a pretrained toy GPT-NeoX of 40 tokens and 16 positions, and its tokenizer."""
    torch.manual_seed(5)
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    config = AutoConfig.for_model("gpt_neox", vocab_size=40, max_position_embeddings=16, **sizes)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "foundation")
    words = {word: index for index, word in enumerate(["<end>", *map(str, range(30)), "[MAX"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(tmp_path / "foundation")
    return tmp_path / "foundation"


def start(tiny, arch, task, **model):
    objective = "masked" if model.get("bidirectional") else "causal"
    recipe = tiny(
        task, arch, pretrain={"objective": objective}, model={"hidden_size": 16, "pretrained": None, **model}
    )
    recipe.model.fields = model  # without the toy sizes, which the weights already have
    spec = load_data(recipe.data).spec
    torch.manual_seed(0)
    config = configuration(recipe.model, recipe.finetune, spec)
    model = fresh_model(AutoModelForSequenceClassification, config)
    return model, start_from_weights(model, recipe.model, spec)


def test_weights_that_are_not_safetensors_are_refused(tiny, foundation):
    tensors = load_file(foundation / "model.safetensors")
    (foundation / "model.safetensors").unlink()
    torch.save(tensors, foundation / "pytorch_model.bin")
    with pytest.raises(HfLongSeqError, match="cannot be loaded: .*model.safetensors"):
        start(tiny, f"hf:{foundation}", "tags")


@pytest.mark.parametrize("task", ["tags", "waves"])
def test_a_folder_gives_configuration_and_weights(tiny, foundation, task):
    model, report = start(tiny, f"hf:{foundation}", task)
    given = AutoModel.from_pretrained(foundation).state_dict()
    name = "layers.1.attention.dense.weight"
    assert torch.equal(next(tensor for key, tensor in model.state_dict().items() if key.endswith(name)), given[name])
    assert "embed_out.weight" in report.dropped and "gpt_neox.embed_in.weight" in report.dropped
    assert all("layers." not in key for key in (*report.new, *report.dropped))


def test_both_directions_start_from_the_same_pretrained_weights(tiny, foundation):
    model, report = start(tiny, f"hf:{foundation}", "tags", bidirectional="separate", direction_join="concat")
    own, given = model.state_dict(), AutoModel.from_pretrained(foundation).state_dict()
    for name in ("layers.1.attention.dense.weight", "final_layer_norm.bias"):
        assert torch.equal(own[f"model.backbone.{name}"], given[name])
        assert torch.equal(own[f"model.backbone_reverse.{name}"], given[name])
    assert not any("layers." in name for name in report.new) and "model.join.weight" in report.new


def test_symbols_start_as_the_embeddings_of_their_spelling(tiny, foundation):
    model, report = start(tiny, "hf:gpt_neox", "tags", pretrained=str(foundation))
    rows = AutoModel.from_pretrained(foundation).get_input_embeddings().weight
    own = model.get_input_embeddings().weight
    assert own.shape == (9, 16) and torch.equal(own[7], rows[8])  # "7" is token 8; id 1 masks and has no counterpart
    assert not torch.equal(own[1], rows[2]) and "gpt_neox.embed_in.weight" in report.new


def test_spellings_of_symbols_bytes_and_levels(foundation):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(foundation)
    symbols = TaskSpec("s", "tokens", 9, vocab_size=4, eos_token_id=0, vocabulary=("[EOS]", "[MAX", "7", "X"))
    assert spelled(symbols, tokenizer) == [[0], [31], [8], [0]]
    levels = TaskSpec("p", "tokens", 9, vocab_size=13, pad_token_id=12, image_shape=(3, 3))
    assert spelled(levels, tokenizer)[10:] == [[11], [12], []]


def test_pretrained_false_keeps_the_configuration_alone(tiny, foundation):
    model, report = start(tiny, f"hf:{foundation}", "waves", pretrained=False)
    assert report is None and model.config.backbone_config.hidden_size == 16


def test_weights_of_another_size_or_type_are_refused(tiny, foundation):
    with pytest.raises(HfLongSeqError, match="does not fit this model|cannot be loaded"):
        start(tiny, f"hf:{foundation}", "waves", hidden_size=8)
    with pytest.raises(HfLongSeqError, match="holds a gpt_neox model, but model.arch is 'hf:llama'"):
        start(tiny, "hf:llama", "waves", pretrained=str(foundation))
    tensors = load_file(foundation / "model.safetensors")
    del tensors["gpt_neox.layers.1.attention.dense.weight"]
    save_file(tensors, foundation / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HfLongSeqError, match="lacks layers.1.attention.dense.weight"):
        start(tiny, f"hf:{foundation}", "waves")


def test_learned_positions_cannot_grow(tiny, tmp_path):
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    config = AutoConfig.for_model("bert", vocab_size=40, max_position_embeddings=16, **sizes)
    AutoModel.from_config(config).save_pretrained(tmp_path / "short")
    recipe = tiny("waves", f"hf:{tmp_path / 'short'}")
    recipe.model.fields = {}
    with pytest.raises(HfLongSeqError, match="has learned 16 positions, but the sequences of the task have up to 20"):
        configuration(recipe.model, recipe.pretrain, load_data(recipe.data).spec)


@pytest.mark.parametrize("field, value", [("init_normal", 0.1), ("init", "mimetic")])
def test_a_random_initialisation_of_pretrained_weights_contradicts_itself(tiny, foundation, field, value):
    recipe = tiny("waves", f"hf:{foundation}", model={field: value})
    recipe.model.fields = {"init": value} if field == "init" else {}
    with pytest.raises(HfLongSeqError, match=f"model.{field} and the weights of .* exclude each other"):
        configuration(recipe.model, recipe.finetune, load_data(recipe.data).spec)


def test_a_mimetic_initialisation_is_for_mamba_behind_the_adapter(tiny):
    with pytest.raises(HfLongSeqError, match="on tokens is transformers' own class: set model.bidirectional to true"):
        recipe = tiny("tags", "hf:mamba2", model={"init": "mimetic"}, pretrain={"objective": "causal"})
        configuration(recipe.model, recipe.pretrain, load_data(recipe.data).spec)
    with pytest.raises(HfLongSeqError, match="init is 'mimetic', which is for trunks of mamba and mamba2"):
        recipe = tiny("waves", "hf:llama", model={"init": "mimetic"}, pretrain={"objective": "causal"})
        configuration(recipe.model, recipe.pretrain, load_data(recipe.data).spec)
    with pytest.raises(HfLongSeqError, match="init_normal would redraw what model.init=mimetic set"):
        tiny("waves", "transformer", model={"init": "mimetic", "init_normal": 0.1, "num_attention_heads": 2})


def test_a_run_starts_from_pretrained_weights_and_says_so(tiny, foundation, tmp_path):
    sections = {"pretrain": {"objective": "causal", "max_steps": 1}, "model": {"pretrained": str(foundation)}}
    run = pretrain(tiny("tags", "hf:gpt_neox", **sections), tmp_path / "run")
    assert run.metrics["transfer"]["loaded"] == len(AutoModel.from_pretrained(foundation).state_dict()) - 1
    assert base_config("hf:gpt_neox", str(foundation)).vocab_size == 40


def test_the_commit_of_a_repository_is_recorded_and_all_of_it_read_from_there(tiny, foundation, tmp_path, monkeypatch):
    cache, first = tmp_path / "cache" / "models--org--toy", "a" * 40
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache.parent))
    shutil.copytree(foundation, cache / "snapshots" / first)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(first)
    recipe = tiny("tags", "hf:gpt_neox", pretrain={"objective": "causal", "max_steps": 1},
                  model={"pretrained": "org/toy"})  # fmt: skip
    configuration(recipe.model, recipe.pretrain, load_data(recipe.data).spec)
    assert commit_of("org/toy", None) == first
    (cache / "refs" / "main").write_text("b" * 40)  # the branch moves on, to what this process has not begun with
    run = pretrain(recipe, tmp_path / "run")
    assert run.metrics["weights_commit"] == first
    assert f"weights_commit: {first}" in (tmp_path / "run" / "resolved.yaml").read_text()
    assert not run_folder.first_difference({"run": {"weights_commit": first}}, {"run": {"weights_commit": "b" * 40}})


def test_a_checkpoint_with_an_extra_tensor_of_the_trunk_is_refused(toy, tmp_path):
    recipe = toy("bert")
    spec, model = parts(recipe)
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["bert.encoder.layer.7.extra"] = torch.zeros(2)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HfLongSeqError, match="also holds bert.encoder.layer.7.extra"):
        load_pretrained(tmp_path, configuration(recipe.model, recipe.finetune, spec))


def test_a_checkpoint_of_another_architecture_is_refused(toy, tmp_path):
    _, model = parts(toy("bert"))
    model.save_pretrained(tmp_path)
    other = toy("roberta")
    config = configuration(other.model, other.finetune, load_data(other.data).spec)
    with pytest.raises(HfLongSeqError, match="is a bert model, but model.arch asks for roberta"):
        load_pretrained(tmp_path, config)
