"""docs/spans.md: a file of 200 rows becomes coloured spans in one command, and in fifteen lines of Python."""

import csv
import json
import random
import re
from pathlib import Path

import pytest

from hf_longseq.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "spans.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, flags=re.S)[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with `spans.csv`: words of letters, among them numbers, which are the spans."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_LONGSEQ_CACHE", str(tmp_path / "cache"))
    draw = random.Random(0)
    with open("spans.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "spans"])
        for _ in range(200):
            words = ["".join(draw.choices(draw.choice(["abcdé<", "0123"]), k=draw.randint(2, 5))) for _ in range(6)]
            text = " ".join(words)
            found = [{"start": m.start(), "end": m.end(), "label": "number"} for m in re.finditer("[0-9]+", text)]
            table.writerow([text, json.dumps(found)])
    return tmp_path


def check_page(path):
    page = path.read_text(encoding="utf-8")
    marked = re.findall(r'<mark [^>]*title="number"[^>]*>([^<]*)</mark>', page)
    assert marked and all(text.isdigit() for text in marked)  # the true spans
    assert "<script" not in page and "&lt;" in page  # what stands in the text stays text


@pytest.mark.slow
def test_one_command(folder, capsys, undrawn):
    command = block("bash").split()
    assert command[0] == "hf-longseq"
    main([*command[1:], "--tiny", "--inits", "spt"])
    assert "spans in colour: runs/spans/best/spans.html" in capsys.readouterr().out
    check_page(folder / "runs" / "spans" / "best" / "spans.html")


def test_fifteen_lines(folder, capsys):
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    exec(code.replace('"max_steps": 100', '"max_steps": 4'), {})
    check_page(folder / "spans.html")
    assert "span_f1" in capsys.readouterr().out


def test_predict_writes_lines_or_a_page(folder):
    main("finetune --from_scratch --data spans.csv --arch s4 --tiny --output_dir run".split())
    main("predict --model run --output_file answers.jsonl".split())
    answers = [json.loads(line) for line in open("answers.jsonl", encoding="utf-8")]
    assert all(set(answer) == {"index", "spans", "label"} for answer in answers) and len(answers) == 23
    assert all(span["text"].isdigit() for answer in answers for span in answer["label"])
    main("predict --model run --output_file page.html --split validation --limit 3".split())
    check_page(Path("page.html"))
