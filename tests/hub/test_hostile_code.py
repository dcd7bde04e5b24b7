"""Files of a run folder that name code of somebody else: publishing runs none of it, and none of it is published."""

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from transformers import modeling_utils
from transformers.integrations import hub_kernels
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_longseq.data.processors import byte_tokenizer
from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.check import check_folder, refuse_other_code
from hf_longseq.hub.model_files import save_model, save_processor
from hf_longseq.hub.publish import build_folder, publish
from hf_longseq.hub.records import read_run
from hf_longseq.models import (
    AdapterConfig,
    AdapterForSequenceClassification,
    LongSeqImageProcessor,
    S4ForSequenceClassification,
)
from hf_longseq.training.transfer import config_of
from hf_longseq.training.untrusted import open_model


@pytest.fixture
def run(runs, tmp_path):
    """A copy of a finished run, to be changed."""
    return shutil.copytree(runs / "classifier", tmp_path / "run")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported; its address, by ways that look like a repository."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / "away" / "x"
    place.mkdir(parents=True)
    code = f"open({str(tmp_path / 'canary')!r}, 'w').write('was run')\nclass Evil:\n    pass\n"
    (place / "evil.py").write_text(code)
    return "modules/../../away/x--evil.Evil"


def test_code_named_within_a_processor_is_not_run(run, tmp_path, stranger, undrawn, unchecked):
    inner = json.loads((run / "preprocessor_config.json").read_text())
    nested = {"feature_extractor": {**inner, "auto_map": {"AutoFeatureExtractor": stranger}}}
    (run / "processor_config.json").write_text(json.dumps(nested))
    publish(run, "org/name", dry_run=True, output_dir=tmp_path / "built")
    assert not (tmp_path / "canary").exists()
    assert not any(b"evil" in path.read_bytes() for path in (tmp_path / "built").rglob("*") if path.is_file())


def built(run, tmp_path):
    """Files of the folder that a run becomes, without opening it."""
    build_folder(read_run(run), tmp_path / "built", "org/name", "mit")
    return {path.name: path.read_bytes() for path in (tmp_path / "built").rglob("*") if path.is_file()}


def change(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


@pytest.fixture
def text_run(run):
    """The same run with a tokenizer in place of its processor."""
    (run / "preprocessor_config.json").unlink()
    byte_tokenizer(max_length=40).save_pretrained(run)
    return run


# What a file of the folder may be given that leads transformers to code or to another repository.
ENTRIES = {
    "custom pipeline": ("config.json", {"custom_pipelines": {"audio-classification": {"impl": "EVIL", "pt": []}}}),
    "auto_map of a part": ("config.json", {"text_config": {"auto_map": {"AutoModel": "EVIL"}}}),
    "auto_map of labels": ("config.json", {"rope_scaling": {"auto_map": {"AutoModel": "EVIL"}}}),
    "auto_map": ("config.json", {"auto_map": {"AutoModel": "EVIL", "AutoVideoProcessor": "EVIL"}}),
    "tokenizer class": ("config.json", {"tokenizer_class": "EVIL"}),
    "processor class": ("preprocessor_config.json", {"processor_class": "EVIL"}),
    "custom generate": ("generation_config.json", {"custom_generate": "EVIL", "cache_config": {"auto_map": "EVIL"}}),
}  # fmt: skip


@pytest.mark.parametrize("name, entries", ENTRIES.values(), ids=ENTRIES)
def test_what_names_code_is_not_published(run, tmp_path, undrawn, stranger, name, entries):
    entries = json.loads(json.dumps(entries).replace("EVIL", stranger))
    held = json.loads((run / name).read_text()) if (run / name).is_file() else {}
    (run / name).write_text(json.dumps({**held, **entries}))
    assert not any(b"evil" in content for content in built(run, tmp_path).values())
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", [
    "processor_config.json", "feature_extractor_config.json", "special_tokens_map.json", "chat_template.jinja",
    "additional_chat_templates/a.jinja", "custom_generate/generate.py", "modeling_s4.py", "evil.py", "Config.json",
    "preprocessor_config.JSON", "added_tokens.json", "video_preprocessor_config.json", "model.safetensors.index.json",
])  # fmt: skip
def test_no_other_file_is_published(run, tmp_path, undrawn, name):
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text('{"evil": "evil"}')
    files = built(run, tmp_path)
    assert not any(b"evil" in content for content in files.values())
    assert name == "modeling_s4.py" or Path(name).name not in files
    refuse_other_code(tmp_path / "built")


@pytest.mark.parametrize("auto_map", [["EVIL", None], "EVIL", 3, {"AutoTokenizer": ["EVIL", None]}, {"AutoModel": {}}])
@pytest.mark.parametrize("name", ["preprocessor_config.json", "tokenizer_config.json"])
def test_a_processor_that_names_code_in_any_form_is_one_sentence(run, tmp_path, undrawn, name, auto_map):
    held = json.loads((run / name).read_text()) if (run / name).is_file() else {}
    (run / name).write_text(json.dumps({**held, "auto_map": auto_map}))
    with pytest.raises(HfLongSeqError, match=f"{name} names code that is not this package's .auto_map: "):
        built(run, tmp_path)


@pytest.mark.parametrize("auto_map", [["EVIL"], "EVIL", {"AutoConfig": ["x--evil.Evil"]}, {"AutoConfig": "../x.Evil"}])
def test_a_configuration_that_names_code_in_any_form_runs_none(run, tmp_path, undrawn, auto_map):
    change(run / "config.json", auto_map=auto_map)
    try:
        assert not any(b"vil" in content for content in built(run, tmp_path).values())
    except HfLongSeqError as error:
        assert "damaged" in str(error)


@pytest.mark.parametrize(
    "entries",
    [
        {"feature_extractor_type": "Wav2Vec2FeatureExtractor"}, {"feature_size": {"auto_map": {}}}, {"mean": [{}]},
        {"mean": "high"}, {"feature_extractor_type": ["LongSeqFeatureExtractor"]},
    ],
)  # fmt: skip
def test_a_processor_of_others_is_one_sentence(run, tmp_path, undrawn, entries):
    change(run / "preprocessor_config.json", **entries)
    with pytest.raises(HfLongSeqError, match="preprocessor_config.json is not a file of this package's"):
        built(run, tmp_path)


def test_a_tokenizer_is_written_anew(text_run, tmp_path, undrawn):
    names = ("tokenizer.json", "tokenizer_config.json")
    before = [json.loads((text_run / name).read_text()) for name in names]
    evil = {"chat_template": "{{ evil }}", "extra_special_tokens": {"evil": "evil"}, "tokenizer_file": "evil.json"}
    change(text_run / "tokenizer_config.json", **evil, tokenizer_class="EvilTokenizer", model_specific={"evil": []})
    files = built(text_run, tmp_path)
    assert [json.loads(files[name]) for name in names] == before
    assert not any(b"evil" in content.lower() for content in files.values())


@pytest.mark.parametrize(
    "entries",
    [
        {"pre_tokenizer": {"type": "Custom", "code": "evil"}}, {"normalizer": {"type": "Python", "module": "evil"}},
        {"model": {"type": "BPE", "vocab": "/etc/passwd"}}, {"decoder": "evil"}, {"version": "9.9"},
        {"auto_map": {"AutoTokenizer": "evil"}},
    ],
)  # fmt: skip
def test_a_tokenizer_of_unknown_parts_is_one_sentence(text_run, tmp_path, undrawn, entries):
    change(text_run / "tokenizer.json", **entries)
    with pytest.raises(HfLongSeqError, match="tokenizer.json holds no tokenizer"):
        built(text_run, tmp_path)


def test_code_that_was_changed_after_it_was_written_is_not_run(run, tmp_path, undrawn, stranger):
    (tmp_path / "built").mkdir()
    source = open_model(S4ForSequenceClassification, run)
    save_model(source, tmp_path / "built")
    (tmp_path / "built" / "modeling_s4.py").write_text((tmp_path / "away" / "x" / "evil.py").read_text())
    with pytest.raises(HfLongSeqError, match="modeling_s4.py is not the code of this package"):
        check_folder(tmp_path / "built", source, "org/name")
    assert not (tmp_path / "canary").exists()


@pytest.mark.slow
def test_the_stranger_imports_this_package_s_code_alone(run, tmp_path, undrawn, stranger):
    source = open_model(S4ForSequenceClassification, run)
    save_model(source, tmp_path / "built")
    config = json.loads((tmp_path / "built" / "config.json").read_text())
    change(tmp_path / "built" / "config.json", auto_map={**config["auto_map"], "AutoModel": stranger})
    with pytest.raises(HfLongSeqError, match="evil.py is not the code of this package"):
        check_folder(tmp_path / "built", source, "org/name")
    assert not (tmp_path / "canary").exists()


KERNELS = ["org/kernel", "org/kernel@main:attend", "paged|org/kernel", "flash_attention_2", {"": "org/kernel"}]
FETCH = "for which transformers may fetch code from the Hub"


@pytest.fixture
def fetched(monkeypatch):
    """Kernels that transformers asks the Hub for, which it does if it believes that `kernels` is installed."""
    names = []
    for place in (hub_kernels, modeling_utils):
        monkeypatch.setattr(place, "is_kernels_available", lambda *_: True, raising=False)
    monkeypatch.setattr(hub_kernels, "get_kernel", lambda name, **_: names.append(name))
    return names


@pytest.mark.parametrize("asked", KERNELS, ids=str)
@pytest.mark.parametrize("field", ["attn_implementation", "_attn_implementation"])
def test_a_configuration_fetches_no_kernel(run, fetched, field, asked):
    change(run / "config.json", **{field: asked})
    with pytest.raises(HfLongSeqError, match=f"has attn_implementation '.*', {FETCH}"):
        open_model(S4ForSequenceClassification, run)
    assert not fetched
    if "org/kernel" in str(asked):  # transformers by itself asks for it
        with contextlib.suppress(Exception):
            S4ForSequenceClassification.from_pretrained(run)
        assert fetched == ["org/kernel"]


@pytest.mark.parametrize("asked", [*KERNELS, {"backbone_config": "org/kernel"}], ids=str)
@pytest.mark.parametrize("inner", [False, True])
def test_a_trunk_within_a_configuration_fetches_no_kernel(tmp_path, fetched, inner, asked):
    trunk = CONFIG_MAPPING["bert"](hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    AdapterForSequenceClassification(AdapterConfig(backbone_config=trunk, input_type="tokens")).save_pretrained(
        tmp_path
    )
    saved = json.loads((tmp_path / "config.json").read_text())
    place = saved["backbone_config"] if inner else saved
    place["attn_implementation"] = asked
    (tmp_path / "config.json").write_text(json.dumps(saved))
    for read in (lambda: open_model(AdapterForSequenceClassification, tmp_path), lambda: config_of(tmp_path, "model")):
        with contextlib.suppress(HfLongSeqError):
            read()
    assert not fetched


@pytest.mark.parametrize("asked", ["sonicmoe", "org/kernel"])
def test_experts_fetch_no_kernel(run, asked):
    change(run / "config.json", experts_implementation=asked)
    with pytest.raises(HfLongSeqError, match=f"has experts_implementation '{asked}', {FETCH}"):
        open_model(S4ForSequenceClassification, run)


@pytest.mark.parametrize("method", ["mxfp4", "nvfp4", "fbgemm_fp8", "eetq", "gptq", "bitsandbytes", "x"])
def test_a_quantised_configuration_is_refused(run, method):
    change(run / "config.json", quantization_config={"quant_method": method})
    with pytest.raises(HfLongSeqError, match=f"has quantization_config .*, {FETCH}"):
        open_model(S4ForSequenceClassification, run)


def test_an_adapter_of_peft_does_not_stand_for_another_model(run):
    (run / "adapter_config.json").write_text(
        '{"base_model_name_or_path": "org/other", "megatron_core": "antigravity"}'
    )
    with pytest.raises(HfLongSeqError, match="holds an adapter_config.json: merge the adapter"):
        publish(run, "org/name", dry_run=True)


def test_a_processor_of_pictures_is_written_anew(run, tmp_path):
    for path in run.glob("*processor*"):
        path.unlink()
    LongSeqImageProcessor(height=3, width=5, value_range=(0.0, 1.0), fit="box").save_pretrained(run)
    before = json.loads((run / "preprocessor_config.json").read_text())
    change(run / "preprocessor_config.json", image_processor={"auto_map": {"AutoImageProcessor": "x--evil.Evil"}})
    nested = {"image_processor": {**before, "auto_map": {"AutoImageProcessor": "x--evil.Evil"}}}
    (run / "processor_config.json").write_text(json.dumps(nested))
    save_model(open_model(S4ForSequenceClassification, run), tmp_path / "built")
    save_processor(run, tmp_path / "built")
    assert json.loads((tmp_path / "built" / "preprocessor_config.json").read_text()) == before
    named = json.loads((tmp_path / "built" / "config.json").read_text())["auto_map"]
    assert named["AutoImageProcessor"] == "image_processing_longseq.LongSeqImageProcessor"
    refuse_other_code(tmp_path / "built")
    assert not any(b"evil" in path.read_bytes() for path in (tmp_path / "built").iterdir())
