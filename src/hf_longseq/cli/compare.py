# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq compare`: architectures and initialisations over seeds, grids and fractions of the labels."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hf_longseq.cli import launch
from hf_longseq.cli.finetune import show_spans
from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides, listed, numbers, split_dotted
from hf_longseq.errors import HfLongSeqError
from hf_longseq.version import __version__

if TYPE_CHECKING:
    from hf_longseq.comparison.execute import Comparison


def run(argv: list[str], command: str = "compare") -> None:
    """Parse, run the plan, print the table. `spt` is the same command with other arms."""
    inits = ["scratch", "spt"] if command == "compare" else ["scratch", "spt", "scratch-tied"]
    parser = Parser(
        prog=f"hf-longseq {command}",
        description="Train every architecture from every initialisation, choose settings on the validation split, "
        "score the chosen ones on the test split. Without --recipe, each architecture takes the shipped recipe of "
        f"the task. Arms unless --inits names others: {', '.join(inits)}.",
    )
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    add_plan_options(parser, inits, "0" if command == "compare" else "0 1 2, with --tiny 0")
    if command == "spt":
        parser.add_argument(
            "--until_decided", action="store_true",
            help="add seeds until the answer is clear; looks after 3, 5, 7 and 9",
        )  # fmt: skip
    words, overrides = split_dotted(argv)
    options = parser.parse(words)
    overrides = common_overrides(options, overrides)
    num_processes, launch_config = launch.checked(options.num_processes, options.launch_config)
    arguments = {
        "archs": overrides.get("model", {}).get("arch") if options.arch else None,
        "inits": listed(options.inits),
        "seeds": numbers(options.seeds, int, "seeds") or (None if command == "spt" else [0]),
        "grid": options.grid or [],
        "tune": options.tune,
        "tune_seeds": numbers(options.tune_seeds, int, "tune_seeds"),
        "windows": listed(options.window or []),
        "train_fractions": numbers(options.train_fractions, float, "train_fractions"),
        "num_processes": num_processes,
        "launch_config": launch_config,
        **({"until_decided": options.until_decided} if command == "spt" else {}),
    }
    from hf_longseq.comparison.execute import compare, spt
    from hf_longseq.comparison.workers import usual_jobs
    from hf_longseq.training.progress import ProgressBar, quiet_libraries, show_data_notes

    quiet_libraries()
    show_data_notes()
    task = overrides.get("data", {}).get("task") or options.recipe
    print(f"hf-longseq {__version__}: {command} on {task}, into {options.output_dir}", file=sys.stderr)
    with ProgressBar() as bar:
        arguments |= {name: getattr(options, name) for name in ("tiny", "jobs", "ray_address", "overwrite")}
        arguments |= {"overrides": overrides, "listener": bar, "baselines": not options.no_baselines}
        comparison = (compare if command == "compare" else spt)(options.recipe, options.output_dir, **arguments)
    print(f"\n{comparison.table()}\n")
    print(f"results: {comparison.output_dir / 'scores.csv'}")
    show_report(comparison.output_dir)
    if comparison.best is not None:
        built = json.loads((comparison.best / "config.json").read_text(encoding="utf-8"))["architectures"]
        head = "Token" if "ForToken" in built[0] else "Sequence"
        print(f"best:    {comparison.best}  (AutoModelFor{head}Classification.from_pretrained opens it)")
        show_spans(comparison.best)
    if command == "spt":
        show_answers(comparison, argv, options.jobs or usual_jobs(num_processes))


def add_plan_options(parser: Parser, inits: list[str], seeds: str) -> None:
    """Add the axes of a plan."""
    plan = parser.add_argument_group("plan (--arch may name several, and variants such as s4@init_normal=0.1)")
    plan.add_argument(
        "--inits", nargs="+", default=inits,
        help="of scratch spt spt-masked spt-causal scratch-tied, or variants such as spt-masked@span_length=16, "
        f"spt@pretrain_inputs=subset, spt-causal@direction=one (or both), scratch-tied@flops [{' '.join(inits)}]",
    )  # fmt: skip
    plan.add_argument("--seeds", "--seed", dest="seeds", nargs="+", help=f"one run of each per seed [{seeds}]")
    plan.add_argument(
        "--grid", nargs="+", metavar="KEY=V,V",
        help="settings to choose from on validation: lr=1e-3,5e-4 batch=16,64 pretrain.span_length=1,8",
    )  # fmt: skip
    plan.add_argument(
        "--tune", action="store_true",
        help="choose with seeds that are not reported; without --grid, among learning rates around the recipe's",
    )  # fmt: skip
    plan.add_argument(
        "--tune_seeds", nargs="+", default=["1000", "1001"], help="seeds that choose with --tune [1000 1001]"
    )
    plan.add_argument("--train_fractions", nargs="+", help="shares of the labelled examples, as 1,0.1,0.01")
    plan.add_argument("--window", nargs="+", metavar="W", help="positions that mixers see, as 16,64,256,full")
    plan.add_argument("--no_baselines", action="store_true", help="leave linear models out of the table")
    plan.add_argument("--jobs", type=int, help="runs at a time [one for each GPU]")
    plan.add_argument("--ray_address", metavar="ADDRESS", help="of a Ray cluster whose machines share output_dir")


def show_answers(comparison: "Comparison", argv: list[str], jobs: int) -> None:
    """Say of each gain whether pretraining pays, and what to do next."""
    from hf_longseq.comparison.advice import advice
    from hf_longseq.comparison.answer import LOOKS

    found, scores = comparison.answers, comparison.scores
    for answer in found:
        print((f"{answer.about}: " if len(found) > 1 else "") + answer.sentence)
    for sentence in dict.fromkeys(answer.linear for answer in found if answer.linear):
        print(sentence)
    seeds = sorted({int(seed) for seed in scores.loc[~scores["tuning"], "seed"]})
    if any(answer.more_seeds for answer in found) and len(seeds) < LOOKS[-1]:
        runs = scores[~scores["tuning"]].dropna(subset=["run"]).drop_duplicates("run")
        minutes = 2 * runs["seconds"].sum() / len(seeds) / 60 / jobs
        about = f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{max(60 * minutes, 1):.0f} seconds"
        words = [*_without(argv, ("--seeds", "--seed", "--overwrite", "--until_decided")), "--seeds"]
        more = map(str, [*seeds, seeds[-1] + 1, seeds[-1] + 2])
        print(f"Two more seeds take about {about}: {shlex.join(['hf-longseq', 'spt', *words, *more])}")
    elif any(answer.more_seeds for answer in found):
        print(f"{len(seeds)} seeds leave it open: the gain is small beside what seeds differ by.")
    known = comparison.results
    if found and known.get("max_length"):
        for line in advice(known["modality"], int(scores["labels"].max()), known["max_length"]):
            print(line)
    if any(answer.verdict == "pays" for answer in found):
        data = " --data NEW_FILE" if "--data" in argv else ""
        print(f"Next: {shlex.join(['hf-longseq', 'predict', '--model', str(comparison.best)])}{data}")
    elif found and all(answer.verdict in ("no gain", "loss") for answer in found):
        print(f"Next: train from scratch; such a model lies in {comparison.output_dir / found[0].model}.")


def _without(argv: list[str], options: tuple[str, ...]) -> list[str]:
    """The words of a command without some of its options and their values."""
    kept, option = [], ""
    for word in argv:
        option = word if word.startswith("--") else option
        kept += [word] if option not in options else []
    return kept


def show_report(output_dir: Path) -> None:
    """Write the report and the pictures of a comparison, and say where; the results stand without them."""
    from hf_longseq.comparison.write import report_comparison

    try:
        report = report_comparison(output_dir, shlex.join(["hf-longseq", "report", str(output_dir)]))
    except HfLongSeqError as error:
        print(f"no report: {error}", file=sys.stderr)
        return
    if report.lacks:
        print(report.lacks, file=sys.stderr)
    else:
        print(f"plots:   {output_dir / 'results.png'}  {output_dir / 'learning_curves.png'}")
    print(f"report:  {report.output_dir / 'report.html'}  (and report.md, report.tex, report.json)")
