"""A whole comparison goes to the Hub over real HTTP: every arm's best, a page with the table, and a collection."""

import json
import re
import shutil

import pytest
import yaml
from huggingface_hub import HfApi

from hf_longseq.cli.main import main
from hf_longseq.comparison.arms import is_baseline
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.publish import publish_comparison
from hub_server import Fault

PAGE = "tester/tones"
WORDS = ["compare", "--task", "spoken-tones", "--arch", "s4", "--tiny", "--max_steps", "2"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture
def comparison(kept, undrawn, monkeypatch):
    """A finished comparison of two arms over two seeds, run once."""
    folder = kept / "tones"
    if not folder.exists():
        monkeypatch.setenv("HF_LONGSEQ_CACHE", str(kept / "cache"))
        assert main([*WORDS, "--seeds", "0", "1", "--inits", "scratch,spt", "--output_dir", str(folder)]) == 0
    return folder


pytestmark = pytest.mark.usefixtures("unchecked", "undrawn")


def test_every_arms_best_goes_up_with_a_page_and_a_collection(online, comparison, capsys):
    words = ["publish", str(comparison), "--repo_id", "tones", "--collection", "Spoken tones"]
    online.faults = [Fault("PUT", "/lfs/", "cut"), Fault("POST", "/api/collections", 500)]
    assert main(words) == 2
    assert "the collection 'Spoken tones' was not completed" in capsys.readouterr().err
    assert main(words) == 0
    assert set(online.repos) == {
        ("models", f"{PAGE}-s4-scratch"),
        ("models", f"{PAGE}-s4-spt-masked"),
        ("datasets", PAGE),
    }
    assert len(list(online.repo(f"{PAGE}-s4-spt-masked").branches["main"].history())) == 3  # made, and published once

    scores = read_results([str(comparison)]).scores
    networks = scores[~scores["architecture"].map(is_baseline)]
    for row in arm_means(networks).to_dict("records"):
        best = row["runs"][row["validations"].index(max(row["validations"]))]
        published = online.repo(f"{PAGE}-s4-{row['arm']}").files["metrics.json"]
        seed = yaml.safe_load((comparison / best / "resolved.yaml").read_text())["run"]["seed"]
        held = yaml.safe_load(online.repo(f"{PAGE}-s4-{row['arm']}").files["resolved.yaml"])
        assert held["run"]["seed"] == seed and json.loads(published)["test"]["accuracy"] in row["values"]

    files = online.repo(PAGE, "datasets").files
    page = files["README.md"].decode()
    for picture in re.findall(r"\]\((figures/[^)]+)\)", page):
        assert files[picture] == (comparison / "report" / picture).read_bytes()
    assert "figures/headline.png" in page and "**test accuracy, %**" in page
    assert f"(https://huggingface.co/{PAGE}-s4-spt-masked)" in page and str(comparison) not in page
    assert files["scores.csv"] == (comparison / "scores.csv").read_bytes()
    assert json.loads(files["results.json"])["metric"] == "accuracy"
    (found,) = online.collections.values()
    assert [item["id"] for item in found["items"]] == [PAGE, f"{PAGE}-s4-scratch", f"{PAGE}-s4-spt-masked"]
    assert found["items"][1]["note"]["text"].startswith("test accuracy 0.")


def test_a_dry_run_keeps_the_folders_and_uploads_nothing(online, comparison, tmp_path):
    done = publish_comparison(comparison, PAGE, "Tones", dry_run=True, output_dir=tmp_path)
    assert [one.repo_id for one in done] == [f"{PAGE}-s4-scratch", f"{PAGE}-s4-spt-masked", PAGE]
    assert not online.requests and {path.name for path in tmp_path.iterdir()} == {
        "page", "tones-s4-scratch", "tones-s4-spt-masked",
    }  # fmt: skip


def test_a_page_takes_nothing_from_the_report_that_lies_in_the_folder(comparison, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(comparison, copied)
    (tmp_path / "config.json").write_text("private")
    (copied / "report" / "figures" / "more.png").symlink_to(tmp_path / "config.json")
    (copied / "report" / "report.md").write_text("<script>evil</script>")
    publish_comparison(copied, PAGE, "Tones", dry_run=True, output_dir=tmp_path / "built")
    page = tmp_path / "built" / "page"
    assert "evil" not in (page / "README.md").read_text() and (page / "figures" / "headline.png").is_file()
    assert not (page / "figures" / "more.png").exists() and not (page / "report").exists()


@pytest.mark.parametrize("change, message", [
    ({"unfinished": ["runs/a"]}, "the comparison is unfinished"),
    ({"metric": "loss of nothing"}, "the comparison is unfinished"),
    ({"metric": None}, "results.json has no readable metric"),
])  # fmt: skip
def test_results_that_do_not_serve_are_refused(comparison, tmp_path, change, message):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.md").write_text("")
    results = json.loads((comparison / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps({**results, **change}))
    shutil.copy(comparison / "scores.csv", tmp_path)
    with pytest.raises(HfLongSeqError, match=message):
        publish_comparison(tmp_path, PAGE, "Tones", dry_run=True)


def test_what_may_not_be_published_is_said_before_anything_goes_up(online, comparison, capsys):
    words = ["publish", str(comparison), "--repo_id", PAGE]
    assert main(words) == 2 and "give --collection TITLE" in capsys.readouterr().err
    with pytest.raises(HfLongSeqError, match="longseq-tests/x-s4-scratch .*403 Forbidden"):
        publish_comparison(comparison, "longseq-tests/x", "Tones", token=online.other_token)
    with pytest.raises(HfLongSeqError, match="holds no results.json"):
        publish_comparison(comparison / "runs", PAGE, "Tones")
    assert not online.repos
    HfApi(endpoint=online.url).create_repo(PAGE, repo_type="dataset")
    api = HfApi(endpoint=online.url)
    api.upload_file(path_or_fileobj=b"x", path_in_repo="rows.csv", repo_id=PAGE, repo_type="dataset")
    with pytest.raises(HfLongSeqError, match=f"{PAGE} holds files that are of no comparison"):
        publish_comparison(comparison, PAGE, "Tones")
    assert set(online.repos) == {("datasets", PAGE)}
