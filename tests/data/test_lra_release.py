"""The released files, on stand-ins in their formats: ListOps, Retrieval, Pathfinder."""

import pytest
from stand_ins import PATHFINDER, grey_png, lra_files, write_files

from hf_longseq.data import byte_text
from hf_longseq.data.collators import DataCollatorForMaskedDenoising
from hf_longseq.data.listops import VOCABULARY
from hf_longseq.data.task import load_task
from hf_longseq.data.task_spec import MissingDataError

pytest.importorskip("PIL")


@pytest.fixture
def files():
    return lra_files()


@pytest.fixture
def release(files, tmp_path):
    return write_files(files, tmp_path / "release")


def load(name, release, **options):
    return load_task(name, data_dir=str(release), cache_dir=str(release.parent / "cache"), **options)


def test_listops(release):
    splits, spec = load("listops", release)
    row = splits["test"][0]
    assert [VOCABULARY[i] for i in row["input_ids"]] == ["[MAX", "2", "9", "X", "[EOS]"] and row["labels"] == 9
    assert all(len(split) == 3 for split in splits.values()) and "release" in spec.source


def test_retrieval(release):
    splits, spec = load("retrieval", release, max_length=12)
    row = splits["train"][0]
    assert byte_text.decode(row["input_ids"]) == 'the "first ' and byte_text.decode(row["input_ids_2"]) == "the second"
    assert splits["train"][:]["labels"].tolist() == [1, 0] and spec.pair
    batch = DataCollatorForMaskedDenoising.from_task(spec)([splits["train"][i] for i in range(2)])
    assert batch["input_ids"].shape == (4, 12)


def test_pathfinder_splits_as_published_and_leaves_out_empty_pictures(release, caplog):
    splits, spec = load("pathfinder", release)
    assert {name: len(split) for name, split in splits.items()} == {"train": 25, "validation": 2, "test": 2}
    for split in splits.values():
        rows = split[:]
        assert [values[0] for values in rows["input_values"]] == [200 if label else 30 for label in rows["labels"]]
    assert splits["train"][0]["input_values"].shape == (1024,) and spec.num_levels == 256
    assert f"{PATHFINDER}: 1 empty picture(s) left out, " in caplog.text


def test_pictures_whose_metadata_were_not_unpacked_are_noticed(files, tmp_path):
    del files[f"lra_release/lra_release/{PATHFINDER}/metadata/10.npy"]
    release = write_files(files, tmp_path / "release")
    with pytest.raises(ValueError, match="metadata lacks the file for imgs/10"):
        load("pathfinder", release)
    assert not list((tmp_path / "cache").rglob("*.arrow"))


DAMAGE = [
    ("listops", "listops-1000/basic_val.tsv", b"[MAX 2 9 ]\r\n", "basic_val.tsv, row 1, has 1 columns instead of 2"),
    ("listops", "listops-1000/basic_val.tsv", b"Source\tTarget\r\n[AVG 2 9 ]\t5\r\n", r"row 2, holds symbol '\[AVG'"),
    ("listops", "listops-1000/basic_test.tsv", b"Source\tTarget\r\n[MAX 2 9 ]\t12\r\n", "row 2, holds label '12'"),
    ("retrieval", "tsv_data/new_aan_pairs.eval.tsv", b"1.0\tA\tB\ttext\n", "row 1, has 4 columns instead of 5"),
    ("retrieval", "tsv_data/new_aan_pairs.eval.tsv", b"7\tA\tB\ta\tb\n", "row 1, has label '7'"),
    ("retrieval", "tsv_data/new_aan_pairs.eval.tsv", b"1\tA\tB\ta\t\n", "row 1, has an empty document"),
    ("pathfinder", f"{PATHFINDER}/metadata/1.npy", b"imgs/1 sample_0.png 0\n", "metadata/1.npy, line 1, reads"),
    ("pathfinder", f"{PATHFINDER}/metadata/1.npy", b"imgs/1 sample_99.png 0 1\n", "sample_99.png, which is missing"),
    ("pathfinder", f"{PATHFINDER}/imgs/1/sample_2.png", b"\x89PNG", "sample_2.png is not a readable picture"),
    ("pathfinder", f"{PATHFINDER}/imgs/1/sample_2.png", grey_png(3, 16), r"sample_2.png has shape \(16, 16\)"),
]


@pytest.mark.parametrize(("task", "name", "content", "message"), DAMAGE, ids=[case[3] for case in DAMAGE])
def test_damage_is_named_by_file_and_row_and_nothing_is_cached(task, name, content, message, files, tmp_path):
    files[f"lra_release/lra_release/{name}"] = content
    release = write_files(files, tmp_path / "release")
    with pytest.raises(ValueError, match=message):
        load(task, release)
    assert not list((tmp_path / "cache").rglob("*.arrow"))


@pytest.mark.parametrize("task", ["listops", "retrieval", "pathfinder"])
def test_a_wrong_folder_names_the_command(task, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in ("empty", "nowhere"):
        with pytest.raises(MissingDataError, match="run `(curl|hf download)"):
            load(task, tmp_path / place)
