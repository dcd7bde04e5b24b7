"""Every recipe of the package: valid, of the published size, and able to take a step of both phases and objectives."""

import functools

import numpy as np
import pytest
import torch
import yaml

from hf_longseq import Recipe, finetune, pretrain, recipes
from hf_longseq.data.task import describe_task
from hf_longseq.training.assemble import collators_and_metrics, configuration, fresh_model, head_class
from hf_longseq.training.recipe import architectures_of
from hf_longseq.training.transfer import load_pretrained

PAPER_TASKS = (
    "listops text retrieval image pathfinder pathx pathx-256 speech-commands scifar bidmc-hr bidmc-rr bidmc-spo2"
).split()
ROTARY = ("listops", "text", "retrieval", "image", "pathfinder", "pathx", "pathx-256", "smnist")

# Parameters of the fine-tuned models of the official code, in millions (of pretraining where it has a head).
PUBLISHED = {
    "listops/transformer": (18.93, 18.93),
    "text/transformer": (19.25, None),
    "retrieval/transformer": (0.872, None),
    "image/transformer": (0.105, 0.101),
    "pathfinder/transformer": (0.399, 0.432),
    "pathx/transformer": (0.399, 0.432),
    "pathx-256/transformer": (0.794, None),
    "scifar/transformer": (3.23, 3.17),
    "speech-commands/transformer": (0.403, 0.399),
    "bidmc-hr/transformer": (0.306, 0.306),
    "listops/s4": (0.600, None),
    "text/s4": (1.32, None),
    "retrieval/s4": (1.58, None),
    "image/s4": (3.57, None),
    "pathfinder/s4": (1.29, None),
    "pathx/s4": (1.29, None),
    "scifar/s4": (3.57, None),
    "speech-commands/s4": (0.378, None),
    "bidmc-rr/s4": (0.604, None),
    "listops/dlr": (4.48, None),
    "text/dlr": (7.13, None),
    "image/dlr": (15.8, None),
    "pathx/dlr": (7.10, None),
}
# Ids of the official vocabularies in fine-tuning; pretraining has one more, the mask. Ours hold all bytes.
OFFICIAL_IDS = {"listops": 18, "text": 135, "retrieval": 98}


@functools.cache
def archs_of(name):
    return architectures_of(yaml.safe_load(recipes.find(name).read_text()))


# those of transformers' architectures are tested with these, in test_foreign.py
OWN = [name for name in recipes.names() if not archs_of(name)[0].startswith("hf:")]


@pytest.mark.parametrize("name", OWN)
def test_it_is_valid_for_both_objectives_and_says_what_it_is_for(name):
    assert len(recipes.summary(name)) > 20
    for arch in archs_of(name):
        # the second is there only where it says something of its own
        for objective in ("masked", "causal") if "causal:" in recipes.find(name).read_text() else ("masked",):
            recipe = Recipe.load(name, arch=arch, objective=objective)
            assert recipe.model.fields["bidirectional"] is True
            for section in (recipe.pretrain, recipe.finetune, recipe.scratch):
                assert section.global_batch_size % (section.per_device_train_batch_size or 1) == 0


@pytest.mark.parametrize("task", PAPER_TASKS + ["smnist", "spoken-tones"])
def test_every_task_has_the_three_architectures_of_the_paper(task):
    for arch in ("s4", "dlr", "transformer"):
        recipe = Recipe.load(f"{task}/{arch}")
        assert (recipe.data.task, recipe.model.arch) == (task, arch)
        # the mask ratio and the loss are those of the task, said aloud
        spec = describe_task(task)
        assert recipe.pretrain.mask_ratio == spec.mask_ratio
        assert spec.modality == "tokens" or (recipe.pretrain.num_levels or None) == spec.num_levels
    if task in ROTARY:
        fields = [Recipe.load(f"{task}/{name}").model.fields for name in ("transformer", "transformer-rotary")]
        assert [each["position_embedding"] for each in fields] == ["sinusoidal", "rotary"]


def test_a_recipe_of_the_paper_has_settings_from_scratch_or_says_that_there_are_none():
    for name in recipes.names():
        if name.split("/")[0] in PAPER_TASKS:
            text = recipes.find(name).read_text()
            assert "scratch: {}  # as fine-tuning" in text or yaml.safe_load(text)["scratch"], name


@pytest.mark.parametrize("name", ("demo", "spoken-tones-100", "listops-tiny", "pathfinder-16", "smnist"))
def test_state_space_parameters_have_the_papers_rate_in_the_recipes_of_the_evidence(name):
    for arch, rate in {"s4": 1e-3, "dlr": 1e-4}.items():
        recipe = Recipe.load(name, arch=arch)
        sections = (recipe.pretrain, recipe.finetune, recipe.scratch)
        assert [section.ssm_learning_rate for section in sections] == [rate] * 3


@pytest.mark.parametrize("name", PUBLISHED)
def test_its_model_has_the_published_size(name):
    recipe = Recipe.load(name)
    spec = describe_task(recipe.data.task)
    config = configuration(recipe.model, recipe.pretrain, spec)
    with torch.device("meta"):
        sizes = [
            fresh_model(head_class(settings, spec), config).num_parameters()
            for settings in (recipe.finetune, recipe.pretrain)
        ]
    fine_tuned, pretrained = PUBLISHED[name]
    if spec.modality == "tokens":
        more_ids = spec.vocab_size - OFFICIAL_IDS[recipe.data.task]
        sizes[0] -= more_ids * config.hidden_size
        sizes[1] -= (more_ids - 1) * (2 * config.hidden_size + 1)
    for size, published in zip(sizes, (fine_tuned, pretrained), strict=True):
        assert published is None or size / 1e6 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("name", [name for name in OWN if name.endswith("/cnn")])
def test_a_cnn_has_about_the_size_of_s4(name):
    spec, sizes = describe_task(name.split("/")[0]), []
    for recipe in (Recipe.load(name), Recipe.load(name.replace("/cnn", "/s4"))):
        config = configuration(recipe.model, recipe.pretrain, spec)
        with torch.device("meta"):
            sizes.append(fresh_model(head_class(recipe.finetune, spec), config).num_parameters())
    assert 0.8 < sizes[0] / sizes[1] < 1.2


def some_rows(spec, seed=0):
    """Eight random examples of a task, of 17 to 30 steps."""
    generator = np.random.default_rng(seed)

    def sequence():
        length = int(generator.integers(17, 31))
        if spec.modality == "tokens":
            special = {spec.pad_token_id, spec.mask_token_id}
            return generator.choice([i for i in range(spec.vocab_size) if i not in special], length)
        low, high = spec.value_range or (-1, 1)
        values = generator.uniform(low, high, (length, spec.num_channels)).astype(np.float32)
        return values[:, 0] if spec.num_channels == 1 else values

    name = "input_ids" if spec.modality == "tokens" else "input_values"
    rows = []
    for number in range(8):
        row = {name: sequence(), "labels": number % len(spec.labels) if spec.labels else float(generator.normal())}
        if spec.per_position:
            row["labels"] = np.arange(len(row[name])) % len(spec.labels)
        rows.append(row | ({f"{name}_2": sequence()} if spec.pair else {}))
    return rows


def take_a_step(model, batch, section):
    """One step of the phase's optimiser; every parameter that got a gradient moves by a finite amount."""
    model.train()
    groups = model.parameter_groups(section.learning_rate, section.weight_decay, section.ssm_learning_rate)
    optimizer = torch.optim.AdamW(groups, betas=(0.9, section.adam_beta2))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(**batch).loss.backward()
    optimizer.step()
    moved = [(new - old).abs().sum() for old, new in zip(before, model.parameters(), strict=True)]
    assert all(torch.isfinite(change) for change in moved) and sum(change > 0 for change in moved) > len(moved) / 2


FIRST_OF = {archs_of(name)[0]: name for name in reversed(OWN)}
# at toy size these have the models, and data of the kind, of others
ALIKE = ("bidmc-rr/", "bidmc-spo2/", "pathfinder/", "pathx/", "pathx-256/", "smnist/", "speech-commands/", "text/",
         "retrieval/lru", "retrieval/mega", "retrieval/s5", "retrieval/transformer-rotary")  # fmt: skip
STEPPED = [(name, "masked") for name in OWN if not name.startswith(ALIKE)]
# causal where a recipe of its kind has settings of its own for it, and once for every architecture
STEPPED += [
    (name, "causal") for name, _ in STEPPED if "causal:" in recipes.find(name).read_text() or name in FIRST_OF.values()
]


@pytest.mark.parametrize("name, objective", STEPPED)
def test_it_steps_through_both_phases_at_toy_size(name, objective, tmp_path):
    arch = archs_of(name)[0]
    whole = Recipe.load(name, arch=arch, objective=objective).model.fields
    # --tiny leaves out blocks and shared systems; here they stay, at toy size
    kept = {key: small for key, small in {"attention_window": 8, "num_ssm": 2}.items() if whole.get(key)}
    recipe = Recipe.load(name, {"model": kept}, arch=arch, objective=objective, tiny=True)
    spec = describe_task(recipe.data.task)
    rows = some_rows(spec)
    collator = collators_and_metrics(recipe.pretrain, spec)[0]
    config = configuration(recipe.model, recipe.pretrain, spec)
    pretrained = fresh_model(head_class(recipe.pretrain, spec), config)
    take_a_step(pretrained, collator(rows), recipe.pretrain)
    pretrained.save_pretrained(tmp_path)
    classifier, report = load_pretrained(tmp_path, config, head_class(recipe.finetune, spec))
    assert all(new.startswith("classifier.") for new in report.new)
    take_a_step(classifier, collators_and_metrics(recipe.finetune, spec)[0](rows), recipe.finetune)


@pytest.mark.parametrize("name", ("demo", "listops/mega"))
def test_it_runs_from_its_data_to_a_score(name, tmp_path):
    limits = {phase: {"max_steps": 1} for phase in ("pretrain", "finetune")}
    recipe = Recipe.load(name, limits, arch=archs_of(name)[0], tiny=True)
    first = pretrain(recipe, tmp_path / "pretrained")
    assert finetune(recipe, tmp_path / "classifier", init_from=first.output_dir).metrics["steps"] == 1
