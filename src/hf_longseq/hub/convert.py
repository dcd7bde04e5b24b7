# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the official code become ours, with the same outputs.

Sizes, norm and norm position, direction and rotary positions follow from the tensors; options say the rest.
`tensor_files.py` reads the file, `official.py` sorts and translates its tensors.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel

from hf_longseq import models
from hf_longseq.errors import HfLongSeqError, explained
from hf_longseq.hub.official import Dense, Official, take_apart, translate_norm
from hf_longseq.hub.records import CONVERSION
from hf_longseq.hub.tensor_files import read_tensors
from hf_longseq.training.run_folder import check_replaceable, file_hash, replace_folder, write_json

GREY_LEVELS = 256


@dataclass(frozen=True)
class ConversionOptions:
    """Facts that tensors leave open; None takes what they say, or the usual choice.

    Args:
        pooling: "mean", "max", "first" or "last"; also says that the decoder classifies.
        positions: "rotary", "sinusoidal" or "none" (Transformer).
        num_attention_heads: known from the rotary frequencies, if there are any.
        activation: of the feed-forward layers; "gelu" unless given.
        classifier_activation: between the two layers of a classifier; "gelu" for pairs, else "relu".
        causal: whether a Transformer sees only what came before. State-space layers say so themselves.
        attention_window: block length of block-local attention.
        head: "denoising" or "classification"; guessed from the sizes of the decoder. "denoising" without a decoder
            reads the vocabulary's scores off the first channels, as the official language models of text do.
        mask_column: whether the last input of a linear encoder is the mask flag; guessed likewise.
    """

    pooling: str | None = None
    positions: str | None = None
    num_attention_heads: int | None = None
    activation: str | None = None
    classifier_activation: str | None = None
    causal: bool = False
    attention_window: int | None = None
    head: str | None = None
    mask_column: bool | None = None


UNSAID = ConversionOptions()


@dataclass
class Conversion:
    """A converted checkpoint: our configuration, all tensors under our names, and the assumptions."""

    config: Any
    tensors: dict[str, torch.Tensor]
    head: str
    assumptions: list[str] = field(default_factory=list)


def convert_checkpoint(
    checkpoint: str | os.PathLike, output_dir: str | os.PathLike, options: ConversionOptions = UNSAID
) -> Conversion:
    """Convert a checkpoint file into a folder that `from_pretrained` opens.

    Args:
        checkpoint: .ckpt of Lightning, a state dict of `torch.save`, or a .safetensors file. Only tensors are read.
        output_dir: A new or empty folder, or one that an earlier conversion made.
        options: What the file does not say.

    Raises:
        HfLongSeqError: If the file is not a checkpoint of the official layout or contradicts the options; nothing is
            written then.
    """
    output_dir = Path(output_dir)
    check_replaceable(output_dir, CONVERSION, "conversion")
    conversion = convert_tensors(read_tensors(checkpoint), options)
    model = build(conversion)
    record = {
        "source": Path(checkpoint).name,
        "sha256": file_hash(Path(checkpoint)),
        "head": conversion.head,
        "classifier": any(name.startswith("classifier.") for name in conversion.tensors),
        "options": {name: value for name, value in vars(options).items() if value != getattr(UNSAID, name)},
        "assumptions": conversion.assumptions,
    }

    def fill(folder: Path) -> None:
        model.save_pretrained(folder, state_dict=conversion.tensors)
        write_json(folder / CONVERSION, record)

    replace_folder(output_dir, fill)
    return conversion


def convert_tensors(tensors: dict[str, torch.Tensor], options: ConversionOptions) -> Conversion:
    """Translate the tensors of an official checkpoint."""
    damaged = "the checkpoint is damaged or of another layout, for its tensors do not fit together"
    with explained(damaged, StrictDataclassError, RuntimeError, LookupError, ValueError, TypeError):
        return _translate(take_apart(tensors), options)


def _translate(official: Official, options: ConversionOptions) -> Conversion:
    first = official.blocks[0]
    arch = {"s4d": "s4", "attention": "transformer"}.get(first.mixer.kind, first.mixer.kind)
    width = first.hidden_size
    conversion = Conversion(None, {}, "Model")
    fields = {"hidden_size": width, "num_hidden_layers": len(official.blocks), **first.fields(options)}
    fields["norm_position"] = "pre" if official.final_norm else "post"
    if official.final_norm:
        conversion.tensors |= translate_norm(official.final_norm, width, "model.norm")[0]
    for index, block in enumerate(official.blocks):
        translated, norm_fields = block.translate()
        conversion.tensors |= {f"model.layers.{index}.{name}": x for name, x in translated.items()}
    fields |= norm_fields
    if arch == "transformer":
        fields["position_embedding"] = _positions(official, first.rotary, width, options, conversion)
    elif official.positions is not None or options.positions not in (None, "none"):
        raise HfLongSeqError(
            f"the checkpoint is of architecture {arch!r} with positions, which only our Transformer has: convert a "
            "checkpoint without them."
        )
    fields |= _heads_and_input(official, fields, options, conversion)
    config_class, _ = models.ARCHITECTURES[arch]
    conversion.config = config_class(**fields)
    return conversion


def build(conversion: Conversion) -> PreTrainedModel:
    """The model of the first head with the converted weights. Raises if tensors and places differ by name or shape."""
    config, tensors = conversion.config, conversion.tensors
    prefix = type(config).__name__.removesuffix("Config")
    if conversion.head == "Model":
        conversion.tensors = tensors = {name.removeprefix("model."): x for name, x in tensors.items()}
    heads = [conversion.head]
    if any(name.startswith("classifier.") for name in tensors):
        heads.append("ForSequenceClassification")
    with explained("no model has the sizes of the checkpoint", ValueError, KeyError):
        built = [getattr(models, prefix + head)(config).eval() for head in dict.fromkeys(heads)]
    wanted = {name: place.shape for model in built for name, place in model.state_dict().items()}
    for name in sorted(wanted.keys() ^ tensors.keys()):
        where = "lacks" if name in wanted else "has no place for"
        raise HfLongSeqError(f"the conversion {where} {name}: the checkpoint is incomplete or of another layout.")
    for name, shape in wanted.items():
        tensors[name] = tensors[name].to(torch.float32).contiguous()
        if tensors[name].shape != shape:
            raise HfLongSeqError(
                f"the checkpoint's {name} has shape {tuple(tensors[name].shape)} where its other sizes ask for "
                f"{tuple(shape)}: it is damaged, or an option does not fit it."
            )
        if not tensors[name].isfinite().all():
            raise HfLongSeqError(f"the checkpoint's {name} holds numbers that are not finite: give one that works.")
    for model in built:
        model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    return built[0]


def _positions(official: Official, rotary: bool, width: int, options: ConversionOptions, conversion) -> str:
    if official.positions is not None:
        from hf_longseq.models.longseq_attention import sinusoidal_positions

        table = official.positions.reshape(-1, width).float()
        ours = sinusoidal_positions(torch.arange(len(table))[None], width)[0]
        if (table[:512] - ours[:512]).abs().max() > 1e-3:
            raise HfLongSeqError(
                "the checkpoint's table of positions (encoder.*.pe) was learned, and our Transformer has only "
                "sinusoidal or rotary ones: it cannot be converted."
            )
    seen = "rotary" if rotary else "sinusoidal" if official.positions is not None else None
    if seen and options.positions not in (None, seen):
        raise HfLongSeqError(
            f"the checkpoint has {seen} positions, but --positions is {options.positions!r}: leave it out."
        )
    found = seen or options.positions
    if not found:
        conversion.assumptions.append("no positions (--positions rotary or sinusoidal, if it had them)")
    return found or "none"


def _heads_and_input(official: Official, fields: dict, options: ConversionOptions, conversion: Conversion) -> dict:
    """Fields of the input and of the heads; adds their tensors."""
    weight, bias = official.embedding
    tokens = bias is None and weight.shape[1] == fields["hidden_size"]
    roles = {name: _role(name, dense, official, tokens, fields, options) for name, dense in official.heads.items()}
    if options.head and [len(dense) for dense in official.heads.values()] == [1]:
        roles = {name: options.head for name in roles}
    if sorted(roles.values()) not in ([], ["classification"], ["denoising"], ["classification", "denoising"]):
        raise HfLongSeqError(f"the checkpoint has the decoders {', '.join(roles)}: keep one, or one of each kind.")
    if not options.head and not options.pooling and not official.pair:
        guessed = [name for name, dense in official.heads.items() if len(dense) == 1 and name == "decoder"]
        conversion.assumptions += [f"the decoder is for {roles[name]} (--head)" for name in guessed]
    by_role = {role: official.heads[name] for name, role in roles.items()}
    denoising, classifier = by_role.get("denoising"), by_role.get("classification")
    if denoising is None and options.head == "denoising" and not roles and tokens:
        denoising = by_role["denoising"] = _identity_head(len(weight), fields["hidden_size"])
    if options.head and options.head not in by_role:
        raise HfLongSeqError(f"the checkpoint has no decoder for {options.head}: leave out --head.")

    found: dict[str, Any] = {} if options.pooling is None else {"pooling": options.pooling}
    if classifier is not None:
        conversion.head = "ForSequenceClassification"
        found |= _classifier(classifier, official.pair, options, conversion)
    if not tokens:
        return found | _values(weight, bias, denoising, not fields["bidirectional"], options, conversion)
    conversion.tensors["model.embed_tokens.weight"] = weight
    if denoising is not None:
        _add_denoising(denoising, "lm_head", conversion)
        conversion.head = "ForMaskedLM" if fields["bidirectional"] else "ForCausalLM"
    return found | {"input_type": "tokens", "vocab_size": len(weight)}


def _identity_head(vocab_size: int, width: int) -> Dense:
    """The read-out of the official language models of text: the first channels score the vocabulary."""
    if vocab_size > width:
        raise HfLongSeqError(
            f"the checkpoint has no decoder and a vocabulary of {vocab_size}, more than its {width} channels, so "
            "these cannot be the scores: leave out --head."
        )
    return [(torch.eye(vocab_size, width), torch.zeros(vocab_size))]


def _values(weight, bias, denoising, causal: bool, options: ConversionOptions, conversion: Conversion) -> dict:
    """A linear encoder and the head that restores its inputs."""
    mask_column = options.mask_column
    if mask_column is None:
        mask_column = denoising is not None and len(denoising[0][0]) in _restoring(weight.shape[1] - 1)
        kept = "is" if mask_column else "is not"
        conversion.assumptions.append(f"the last input column {kept} the mask flag (--mask_column)")
    channels = weight.shape[1] - mask_column
    columns = weight if mask_column else torch.cat([weight, torch.zeros_like(weight[:, :1])], dim=1)
    conversion.tensors["model.embed_values.weight"] = columns
    conversion.tensors["model.embed_values.bias"] = torch.zeros(len(weight)) if bias is None else bias
    objective = "causal" if causal and not mask_column else "masked"
    found = {"input_type": "values", "num_channels": channels, "pretraining_objective": objective}
    if denoising is not None:
        _add_denoising(denoising, "reconstruction_head", conversion)
        conversion.head = "ForPreTraining"
        found["num_levels"] = None if len(denoising[0][0]) == channels else GREY_LEVELS
    return found


def _add_denoising(denoising: Dense, name: str, conversion: Conversion) -> None:
    weight, bias = denoising[0]
    conversion.tensors |= {f"{name}.weight": weight, f"{name}.bias": bias}


def _classifier(dense: Dense, pair: bool, options: ConversionOptions, conversion: Conversion) -> dict:
    if options.pooling is None:
        conversion.assumptions.append("the classifier pools by the mean (--pooling)")
    found = {"pooling": options.pooling or "mean", "num_labels": len(dense[-1][0]), "pair_classification": pair}
    places = ["classifier.out_proj"] if len(dense) == 1 else ["classifier.dense", "classifier.out_proj"]
    if len(dense) == 2:
        usual = "gelu" if pair else "relu"
        found["classifier_hidden_size"] = len(dense[0][0])
        found["classifier_act"] = options.classifier_activation or usual
    for place, (weight, bias) in zip(places, dense, strict=True):
        conversion.tensors |= {f"{place}.weight": weight, f"{place}.bias": bias}
    return found


def _role(name: str, dense: Dense, official: Official, tokens: bool, fields: dict, options: ConversionOptions) -> str:
    """Whether a decoder restores inputs or classifies, by its name or its number of outputs."""
    if official.pair or len(dense) == 2 or name.endswith("cls"):
        return "classification"
    if name.endswith("lm"):
        return "denoising"
    if options.pooling is not None:
        return "classification"
    outputs, inputs = len(dense[0][0]), official.embedding[0].shape[0 if tokens else 1]
    if tokens:
        return "denoising" if outputs == inputs else "classification"
    restoring = _restoring(inputs - 1) | (set() if fields["bidirectional"] else _restoring(inputs))
    return "denoising" if outputs in restoring else "classification"


def _restoring(channels: int) -> set[int]:
    """Numbers of outputs that restore so many channels: their values, or their grey levels."""
    return {channels, channels * GREY_LEVELS} if channels else set()
