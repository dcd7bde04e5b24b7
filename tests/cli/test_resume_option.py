import json

import pytest

from hf_longseq.cli.options import Parser, add_recipe_options, common_overrides
from hf_longseq.errors import HfLongSeqError


def overrides(*words):
    parser = Parser(prog="hf-longseq spt")
    add_recipe_options(parser, ("pretrain", "finetune", "scratch"))
    return common_overrides(parser.parse(list(words)), {})


def test_resume_never_refuses_an_unfinished_run_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    folder = ["--output_dir", str(run)]
    overrides(*folder, "--resume", "never")
    run.mkdir()
    (run / "resolved.yaml").write_text("run: {}")
    with pytest.raises(HfLongSeqError, match="unfinished run and --resume is never: leave --resume out"):
        overrides(*folder, "--resume", "never")
    overrides(*folder)
    overrides(*folder, "--resume", "auto")
    overrides(*folder, "--resume=never", "--overwrite")
    (run / "metrics.json").write_text(json.dumps({}))
    overrides(*folder, "--resume", "never")
    with pytest.raises(HfLongSeqError, match="invalid choice: 'maybe'"):
        overrides(*folder, "--resume", "maybe")


def test_report_to_reaches_every_phase(tmp_path):
    found = overrides("--output_dir", str(tmp_path), "--report_to", "tensorboard")
    assert {phase: found[phase]["report_to"] for phase in ("pretrain", "finetune", "scratch")} == dict.fromkeys(
        ("pretrain", "finetune", "scratch"), "tensorboard"
    )
