# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A model card from a run's own records, through `templates/model_card.md.jinja`, and the code in it.

That code, a pipeline on a real example and another use of the model, is made by `templates/snippets.py.jinja`. It gets
the configuration's numbers, the name of the repository and examples that this package made, and nothing from records,
which may be anybody's.
"""

import contextlib
import io
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, EvalResultEntry, ModelCard, ModelCardData, eval_result_entries_to_yaml
from jinja2 import Environment, StrictUndefined
from transformers import AutoTokenizer, PreTrainedModel

from hf_longseq.comparison.results import labels_of
from hf_longseq.comparison.tables import score
from hf_longseq.data.own_data import TAKEN_OUT
from hf_longseq.data.processors import task_tokenizer
from hf_longseq.data.published import INPUTS, media_kind, to_published
from hf_longseq.data.task import TASKS, load_task
from hf_longseq.escaping import render
from hf_longseq.hub.records import Converted, Run
from hf_longseq.metrics import PERCENT
from hf_longseq.models.configuration_adapter import looks_back_only
from hf_longseq.training.run_folder import RUNS

# What `TaskSpec.source` is for data of the Hub; a published task has its commit there.
HUB_DATASET = re.compile(
    r"https?://[^/]+/datasets/(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(/tree/(?P<commit>[0-9a-f]{40}))?" f"({TAKEN_OUT})?"
)
TEMPLATES = Path(__file__).parent / "templates"
NAMES = {
    "s4": "S4 (structured state space)",
    "dlr": "DLR (diagonal linear RNN)",
    "transformer": "Long Transformer",
    "lru": "LRU (linear recurrent unit)",
    "s5": "S5 (simplified state space)",
    "mega": "MEGA (moving average gated attention)",
    "cnn": "CNN (gated dilated convolutions)",
    "adapter": "adapter",
}
SETTINGS = (
    "objective", "mask_ratio", "max_steps", "num_train_epochs", "learning_rate", "ssm_learning_rate", "weight_decay",
    "global_batch_size", "warmup_steps", "lr_scheduler_type", "max_grad_norm", "bf16",
)  # fmt: skip
MEDIA = {"audio": "example.wav", "image": "example.png"}
MAX_TEXT = 256
# Tasks with the pipelines of pictures and of sounds.
PIPELINES = {
    "image": ("image", "pathfinder", "pathfinder-16", "pathx", "pathx-256", "scifar", "smnist"),
    "audio": ("spoken-tones", "speech-commands", "voices"),
}
HEAD_PIPELINES = {"ForMaskedLM": "fill-mask", "ForCausalLM": "text-generation"}
LISTOPS = "[MAX 4 [MIN 2 3 ] 1 [SM 5 9 0 ] ]"
VERBS = {"fill-mask": "fill", "text-generation": "generate", "token-classification": "label"}
SHOWN = {"audio": '{"raw": sound, "sampling_rate": rate}', "image": "picture"}


@dataclass(frozen=True)
class Snippets:
    """Two pieces of code for a card, each complete: the first use of the model, and another.

    `pipeline` is that of `use`; None where transformers has none for such inputs.
    """

    use: str
    other: str
    other_title: str
    pipeline: str | None = None

    def here(self, repo_id: str, folder: Path) -> tuple[str, str]:
        """Both, reading a folder instead of the repository."""
        places = {f'hf_hub_download("{repo_id}", "{name}")': folder / name for name in MEDIA.values()}
        use, other = self.use, self.other
        for said, place in (places | {f'"{repo_id}"': folder}).items():
            use, other = (code.replace(said, repr(str(place))) for code in (use, other))
        return use, other

    def printed(self, repo_id: str, folder: Path) -> str:
        """The output of the first piece with the model in a folder that this package saved."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(self.here(repo_id, folder)[0], "a snippet of the card", "exec"), {})
        return shown.getvalue().rstrip("\n")


def pipeline_tag(task: str, config, head: str) -> str | None:
    """The Hub's name for the use of the model; None without one, or without a pipeline for such inputs."""
    tokens = config.input_type == "tokens"
    if head in HEAD_PIPELINES:
        return HEAD_PIPELINES[head]
    if head == "ForTokenClassification":
        return "token-classification" if tokens and config.problem_type != "regression" else None
    if head != "ForSequenceClassification" or config.pair_classification:
        return None
    if config.problem_type == "regression" and not tokens:
        return None
    kind = next((kind for kind, tasks in PIPELINES.items() if task in tasks), "text")
    return f"{kind}-classification" if tokens or kind != "text" else None


def real_example(task: str, given: dict[str, Any], folder: Path) -> tuple[str | None, str | None]:
    """An example of the test split, as text or as the name of a file written into `folder`, and its label.

    (None, None) for data that the package neither embeds nor generates. `given` are the recorded options of the task.
    """
    if task == "listops":
        return LISTOPS, "4"
    if task not in TASKS or TASKS[task].source not in ("generated", "embedded"):
        return None, None
    known, options = TASKS[task].parameters, task_options(task, given)
    with tempfile.TemporaryDirectory() as cache:
        if TASKS[task].source == "generated":
            options |= {"train_examples": 1, "eval_examples": 1, "num_workers": 1, "cache_dir": cache}
        else:  # the others name what the package does not hold
            options = {name: options[name] for name in options if name == "length"}
        splits, spec = load_task(task, **{name: value for name, value in options.items() if name in known})
        rows = splits["test"].select(range(1))
        media, tokenizer = media_kind(rows.features, spec), task_tokenizer(spec)
        label = None if spec.per_position or not spec.labels else spec.labels[int(rows[0]["labels"])]
        if media:
            table = to_published(rows.with_format("arrow")[:], rows.features, spec)
            (folder / MEDIA[media]).write_bytes(table[media][0].as_py()["bytes"])
            return MEDIA[media], label
        if tokenizer is None:
            return None, label
        return tokenizer.batch_decode([rows[0][INPUTS[0]].tolist()], skip_special_tokens=True)[0], label


def task_options(task: str, given: dict[str, Any]) -> dict[str, Any]:
    """The recorded options of a task that make its data what they are; none of data that a user brought."""
    known = TASKS[task].parameters if task in TASKS and task != "own-data" else {}
    where = ("data_dir", "cache_dir", "num_workers")
    return {name: given[name] for name in known if name not in where and given.get(name) is not None}


def snippets(
    config, head: str, repo_id: str, folder: Path, task: str = "", example: str | None = None, classifier: bool = False
) -> Snippets:
    """The code for a card of a model whose class ends in `head`; the processor in `folder` decides on a pipeline.

    `example` comes from `real_example`; `classifier` says that a checkpoint of another head has one too.
    """
    tag = pipeline_tag(task, config, head)
    processor = folder / "preprocessor_config.json"
    needed = folder / "tokenizer_config.json" if tag and tag.split("-")[0] not in MEDIA else processor
    tag = tag if needed.is_file() else None
    kind, text = tag.split("-")[0] if tag else "", ""
    if tag and kind not in MEDIA:
        text = repr(_text(tag, folder, example or "A text, read from its first to its last byte."))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made = environment.from_string((TEMPLATES / "snippets.py.jinja").read_text(encoding="utf-8")).make_module({
        "repo_id": repo_id, "config": config, "head": head, "classifier": classifier, "tag": tag, "kind": kind,
        "verb": VERBS.get(tag or "", "classify"), "example": example, "text": text,
        "shown": SHOWN.get(kind) or ("text" if len(text) > 60 else text),
        "extractor": processor.is_file() and "feature_extractor_type" in processor.read_text(encoding="utf-8"),
    })  # fmt: skip
    use, other = (vars(made)[name]().strip("\n") for name in ("use", "other"))
    title = "Its classifier:" if classifier else "For fine-tuning on labels of your own:"
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        title = "As an encoder:"
    return Snippets(use, other, title, tag)


def _text(tag: str, folder: Path, text: str) -> str:
    """A text for a pipeline: with a hidden token in its middle, or its first half to continue."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:MAX_TEXT]
    middle = len(ids) // 2
    if tag == "fill-mask":
        ids[middle] = tokenizer.mask_token_id
    return tokenizer.batch_decode([ids[:middle] if tag == "text-generation" else ids])[0]


def head_of(config) -> str:
    """The suffix of the saved class: "ForMaskedLM" and the like; nothing for a model without a head."""
    name = config.architectures[0]
    return name[name.index("For") :] if "For" in name else ""


def render_card(
    run: Run | Converted,
    model: PreTrainedModel,
    repo_id: str,
    license: str,
    pictures: list[str],
    code: Snippets,
    printed: str = "",
    label: str | None = None,
) -> ModelCard:
    """Render the card, without results for weights that were trained elsewhere.

    `pictures` are names of files in the folder. `printed` is what the code prints for a real example, and `label` that
    example's.
    """
    config, results = model.config, dict[str, Any]()
    if isinstance(run, Converted):
        arch, kind = config.model_type.removeprefix("longseq_"), "converted"
        fields: dict[str, Any] = {"conversion": {"command": run.command, "assumptions": [], **run.record}}
    else:
        arch, kind = run.settings["model"]["arch"], "self-pretraining"
        results, fields = result_metadata(run, code.pipeline), {"conversion": None, **run_fields(run, head_of(config))}
    data = ModelCardData(
        license=license,
        library_name="transformers",
        pipeline_tag=code.pipeline,
        tags=["hf-longseq", config.model_type.replace("_", "-"), "long-sequences", kind, "custom_code"],
        model_name=repo_id.split("/")[-1],
        **results,
    )
    trunk = getattr(config, "backbone_config", None)
    text = render(
        TEMPLATES / "model_card.md.jinja",
        card_data=data.to_yaml(),
        repo_id=repo_id,
        config=config,
        arch=NAMES.get(arch, arch),
        both_ways=config.bidirectional or (trunk is not None and not looks_back_only(trunk)),
        trunk=trunk,
        pictures=pictures,
        snippets=code,
        printed=printed,
        label=label,
        num_parameters=model.num_parameters(),
        **fields,
    )
    return ModelCard(text)


def result_metadata(run: Run, pipeline: str | None) -> dict[str, Any]:
    """The results and data of a run for the head of its card."""
    task, dataset, commit = run.settings["data"]["task"], *hub_source(run)
    results = [
        EvalResult(
            task_type=pipeline or "other",
            dataset_type=dataset or task,
            dataset_name=data_name(run.settings),
            dataset_split=run.split,
            dataset_revision=commit,
            metric_type=metric,
            metric_name=f"{run.split} {metric}",
            metric_value=round(float(value), 6),
        )
        for metric, value in run.scores.items()
    ]
    metrics = [run.metrics["metric"]] if run.metrics["metric"] != "loss" else None
    return {"metrics": metrics, "datasets": [dataset] if dataset else None, "eval_results": results}


def hub_source(run: Run) -> tuple[str | None, str | None]:
    """The run's data set on the Hub, and its commit if it is a published task."""
    named = HUB_DATASET.fullmatch(run.data.get("source") or "")
    return (named["id"], named["commit"]) if named else (None, None)


def data_name(settings: dict[str, Any]) -> str:
    """The task of a run, or the file or data set that a user brought."""
    section = settings["data"]
    return str(section.get("data") or section["task"]) if section["task"] == "own-data" else section["task"]


def eval_results_file(run: Run) -> dict[str, list]:
    """Test results for a benchmark's page on the Hub, file name -> content, if its data set gave the whole split."""
    metric, (dataset, commit) = run.metrics["metric"], hub_source(run)
    part = any(run.settings["data"].get(name) is not None for name in ("num_test_examples", "num_rows"))
    part = part or str(run.data.get("source")).endswith(TAKEN_OUT)
    if dataset is None or run.split != "test" or metric not in run.scores or part:
        return {}
    labels = labels_of(run.metrics, run.data)
    arm = (run.compared_as or run.settings["model"]["arch"], run.settings["run"].get("init"))
    notes = [f"test {metric}", f"{labels:,} labels" if labels else "", f"arm {' '.join(filter(None, arm))}"]
    entry = EvalResultEntry(
        dataset_id=dataset,
        task_id=run.settings["data"]["task"] if commit else "default",
        value=round(float(run.scores[metric]), 6),
        dataset_revision=commit,
        notes=", ".join(filter(None, notes)),
    )
    return {f".eval_results/{dataset.split('/')[-1]}.yaml": eval_result_entries_to_yaml([entry])}


def run_fields(run: Run, head: str) -> dict[str, Any]:
    """The fields of a run for the template."""
    task = run.settings["data"]["task"]
    own = run.settings["pretrain" if run.phase == "pretrain" else "finetune"]
    unused = "num_train_epochs" if own.get("max_steps") is not None else "max_steps"  # steps win
    return {
        "run": run,
        "head": head,
        "task": data_name(run.settings),
        "task_summary": TASKS[task].summary if task in TASKS and task != "own-data" else "",
        "task_options": task_options(task, run.settings["data"]),
        "start": start_of(run),
        "inputs": " and ".join(inputs_of(run.settings)),
        "pretraining": own if run.phase == "pretrain" else run.pretraining and run.pretraining["pretrain"],
        "scores": {
            name: f"{value:.1%}".replace("%", " %") if name in PERCENT else f"{value:.4g}"
            for name, value in run.scores.items()
        },
        "comparison": comparable_rows(run),
        "data": describe_data(run),
        "commands": commands(run),
        "recipe": {name: own[name] for name in SETTINGS if own.get(name) is not None and name != unused},
        "hardware": ", ".join(run.environment.get("gpu") or [run.environment.get("cpu") or "a processor"]),
        "environment": dict.fromkeys(("hf_longseq", "commit", "torch", "transformers"), "") | run.environment,
    }


def start_of(run: Run) -> str:
    """The start of a classifier, from the records."""
    settings, first = run.settings["run"], run.pretraining
    if settings.get("init_weights") is None:
        return "from pretrained weights" if settings.get("init") == "pretrained" else "from scratch"
    if run.earlier is not None:
        return f"from the weights of a model trained for {data_name(run.earlier)}"
    if first is None:
        other = (run.metrics.get("transfer") or {}).get("pretrained_on")
        return f"after self-pretraining on {other}" if other else "after self-pretraining"
    same = {data_name(run.settings): "the same data"}
    return f"after self-pretraining on {' and '.join(same.get(name, name) for name in inputs_of(first))}"


def inputs_of(settings: dict[str, Any]) -> list[str]:
    """Names of the data whose inputs a pretraining read."""
    inputs, more = (settings["data"].get(name) for name in ("pretrain_inputs", "unlabelled"))
    if more is None or inputs not in ("unlabelled", "all+unlabelled"):
        return [data_name(settings)]
    return [str(more)] if inputs == "unlabelled" else [data_name(settings), str(more)]


def comparable_rows(run: Run) -> list[dict[str, Any]]:
    """Arms of the comparison with the labels of this run, or of those that start from it."""
    if run.phase == "finetune":
        counts = {labels_of(run.metrics, run.data)}
    else:
        name = f"{RUNS}/{run.folder.name}"
        counts = {row["labels"] for row in run.comparison if name in row["pretrain_runs"]}
    unit = " %" if run.compared_by in PERCENT else ""
    rows = [row for row in run.comparison if row["labels"] in counts]
    return [{**row, "score": score(row).partition("\n")[0] + unit} for row in rows]


def describe_data(run: Run) -> dict[str, Any]:
    """Source, licence, note and mask ratio of the task, as recorded with the run."""
    found = {name: run.data.get(name) for name in ("source", "license", "note", "mask_ratio")}
    task = run.settings["data"]["task"]
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
