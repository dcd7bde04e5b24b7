"""A stream in pieces gives the answer of one pass, in memory that does not grow."""

import copy

import pytest
import torch
import torch.nn.functional as F

from golden_files import relative_error
from hf_longseq.models.longseq_streaming import LongSeqStream, RunningPool
from hf_longseq.models.ssm_reference import dense_system
from toy_models import CACHED, make_inputs, make_model

VALUES = dict(input_type="values", num_channels=2)
variants = pytest.mark.parametrize("variant", CACHED)


def pieces_of(length, generator):
    start = 0
    while start < length:
        size = int(torch.randint(1, 9, (), generator=generator))
        yield slice(start, min(start + size, length))
        start += size


def feed_in_pieces(stream, inputs, attention_mask=None):
    (name, whole), generator = next(iter(inputs.items())), torch.Generator().manual_seed(2)
    outputs = []
    for part in pieces_of(whole.shape[1], generator):
        mask = None if attention_mask is None else attention_mask[:, part]
        outputs.append(stream.feed(**{name: whole[:, part]}, attention_mask=mask))
    return outputs


@pytest.mark.parametrize(
    ("variant", "pooling"),
    [(name, "mean") for name in CACHED] + [("s4", "max"), ("s4", "first"), ("s4", "last")],
)
@torch.no_grad()
def test_a_classifier_answers_as_in_one_pass_with_and_without_padding(variant, pooling):
    model = make_model(variant, "ForSequenceClassification", bidirectional=False, pooling=pooling)
    inputs, mask = make_inputs(model, batch=5, length=40), torch.ones(5, 40, dtype=torch.long)
    for row, count in ((1, 13), (2, 21)):
        mask[row, :count] = mask[row + 2, 40 - count :] = 0
    stream = model.stream()
    outputs = feed_in_pieces(stream, inputs, mask)
    expected = model(**inputs, attention_mask=mask).logits
    torch.testing.assert_close(outputs[-1].logits, expected, rtol=1e-4, atol=1e-5)
    # before its first real position a row has no answer
    assert outputs[0].logits.isnan().all(1).tolist() == [False, True, True, False, False]
    assert stream.positions == 40


@variants
@torch.no_grad()
def test_other_heads_answer_position_by_position(variant):
    causal = make_model(variant, "ForCausalLM", bidirectional=False)
    values = make_model(variant, "ForPreTraining", bidirectional=False, pretraining_objective="causal", **VALUES)
    labels = make_model(variant, "ForTokenClassification", bidirectional=False, num_labels=3)
    for model in (causal, values, labels):
        inputs = make_inputs(model, length=30)
        logits = torch.cat([output.logits for output in feed_in_pieces(model.stream(), inputs)], dim=1)
        torch.testing.assert_close(logits, model(**inputs).logits, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_numbers_of_a_stream_are_in_their_units():
    units = dict(num_labels=1, label_mean=[80.0], label_scale=[10.0])
    for head in ("ForSequenceClassification", "ForTokenClassification"):
        model = make_model("s4", head, bidirectional=False, **units)
        inputs = make_inputs(model)
        outputs = feed_in_pieces(model.stream(), inputs)
        numbers = torch.cat([output.logits for output in outputs], dim=1) if "Token" in head else outputs[-1].logits
        torch.testing.assert_close(numbers, model(**inputs).logits, rtol=1e-4, atol=1e-4)
        assert numbers.mean() > 50


@torch.no_grad()
def test_base_models_stream_and_reset_begins_anew():
    model = make_model("s4", "Model", bidirectional=False)
    inputs, stream = make_inputs(model), model.stream()
    first = torch.cat([output.last_hidden_state for output in feed_in_pieces(stream, inputs)], dim=1)
    stream.reset()
    again = stream.feed(**inputs).last_hidden_state
    assert stream.positions == inputs["input_ids"].shape[1]
    torch.testing.assert_close(first, again, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["s4", "dlr", "lru", "s5", "cnn"])
@torch.no_grad()
def test_what_is_kept_does_not_grow(variant):
    model = make_model(variant, "ForSequenceClassification", bidirectional=False)
    stream, sizes = model.stream(), set()
    for size in (1, 300, 2, 77):
        mask = torch.ones(2, size, dtype=torch.long)
        mask[1, -1] = 0
        stream.feed(input_ids=torch.randint(5, 30, (2, size)), attention_mask=mask)
        states = [layer.state for layer in stream.cache.layers]
        sizes.add(tuple(x.numel() for x in (*states, stream.pool.kept_BH, stream.pool.count_B1, stream._seen_BL)))
    assert len(sizes) == 1


def reference_logits(model, u_L1):
    """A causal S4 classifier of one layer in float64: no scan and no chunks, but an eigenvalue decomposition of the
    dense step, and one FFT over the whole sequence."""
    mixer, wide = model.model.layers[0].mixer, copy.deepcopy(model).double()
    pairs = (mixer.input_B, mixer.low_rank_P, mixer.output_C[0])
    b, p, c = (torch.view_as_complex(x.double()) for x in pairs)
    w = torch.complex(-mixer.log_neg_A_real.double().exp(), mixer.A_imag.double())
    step_HNN, drive_HN = dense_system(mixer.log_dt.double(), w, b, p)
    poles_HN, vectors_HNN = torch.linalg.eig(step_HNN)
    drive = torch.linalg.solve(vectors_HNN, drive_HN[..., None])[..., 0]
    weights_HN = drive * (torch.cat((c, c.conj()), -1)[:, None] @ vectors_HNN)[:, 0]
    # beyond these lags every mode has decayed to nothing
    taps = min(len(u_L1), 1 << 16)
    assert poles_HN.abs().max() ** taps < 1e-12 or taps == len(u_L1)
    kernel_HT = (weights_HN[..., None] * poles_HN[..., None] ** torch.arange(taps)).sum(1).real

    block = wide.model.layers[0]
    hidden_LH = wide.model.embed_values(F.pad(u_L1.double(), (0, 1)))
    u_HL = block.mixer_norm(hidden_LH).t()
    size = len(u_L1) + taps
    spectrum = torch.fft.rfft(u_HL, n=size) * torch.fft.rfft(kernel_HT, n=size)
    y_HL = torch.fft.irfft(spectrum, n=size)[:, : len(u_L1)] + block.mixer.skip_D[:, None] * u_HL
    hidden_LH = hidden_LH + F.glu(block.mixer.output_projection(F.gelu(y_HL).t()), dim=-1)
    return wide.classifier(wide.model.norm(hidden_LH).mean(0))


@pytest.mark.slow
@torch.no_grad()
def test_a_million_positions_in_uneven_pieces():
    model = make_model(
        "s4",
        "ForSequenceClassification",
        bidirectional=False,
        hidden_size=4,
        num_hidden_layers=1,
        state_size=8,
        input_type="values",
        num_labels=3,
    )
    length, generator = 1_000_000, torch.Generator().manual_seed(3)
    u_L1 = torch.randn(length, 1, generator=generator) + torch.linspace(-1, 1, length)[:, None]
    stream, start, shapes = model.stream(), 0, set()
    while start < length:
        size = int(torch.tensor([1, 3, 1000, 5000, 40_000, 100_000])[torch.randint(6, (), generator=generator)])
        logits = stream.feed(input_values=u_L1[None, start : start + size]).logits
        start += size
        shapes.add(tuple(stream.cache.layers[0].state.shape))
        if start < 200_000:  # on the way, too
            assert relative_error(logits[0], reference_logits(model, u_L1[:start])) < 1e-4
    assert stream.positions == length and shapes == {(1, 4, 8)}
    assert relative_error(logits[0], reference_logits(model, u_L1)) < 1e-4


def test_running_mean_keeps_its_digits():
    pool = RunningPool("mean")
    for _ in range(300):
        pool.update(torch.full((1, 100_000, 1), 0.1), None)
    assert abs(pool.value(torch.float32).item() - 0.1) < 1e-7


def test_what_cannot_stream_is_named():
    with pytest.raises(ValueError, match="bidirectional=False"):
        LongSeqStream(make_model("s4", "ForSequenceClassification", bidirectional=True))
    with pytest.raises(ValueError, match="pairs"):
        LongSeqStream(make_model("s4", "ForSequenceClassification", bidirectional=False, pair_classification=True))
    model = make_model("s4", "ForSequenceClassification", bidirectional=False)
    stream = model.stream()
    stream.feed(input_ids=torch.ones(2, 3, dtype=torch.long))
    for piece, mask, words in (
        (torch.ones(3, 3, dtype=torch.long), None, "began with 2"),
        (torch.ones(2, 0, dtype=torch.long), None, "length 0"),
        (torch.ones(2, 3, dtype=torch.long), torch.ones(2, 6), "this piece only"),
    ):
        with pytest.raises(ValueError, match=words):
            stream.feed(input_ids=piece, attention_mask=mask)
    with pytest.raises(ValueError, match="reads tokens"):
        stream.feed(input_values=torch.ones(2, 3))
    with pytest.raises(ValueError, match="reads tokens"):
        stream.feed()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        model.train().stream().feed(input_ids=torch.ones(2, 3, dtype=torch.long))
