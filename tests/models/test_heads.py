"""What the heads compute: losses on scored positions only, pooled classifiers, pairs, and clear refusals."""

import pytest
import torch
from torch.nn import functional as F

from hf_longseq import (
    LongTransformerConfig,
    LongTransformerModel,
    S4Config,
    S4ForCausalLM,
    S4ForMaskedLM,
    S4ForPreTraining,
    S4ForTokenClassification,
)
from hf_longseq.models.longseq_layers import LongSeqBatchNorm, pool
from toy_models import SMALL, make_inputs, make_model

architectures = pytest.mark.parametrize("variant", SMALL)


def test_masked_loss_is_the_mean_over_masked_positions():
    model = make_model("s4", "ForMaskedLM", bidirectional=True)
    ids = make_inputs(model)["input_ids"]
    labels = torch.full_like(ids, -100)
    labels[0, 2], labels[2, 7] = ids[0, 2], ids[2, 7]
    out = model(ids, labels=labels)
    expected = (F.cross_entropy(out.logits[0, 2], ids[0, 2]) + F.cross_entropy(out.logits[2, 7], ids[2, 7])) / 2
    torch.testing.assert_close(out.loss, expected)


def test_nothing_masked_costs_exactly_nothing():
    model = make_model("s4", "ForMaskedLM", bidirectional=True)
    ids = make_inputs(model)["input_ids"]
    loss = model(ids, labels=torch.full_like(ids, -100)).loss
    loss.backward()
    assert loss.item() == 0.0
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_causal_loss_predicts_the_next_token():
    model = make_model("s4", "ForCausalLM")
    ids = make_inputs(model)["input_ids"]
    out = model(ids, labels=ids)
    expected = F.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(out.loss, expected)


@pytest.mark.parametrize("objective", ["masked", "causal"])
@pytest.mark.parametrize("num_levels", [None, 9])
def test_reconstruction_loss(objective, num_levels):
    model = make_model(
        "s4", "ForPreTraining", input_type="values", num_channels=2, num_levels=num_levels,
        bidirectional=objective == "masked", pretraining_objective=objective,
    )  # fmt: skip
    values = make_inputs(model)["input_values"]
    labels = values if num_levels is None else torch.randint(0, 9, values.shape)
    masked = torch.rand(3, 11) < 0.5
    batch = {"bool_masked_pos": masked} if objective == "masked" else {}
    scored = masked if objective == "masked" else torch.ones(3, 11, dtype=torch.bool)
    labels = labels.masked_fill(~scored[..., None], -100)
    out = model(values, labels=labels, **batch)
    logits, targets = (out.logits, labels) if objective == "masked" else (out.logits[:, :-1], labels[:, 1:])
    keep = targets != -100
    if num_levels is None:
        expected = (logits - targets)[keep].abs().mean()
    else:
        expected = F.cross_entropy(logits[keep], targets[keep])
    torch.testing.assert_close(out.loss, expected)


def test_a_masked_value_cannot_be_seen():
    model = make_model("s4", "ForPreTraining", input_type="values", bidirectional=True)
    values = make_inputs(model)["input_values"]
    masked = torch.zeros(3, 11, dtype=torch.bool)
    masked[:, 4] = True
    changed = values.clone()
    changed[:, 4] = 100.0
    with torch.no_grad():
        torch.testing.assert_close(
            model(values, bool_masked_pos=masked).logits, model(changed, bool_masked_pos=masked).logits
        )
        assert not torch.allclose(model(values).logits, model(values, bool_masked_pos=masked).logits)


@pytest.mark.parametrize("problem", ["single", "multi", "regression", "several targets"])
def test_classification_losses_and_accumulation(problem):
    """The loss is a mean, and with `num_items_in_batch` the losses of the parts add up to that of the whole."""
    labels = {
        "single": torch.tensor([0, 2, 1]),
        "multi": torch.tensor([[1.0, 0, 1], [0, 0, 1], [1, 1, 0]]),
        "regression": torch.tensor([0.5, -1.0, 2.0]),
        "several targets": torch.randn(3, 3),
    }[problem]
    options = dict(num_labels=1) if problem == "regression" else dict(num_labels=3)
    if problem == "several targets":
        options["problem_type"] = "regression"
    model = make_model("s4", "ForSequenceClassification", bidirectional=True, **options)
    ids = make_inputs(model)["input_ids"]
    out = model(ids, labels=labels)
    expected = {
        "single": lambda: F.cross_entropy(out.logits, labels),
        "multi": lambda: F.binary_cross_entropy_with_logits(out.logits, labels),
        "regression": lambda: F.mse_loss(out.logits[:, 0], labels),
        "several targets": lambda: F.mse_loss(out.logits, labels),
    }[problem]()
    torch.testing.assert_close(out.loss, expected)
    items = labels.numel()
    parts = [model(ids[i : i + 1], labels=labels[i : i + 1], num_items_in_batch=items).loss for i in range(3)]
    torch.testing.assert_close(sum(parts), out.loss)
    assert model.config.problem_type == options.get("problem_type")


@pytest.mark.parametrize("problem", ["single", "multi", "regression", "several targets"])
def test_losses_of_labels_at_every_position_and_accumulation(problem):
    """-100 is left out, and with `num_items_in_batch` the losses of the parts add up to that of the whole."""
    draw = torch.Generator().manual_seed(5)
    options = dict(num_labels=1) if problem == "regression" else dict(num_labels=3)
    if problem == "several targets":
        options |= dict(problem_type="regression", label_mean=[1.0, 2.0, 3.0], label_scale=[2.0, 3.0, 4.0])
    if problem == "single":
        labels = torch.randint(0, 3, (3, 11), generator=draw)
    else:
        shape = (3, 11) if problem == "regression" else (3, 11, 3)
        labels = torch.randn(shape, generator=draw)
        labels = (labels > 0).float() if problem == "multi" else labels
    labels[0, :6], labels[2, 3] = -100, -100
    model = make_model("s4", "ForTokenClassification", bidirectional=True, **options)
    ids = make_inputs(model)["input_ids"]
    out = model(ids, labels=labels)
    logits, targets = out.logits, labels
    if problem == "several targets":  # scored as standardised numbers, answered in units
        scale = torch.tensor(options["label_scale"])
        logits, targets = logits / scale, torch.where(labels == -100, labels, labels / scale)
    logits = logits[..., 0] if problem == "regression" else logits
    kept = labels != -100
    expected = {
        "single": lambda: F.cross_entropy(logits[kept], targets[kept]),
        "multi": lambda: F.binary_cross_entropy_with_logits(logits[kept], targets[kept]),
        "regression": lambda: F.mse_loss(logits[kept], targets[kept]),
        "several targets": lambda: F.mse_loss(logits[kept], targets[kept]),
    }[problem]()
    torch.testing.assert_close(out.loss, expected)
    items = kept.sum()
    parts = [model(ids[i : i + 1], labels=labels[i : i + 1], num_items_in_batch=items).loss for i in range(3)]
    torch.testing.assert_close(sum(parts), out.loss)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (torch.tensor([0, 1, 2]), ["(3,)", "(3, 11, 3)", "one class per position"]),
        (torch.full((3, 11), 3), ["class 3", "num_labels 3"]),
        (torch.zeros(3, 11), ["(3, 11)", "one number per position and label"]),
    ],
)
def test_wrong_labels_of_positions_are_named(labels, words):
    model = make_model("s4", "ForTokenClassification", bidirectional=True, num_labels=3)
    with pytest.raises(ValueError) as error:
        model(**make_inputs(model), labels=labels)
    assert all(word in str(error.value) for word in words), error.value


@architectures
def test_pairs_are_encoded_apart_and_joined(variant):
    model = make_model(
        variant, "ForSequenceClassification", bidirectional=True, pair_classification=True, classifier_hidden_size=8
    )
    first, second = make_inputs(model, length=11)["input_ids"], make_inputs(model, length=7)["input_ids"]
    with torch.no_grad():
        a = model.model(first).last_hidden_state.mean(1)
        b = model.model(second).last_hidden_state.mean(1)
        expected = model.classifier(torch.cat([a, b, a - b, a * b], dim=-1))
        torch.testing.assert_close(model(first, input_ids_2=second).logits, expected, atol=1e-5, rtol=1e-4)


def test_pooling_reads_valid_positions_only():
    hidden = torch.tensor([[[9.0], [1.0], [3.0], [9.0]], [[-4.0], [-2.0], [9.0], [9.0]]])
    valid = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]])
    assert pool(hidden, valid, "mean").flatten().tolist() == [2.0, -3.0]
    assert pool(hidden, valid, "max").flatten().tolist() == [3.0, -2.0]
    assert pool(hidden, valid, "first").flatten().tolist() == [1.0, -4.0]
    assert pool(hidden, valid, "last").flatten().tolist() == [3.0, -2.0]


def test_batch_norm_leaves_padding_out():
    norm = LongSeqBatchNorm(5, eps=1e-5)
    norm.reset_parameters()
    reference = torch.nn.BatchNorm1d(5)
    x = torch.randn(4, 6, 5)
    valid = (torch.rand(4, 6) < 0.7).long()
    valid[:, 0] = 1
    out = norm(x.masked_fill(valid[..., None] == 0, 1e4), valid)
    torch.testing.assert_close(out[valid == 1], reference(x[valid == 1]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.running_mean, reference.running_mean)
    torch.testing.assert_close(norm.running_var, reference.running_var)


@pytest.mark.parametrize("reentrant", [False, True])
def test_batch_norm_counts_a_batch_once_under_gradient_checkpointing(reentrant):
    seen = []
    for checkpoints in (False, True):
        torch.manual_seed(0)
        model = make_model("s4", "ForMaskedLM", bidirectional=True, norm="batch", dropout=0.0).train()
        if checkpoints:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        ids = torch.arange(12).reshape(2, 6)
        model(ids, labels=ids).loss.backward()
        seen.append({name: value for name, value in model.state_dict().items() if "running" in name})
    assert seen[0]
    torch.testing.assert_close(seen[1], seen[0], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_batch_norm_trains_after_a_cast(dtype):
    norm, reference = LongSeqBatchNorm(5, eps=1e-5), torch.nn.BatchNorm1d(5)
    norm.reset_parameters()
    norm.to(dtype)
    x = torch.randn(4, 6, 5, dtype=dtype)
    assert norm(x).dtype == dtype
    reference(x.float().flatten(0, 1))
    assert norm.running_var.dtype == dtype
    torch.testing.assert_close(norm.running_var.float(), reference.running_var, atol=0.01, rtol=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(torch.tensor([[1, 30]])), ["input_ids", "30", "29"]),
        (lambda m: m(torch.tensor([[-1, 3]])), ["input_ids", "-1"]),
        (lambda m: m(torch.zeros(2, 0, dtype=torch.long)), ["length 0"]),
        (lambda m: m(torch.ones(2, 3).long(), attention_mask=torch.tensor([[1, 1, 1], [0, 0, 0]])), ["row 1"]),
        (lambda m: m(torch.ones(2, 3).long(), labels=torch.tensor([0, 4])), ["labels", "4", "num_labels"]),
        (lambda m: m(input_values=torch.zeros(2, 3, 1)), ["input_ids", "tokens"]),
        (lambda m: m(torch.ones(1, 3).long(), input_ids_2=torch.ones(1, 3).long()), ["pair_classification"]),
    ],
)
def test_a_wrong_batch_is_named(call, words):
    model = make_model("s4", "ForSequenceClassification", bidirectional=True, num_labels=3)
    with pytest.raises(ValueError) as error:
        call(model)
    assert all(word in str(error.value) for word in words), error.value


def test_wrong_values_are_named():
    model = make_model("s4", "ForPreTraining", input_type="values", num_channels=2, bidirectional=True)
    with pytest.raises(ValueError, match="num_channels"):
        model(torch.zeros(2, 5, 3))
    bad = torch.zeros(2, 5, 2)
    bad[1, 3, 0] = float("nan")
    with pytest.raises(ValueError, match="row 1"):
        model(bad)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: LongTransformerModel(LongTransformerConfig(hidden_size=30, num_attention_heads=10)),
            ["heads of 3", "rotary"],
        ),
        (
            lambda: LongTransformerModel(LongTransformerConfig(hidden_size=30, num_attention_heads=4)),
            ["num_attention_heads", "30"],
        ),
        (lambda: LongTransformerConfig(attention_window=64, max_position_embeddings=32), ["attention_window", "64"]),
        (lambda: LongTransformerConfig(attention_window=0), ["attention_window", "0"]),
        (lambda: S4Config(pooling="median"), ["pooling", "median", "mean"]),
        (lambda: S4Config(norm="group"), ["norm", "group"]),
        (lambda: S4Config(bidirectional=True, pretraining_objective="causal"), ["bidirectional=False"]),
        (lambda: S4ForCausalLM(S4Config(bidirectional=True)), ["bidirectional=False"]),
        (lambda: S4ForMaskedLM(S4Config(input_type="values")), ["input_type", "ForPreTraining"]),
        (lambda: S4ForPreTraining(S4Config()), ["input_type='values'"]),
        (lambda: S4ForTokenClassification(S4Config(pair_classification=True)), ["pair_classification=False"]),
        (lambda: S4Config(problem_type="dual"), ["problem_type"]),
    ],
)
def test_a_wrong_configuration_is_named(build, words):
    with pytest.raises(Exception) as error:
        build()
    assert all(word in str(error.value) for word in words), error.value


def test_a_stated_limit_on_length_holds():
    model = make_model("transformer", "Model", max_position_embeddings=8)
    with pytest.raises(ValueError, match="max_position_embeddings"):
        model(**make_inputs(model, length=9))
