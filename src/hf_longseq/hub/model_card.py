# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A model card from a run's own records, through `templates/model_card.md.jinja`."""

import re
import shlex
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, EvalResultEntry, ModelCard, ModelCardData, eval_result_entries_to_yaml

from hf_longseq.comparison.results import RUNS
from hf_longseq.data.task import TASKS, load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import render
from hf_longseq.hub.converted_folder import Converted
from hf_longseq.hub.records import Run
from hf_longseq.hub.snippets import Snippets
from hf_longseq.metrics import PERCENT
from hf_longseq.models.configuration_adapter import looks_back_only

# What `TaskSpec.source` is for data of the Hub; a published task has its commit there.
HUB_DATASET = re.compile(r"https?://[^/]+/datasets/(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(/tree/(?P<commit>[0-9a-f]{40}))?")
TEMPLATE = Path(__file__).parent / "templates" / "model_card.md.jinja"
NAMES = {
    "s4": "S4 (structured state space)",
    "dlr": "DLR (diagonal linear RNN)",
    "transformer": "Long Transformer",
    "lru": "LRU (linear recurrent unit)",
    "s5": "S5 (simplified state space)",
    "mega": "MEGA (moving average gated attention)",
    "adapter": "adapter",
}
SETTINGS = (
    "objective", "mask_ratio", "max_steps", "num_train_epochs", "learning_rate", "ssm_learning_rate", "weight_decay",
    "global_batch_size", "warmup_steps", "lr_scheduler_type", "max_grad_norm", "bf16",
)  # fmt: skip


def head_of(config) -> str:
    """The suffix of the saved class: "ForMaskedLM" and the like; nothing for a model without a head."""
    name = config.architectures[0]
    return name[name.index("For") :] if "For" in name else ""


def render_card(
    run: Run,
    config,
    repo_id: str,
    license: str,
    pictures: list[str],
    code: Snippets,
    printed: str = "",
    label: str | None = None,
) -> ModelCard:
    """Render the card and prove that the Hub's own parser reads the results back.

    Args:
        run: The run.
        config: Configuration of its model.
        repo_id: Where it will be published.
        license: Licence of the weights, as the Hub names it.
        pictures: Names of the pictures in the folder.
        code: What `snippets` says of the model.
        printed: What its first piece prints, where that reads a real example.
        label: The label of that example.

    Raises:
        HfLongSeqError: If the metadata would not be understood.
    """
    task, name = run.settings["data"]["task"], repo_id.split("/")[-1]
    data = ModelCardData(
        license=license,
        library_name="transformers",
        pipeline_tag=code.pipeline,
        tags=["hf-longseq", config.model_type.replace("_", "-"), "long-sequences", "self-pretraining", "custom_code"],
        metrics=[run.metrics["metric"]] if run.metrics["metric"] != "loss" else None,
        datasets=[hub_dataset(run)] if hub_dataset(run) else None,
        model_name=name,
        eval_results=[
            EvalResult(
                task_type=code.pipeline or "other",
                dataset_type=hub_dataset(run) or task,
                dataset_name=data_name(run),
                dataset_split=run.split,
                dataset_revision=hub_commit(run),
                metric_type=metric,
                metric_name=f"{run.split} {metric}",
                metric_value=rounded(value),
            )
            for metric, value in run.scores.items()
        ],
    )
    card = _rendered(
        data, {**card_fields(run, config, repo_id, pictures), "snippets": code, "printed": printed, "label": label}
    )
    again = ModelCard(str(card)).data
    if again.eval_results != data.eval_results or again.license != license or again.library_name != "transformers":
        raise HfLongSeqError(
            f"the metadata of {repo_id}'s card do not survive the Hub's parser: check the run's metrics."
        )
    return card


def render_converted_card(
    converted: Converted, model, repo_id: str, license: str, pictures: list[str], code: Snippets
) -> ModelCard:
    """Render the card of weights that were trained elsewhere: it says where they come from, and claims no results."""
    config = model.config
    data = ModelCardData(
        license=license,
        library_name="transformers",
        pipeline_tag=code.pipeline,
        tags=["hf-longseq", config.model_type.replace("_", "-"), "long-sequences", "converted", "custom_code"],
        model_name=repo_id.split("/")[-1],
    )
    arch = NAMES.get(config.model_type.removeprefix("longseq_"), config.model_type)
    fields = {
        **described(config, arch, model.num_parameters()),
        "snippets": code,
        "printed": "",
        "label": None,
        "command": "",
        "spt": "",
        "model_name": repo_id.split("/")[-1],
        "summary": (
            f"{arch} whose weights hf-longseq converted from a checkpoint of the official code of the paper cited "
            "below. It was not trained by hf-longseq."
        ),
        "conversion": {"command": converted.command, "assumptions": [], **converted.record},
        "pictures": pictures,
        "limits": [
            "How and on what it was trained is known to whoever trained it: nothing is recorded in the checkpoint.",
            "It was not evaluated after the conversion, which keeps the outputs of the source to about 1e-4.",
            *bidirectional_limit(config),
        ],
    }
    return _rendered(data, fields)


def _rendered(data: ModelCardData, fields: dict[str, Any]) -> ModelCard:
    return ModelCard(render(TEMPLATE, card_data=data.to_yaml(), **fields))


def hub_dataset(run: Run) -> str | None:
    """The repository on the Hub that the run's data are from, if they are from one."""
    named = HUB_DATASET.fullmatch(run.data.get("source") or "")
    return named["id"] if named else None


def hub_commit(run: Run) -> str | None:
    """The commit of that repository, where the data are a task that was published there."""
    named = HUB_DATASET.fullmatch(run.data.get("source") or "")
    return named["commit"] if named else None


def data_name(run: Run) -> str:
    """What the run was trained on: the task, or the file or data set that a user brought."""
    section = run.settings["data"]
    return str(section.get("data") or section["task"]) if section["task"] == "own-data" else section["task"]


def eval_results_file(run: Run) -> dict[str, list]:
    """Test results in the form that a benchmark's page on the Hub collects: file name -> content. Only for data that
    are on the Hub, since a result belongs to a data set there, and for all of their test split."""
    metric, dataset = run.metrics["metric"], hub_dataset(run)
    part = run.settings["data"].get("num_test_examples") is not None
    if dataset is None or run.split != "test" or metric not in run.scores or part:
        return {}
    commit, labels = hub_commit(run), run.metrics.get("train_examples")
    arm = (run.compared_as or run.settings["model"]["arch"], run.settings["run"].get("init"))
    notes = [f"test {metric}", f"{labels:,} labels" if labels else "", f"arm {' '.join(filter(None, arm))}"]
    entry = EvalResultEntry(
        dataset_id=dataset,
        task_id=run.settings["data"]["task"] if commit else "default",
        value=rounded(run.scores[metric]),
        dataset_revision=commit,
        notes=", ".join(filter(None, notes)),
    )
    return {f".eval_results/{dataset.split('/')[-1]}.yaml": eval_result_entries_to_yaml([entry])}


def rounded(score: float) -> float:
    """A score as `model-index` and `.eval_results` state it, both alike."""
    return round(float(score), 6)


def card_fields(run: Run, config, repo_id: str, pictures: list[str]) -> dict[str, Any]:
    """What the template is filled with."""
    settings, metrics, head = run.settings, run.metrics, head_of(config)
    task, arch = settings["data"]["task"], settings["model"]["arch"]
    section = settings["pretrain" if run.phase == "pretrain" else "finetune"]
    unused = "num_train_epochs" if section.get("max_steps") else "max_steps"  # steps win
    pretraining = run.pretraining["pretrain"] if run.pretraining else section if run.phase == "pretrain" else None
    from_spt = self_pretrained(run)
    about = describe_data(run)
    splits = run.data.get("splits", {})
    return {
        "conversion": None,
        "model_name": repo_id.split("/")[-1],
        "summary": summary(run, head, NAMES.get(arch, arch)),
        **described(config, NAMES.get(arch, arch), metrics.get("num_parameters", 0)),
        "task": data_name(run),
        "task_summary": TASKS[task].summary if task in TASKS and task != "own-data" else "",
        "training": {"pretrain": "self-pretraining", "finetune": "fine-tuning"}[run.phase]
        + (" after self-pretraining" if from_spt else f" {beginning(run)}" if run.phase == "finetune" else ""),
        "spt": objective(pretraining, about["mask_ratio"])
        if pretraining
        else "yes; its settings were not kept"
        if from_spt
        else "",
        "scores": {name: shown(value, name) for name, value in run.scores.items()},
        "split": run.split,
        "num_examples": splits.get(run.split, {}).get("num_examples", "?"),
        "metric": metrics["metric"],
        "best_step": metrics.get("best_step"),
        "steps": metrics.get("steps"),
        "seed": settings["run"].get("seed"),
        "compared": "that this run was an arm of" if run.phase == "finetune" else "that went on from this run",
        "compared_by": run.compared_by,
        "comparison": comparable_rows(run),
        "scarcity": label_scarcity(run),
        "pictures": pictures,
        "data_source": about["source"],
        "data_license": about["license"],
        "data_note": about["note"],
        "splits": splits,
        "has_pretraining": run.pretraining is not None,
        "commands": commands(run),
        "command": f"hf-longseq finetune --init_from {repo_id} --data rows.csv --output_dir classifier"
        if run.phase == "pretrain"
        else "",
        "recipe": {name: section[name] for name in SETTINGS if section.get(name) is not None and name != unused},
        "compute": compute(run),
        "hardware": ", ".join(run.environment.get("gpu") or [run.environment.get("cpu") or "a processor"]),
        "environment": dict.fromkeys(("hf_longseq", "commit", "torch", "transformers"), "") | run.environment,
        "limits": limits(run, config, head),
    }


def described(config, arch: str, num_parameters: int) -> dict[str, Any]:
    """Rows of the first table that the configuration determines."""
    trunk = getattr(config, "backbone_config", None)
    both_ways = config.bidirectional or (trunk is not None and not looks_back_only(trunk))
    norm = (
        f"{config.norm_position}-norm ({config.norm})" if trunk is None else f"around transformers' {trunk.model_type}"
    )
    return {
        "architecture": (
            f"{arch}, {config.num_hidden_layers} layers of {config.hidden_size} channels, "
            f"{'bidirectional' if both_ways else 'causal'}, {norm}"
        ),
        "num_parameters": num_parameters,
        "input_kind": (
            f"token ids, vocabulary of {config.vocab_size}"
            if config.input_type == "tokens"
            else f"real values, {config.num_channels} channel{'s' if config.num_channels > 1 else ''} per position"
        ),
    }


def comparable_rows(run: Run) -> list[dict[str, Any]]:
    """Rows of the comparison with as many labels as this run had; for pretraining, as those that start from it had."""
    rows = [row for row in run.comparison if row.get("mean") is not None]
    if run.phase == "finetune":
        counts = {run.metrics.get("train_examples")}
    else:
        name = f"{RUNS}/{run.folder.name}"
        counts = {row.get("train_examples") for row in rows if name in row.get("pretrain_runs", ())}
    return [{**row, "score": spread(row, run.compared_by)} for row in rows if row.get("train_examples") in counts]


def shown(value: float, metric: str | None) -> str:
    """A score as it is read: shares in percent."""
    return f"{value:.1%}".replace("%", " %") if metric in PERCENT else f"{value:.4g}"


def spread(row: dict[str, Any], metric: str | None) -> str:
    """Mean ± standard deviation; one seed has none."""
    if len(row["seeds"]) < 2:
        return shown(row["mean"], metric)
    if metric in PERCENT:
        return f"{100 * row['mean']:.1f} ± {100 * (row['std'] or 0):.1f} %"
    return f"{row['mean']:.4g} ± {row['std'] or 0:.2g}"


def label_scarcity(run: Run) -> dict[str, Any] | None:
    """Test metric of this run's architecture over numbers of labelled examples; None if only one was tried."""
    rows = [row for row in run.comparison if row["arch"] == run.compared_as and row.get("mean") is not None]
    counts = sorted({row["train_examples"] for row in rows})
    if len(counts) < 2:
        return None
    inits = list(dict.fromkeys(row["init"] for row in rows))
    cells = {(row["train_examples"], row["init"]): spread(row, run.compared_by) for row in rows}
    return {"inits": inits, "rows": [(count, [cells.get((count, init), "-") for init in inits]) for count in counts]}


def self_pretrained(run: Run) -> bool:
    """Whether the run is an arm that began with self-pretraining: `spt`, `spt-masked`, ..."""
    return str(run.settings["run"].get("init")).startswith("spt")


def beginning(run: Run) -> str:
    """What a run without self-pretraining starts from."""
    return "from pretrained weights" if run.settings["run"].get("init") == "pretrained" else "from scratch"


def summary(run: Run, head: str, arch: str) -> str:
    """One paragraph: what this is."""
    task = data_name(run)
    if run.phase == "pretrain":
        return (
            f"{arch}, self-pretrained on the inputs of {task}, without labels, by hf-longseq. It opens under its own "
            "head, as a base model, and as a classifier with a new head to be fine-tuned."
        )
    start = "after self-pretraining on the same data" if self_pretrained(run) else beginning(run)
    return f"{arch}, trained for {task} {start}, by hf-longseq."


def objective(section: dict[str, Any], task_ratio: float | None) -> str:
    """The objective of pretraining in words; without a ratio of its own it used the task's."""
    if section.get("objective") == "causal":
        return "predicting the next input" + (" and the previous one" if section.get("both_directions") else "")
    ratio = section.get("mask_ratio") or task_ratio
    return f"restoring masked inputs, mask ratio {ratio if ratio is not None else 'of the task'}"


def describe_data(run: Run) -> dict[str, Any]:
    """Source, licence, note and mask ratio of the task, as recorded with the run or as an embedded task says."""
    found = {name: run.data.get(name) for name in ("source", "license", "note", "mask_ratio")}
    task = run.settings["data"]["task"]
    if not found["source"] and task in TASKS and TASKS[task].source == "embedded":
        _, spec = load_task(task)
        found = {name: getattr(spec, name) for name in found}
    found["source"] = found["source"] or (TASKS[task].summary if task in TASKS else "the publisher's own")
    found["license"] = found["license"] or "not recorded"
    note = found["note"]
    found["note"] = note and f"{note[0].upper()}{note[1:].rstrip('.')}."  # a sentence among others
    return found


def commands(run: Run) -> str:
    """The commands that repeat the run from the files of the repository."""
    seed = shlex.quote(str(run.settings["run"].get("seed", 0)))
    if run.phase == "pretrain":
        return f"hf-longseq pretrain --recipe resolved.yaml --seed {seed} --output_dir pretrained"
    if run.settings["run"].get("init_weights") is None:
        return f"hf-longseq finetune --recipe resolved.yaml --from_scratch --seed {seed} --output_dir classifier"
    first = ""
    if run.pretraining:
        own = shlex.quote(str(run.pretraining["run"].get("seed", 0)))
        first = f"hf-longseq pretrain --recipe pretraining.yaml --seed {own} --output_dir pretrained\n"
    options = f"--init_from pretrained --seed {seed} --output_dir classifier"
    return f"{first}hf-longseq finetune --recipe resolved.yaml {options}"


def compute(run: Run) -> str:
    """How long training took, each phase by its name."""
    phase = "self-pretraining" if run.phase == "pretrain" else "fine-tuning"
    if run.phase == "finetune" and not self_pretrained(run):
        phase = "training from scratch"
    before = f"{run.pretraining_seconds} seconds of self-pretraining and " if run.pretraining_seconds else ""
    return f"{before}{run.metrics.get('wall_seconds')} seconds of {phase}"


def limits(run: Run, config, head: str) -> list[str]:
    """What a user must not expect."""
    found = [f"Trained on {data_name(run)} alone: nothing is known about other data, lengths or noise."]
    if run.metrics.get("steps", 0) < 100:
        found.append(f"Trained for {run.metrics.get('steps')} steps only: this is a trial, not a result.")
    if head == "ForSequenceClassification":
        found.append("Predictions are not calibrated, and inputs of no known class are classified all the same.")
    elif head == "ForTokenClassification":
        found.append("Scores are not calibrated, and every position is labelled, whatever the input is.")
    else:
        found.append("It restores inputs; it classifies nothing before it is fine-tuned.")
    return found + bidirectional_limit(config)


def bidirectional_limit(config) -> list[str]:
    """What follows from reading in both directions."""
    return ["Bidirectional: it needs the whole sequence and can neither stream nor generate."] * bool(
        config.bidirectional
    )
