# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What turns raw inputs into those of a task, saved beside every checkpoint.

Tokenizers say in a plain `tokenizer.json` what the task loaders do: bytes, the symbols of ListOps, or bases.
`AutoTokenizer.from_pretrained` opens them without this package and without custom code.
"""

from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from hf_longseq.data import byte_text, genomes
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.models.feature_extraction_longseq import LongSeqFeatureExtractor
from hf_longseq.models.image_processing_longseq import LongSeqImageProcessor

MASK, PAD, UNK, EOS = SPECIAL = ("[MASK]", "[PAD]", "[UNK]", "[EOS]")


def byte_tokenizer(max_length: int | None = None, add_eos: bool = True) -> PreTrainedTokenizerFast:
    """UTF-8 bytes, with the ids of `byte_text`.

    Args:
        max_length: Where `truncation=True` cuts, end-of-sequence token included.
        add_eos: Close every text with the end-of-sequence token, as the tasks do; not for prompts to be continued.
    """
    vocabulary = {symbol: index for index, symbol in enumerate(SPECIAL)}
    vocabulary |= {symbol: byte_text.BYTE_ID + byte for byte, symbol in bytes_to_unicode().items()}
    # without merges every byte stays a token of its own
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    return _wrap(tokenizer, max_length, add_eos)


def symbol_tokenizer(
    vocabulary: tuple[str, ...], max_length: int | None = None, add_eos: bool = True
) -> PreTrainedTokenizerFast:
    """Symbols between blanks, for ListOps: parentheses are dropped, and "]" may be written for the closing "X".

    Args:
        vocabulary: The symbols in the order of their ids, the four special ones among them.
        max_length, add_eos: As for `byte_tokenizer`.
    """
    ids = {symbol: index for index, symbol in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(r"[()]"), " "), normalizers.Replace(Regex(r"(?<!\S)\](?!\S)"), "X")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _wrap(tokenizer, max_length, add_eos)


def base_tokenizer(max_length: int | None = None) -> PreTrainedTokenizerFast:
    """Bases of DNA, in capitals or not, with the ids of `genomes.VOCABULARY`; blanks are dropped, other letters are N.

    Args:
        max_length: As for `byte_tokenizer`. Windows are not closed by an end-of-sequence token.
    """
    ids = {symbol: index for index, symbol in enumerate(genomes.VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNK))
    capitals = [normalizers.Replace(Regex(f"[{base.lower()}]"), base) for base in "ACGT"]
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(r"\s+"), ""), *capitals, normalizers.Replace(Regex("[^ACGT]"), "N")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return _wrap(tokenizer, max_length, add_eos=False)


def task_tokenizer(spec: TaskSpec, add_eos: bool = True) -> PreTrainedTokenizerFast | None:
    """The tokenizer of a task of text, symbols or bases; None where inputs are not text."""
    if spec.modality != "tokens" or spec.image_shape is not None:
        return None
    if spec.vocabulary == genomes.VOCABULARY:
        return base_tokenizer(spec.max_length)
    if spec.vocabulary:
        return symbol_tokenizer(spec.vocabulary, spec.max_length, add_eos)
    return byte_tokenizer(spec.max_length, add_eos) if byte_text.is_read_by(spec) else None


def _wrap(tokenizer: Tokenizer, max_length: int | None, add_eos: bool) -> PreTrainedTokenizerFast:
    if add_eos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {EOS}",
            pair=f"$A {EOS} $B:1 {EOS}:1",
            special_tokens=[(EOS, tokenizer.token_to_id(EOS))],
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        mask_token=MASK,
        pad_token=PAD,
        unk_token=UNK,
        eos_token=EOS,
        model_max_length=max_length or VERY_LARGE_INTEGER,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def task_processor(spec: TaskSpec, add_eos: bool = True, config: PreTrainedConfig | None = None) -> Any | None:
    """The tokenizer, image processor or feature extractor of a task; None for ids that stand for nothing we could
    read.

    Args:
        add_eos: Whether a tokenizer closes texts; False for models that continue them.
        config: Of the model beside which a tokenizer is saved. It then warns of, and cuts at, the positions that the
            model has, if there is such a limit; where the task cuts its texts stands in `task_max_length`.
    """
    if spec.image_shape is not None:
        height, width = spec.image_shape
        return LongSeqImageProcessor(
            height=height,
            width=width,
            num_channels=spec.num_channels or 1,
            value_range=spec.value_range or (-1.0, 1.0),
            fit=spec.image_fit,
            return_tokens=spec.modality == "tokens",
        )
    if spec.modality == "tokens":
        tokenizer = task_tokenizer(spec, add_eos)
        if tokenizer is not None and config is not None:
            tokenizer.init_kwargs["task_max_length"] = spec.max_length
            tokenizer.model_max_length = longest_input(config) or VERY_LARGE_INTEGER
        return tokenizer
    mean, std = spec.normalization or (None, None)
    return LongSeqFeatureExtractor(
        feature_size=spec.num_channels or 1,
        sampling_rate=spec.sampling_rate,
        mean=mean,
        std=std,
        peak=spec.peak,
        max_length=spec.max_length,
    )


def special_as_text(tokenizer: PreTrainedTokenizerBase) -> dict[str, bool]:
    """Options with which a tokenizer reads texts as the task does: that of bytes takes "[MASK]" for six of them, not
    for the mask of a prompt."""
    is_ours = len(tokenizer) == byte_text.VOCAB_SIZE and tokenizer.convert_tokens_to_ids(list(SPECIAL)) == [0, 1, 2, 3]
    return {"split_special_tokens": True} if is_ours else {}


def longest_input(config: PreTrainedConfig) -> int | None:
    """Positions that a model has; None: it takes inputs of any length."""
    limit = getattr(getattr(config, "backbone_config", None) or config, "max_position_embeddings", None)
    if config.model_type == "longseq_mega" and (config.position_bias != "simple" or config.chunk_size is not None):
        return None
    return limit


def cut_length(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Where texts are cut, in tokens: at the longest input of the task that the tokenizer was saved for
    (`task_max_length`), or of the model; None: nowhere."""
    cut = min(tokenizer.init_kwargs.get("task_max_length") or VERY_LARGE_INTEGER, tokenizer.model_max_length)
    return cut if cut < VERY_LARGE_INTEGER else None
