# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Start from pretrained weights of transformers, and translate their embeddings to the tokens of the task.

The trunk is taken over whole. Where the task's vocabulary is another, every symbol of the task starts as the embedding
of its spelling under the pretrained tokenizer ("[MAX", "7", or "0".."255" for grey levels, as the paper fed them to
Pythia), the mean of the pieces where it takes several.
"""

from dataclasses import replace

import torch
from transformers import AutoTokenizer, PreTrainedModel

from hf_longseq.data.byte_text import BYTE_ID
from hf_longseq.data.task import TaskSpec
from hf_longseq.data.tokenizers import task_tokenizer
from hf_longseq.errors import explained
from hf_longseq.training.architectures import base_config
from hf_longseq.training.hf_architectures import commit_of, starts_from
from hf_longseq.training.recipe import Recipe
from hf_longseq.training.transfer import ADAPTER, TransferReport, take_trunk, trunk_of


def start_from_weights(model: PreTrainedModel, recipe: Recipe, spec: TaskSpec) -> TransferReport | None:
    """Fill a fresh model with the weights that its recipe names (`model.arch`, `model.pretrained`), in place.

    Returns what was loaded, is new and was dropped, or None where the model starts from random weights.
    """
    source = starts_from(recipe)
    if source is None:
        return None
    fields = recipe.model.fields
    config = base_config(recipe.model.arch, fields.get("pretrained"), fields.get("revision"))
    reads_values = model.config.model_type == ADAPTER and model.config.input_type == "values"
    other_vocabulary = not reads_values and config.vocab_size != spec.vocab_size
    commit = commit_of(source, fields.get("revision"))
    revision = commit or fields.get("revision")
    where = f"model.pretrained {source!r}"
    base, report = take_trunk(model, source, where, revision=revision, new_vocabulary=other_vocabulary, ours=False)
    if other_vocabulary:
        rows = base.get_input_embeddings().weight.detach()
        own = trunk_of(model)[1].get_input_embeddings().weight
        with torch.no_grad():
            for index, ids in enumerate(spelled(spec, _tokenizer(source, revision))):
                if ids:
                    own[index] = rows[ids].mean(0)
    return replace(report, commit=commit)


def _tokenizer(source: str, revision: str | None):
    what = f"model.pretrained {source!r} has no tokenizer to spell the symbols of the task"
    with explained(what, OSError, ValueError, remedy="add its files, or set model.pretrained to false"):
        return AutoTokenizer.from_pretrained(source, revision=revision or "main", trust_remote_code=False)


def spelled(spec: TaskSpec, tokenizer) -> list[list[int]]:
    """For every id of the task the pretrained tokens that spell it; an empty list where it stands for nothing."""
    special = {
        spec.mask_token_id: tokenizer.mask_token_id,
        spec.eos_token_id: tokenizer.eos_token_id,
        spec.pad_token_id: tokenizer.pad_token_id,
    }
    answers = []
    for index in range(spec.vocab_size):
        if index in special:
            answers.append([] if special[index] is None else [special[index]])
            continue
        text = _text_of(spec, index)
        answers.append(tokenizer.encode(text, add_special_tokens=False) if text else [])
    return answers


def _text_of(spec: TaskSpec, index: int) -> str:
    """How an id is written: the symbol of a vocabulary, the character of a byte, or the number that a level is."""
    if spec.vocabulary:
        return spec.vocabulary[index]
    if task_tokenizer(spec) is None:
        return str(index)
    # bytes beyond ASCII are parts of characters and spell nothing by themselves
    return chr(index - BYTE_ID) if BYTE_ID <= index < BYTE_ID + 128 else ""
