import json

import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from hf_longseq import evaluate, finetune, predict, pretrain
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.run import load_data


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_same_weights(first, second):
    first, second = weights(first), weights(second)
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize(
    "arch, task",
    [("dlr", "heights"), ("s4", "tags"), ("transformer", "twins")],
)
def test_pretraining_then_finetuning_gives_a_folder_that_the_auto_class_opens(tiny, tmp_path, arch, task):
    recipe = tiny(task=task, arch=arch)
    first = pretrain(recipe, tmp_path / "pretrained")
    second = finetune(recipe, tmp_path / "classifier", init_from=first.output_dir)
    model = AutoModelForSequenceClassification.from_pretrained(second.output_dir)
    spec = load_data(recipe.data).spec
    assert list(model.config.id2label.values()) == list(spec.labels or ("value",))
    assert second.metrics["init"] == "spt" and spec.metric in second.metrics["test"]
    assert second.metrics["transfer"]["new"]

    files = {path.name for path in second.output_dir.iterdir()}
    assert {"resolved.yaml", "environment.json", "data.json", "history.json", "metrics.json"} <= files
    assert "checkpoints" not in files and "training_args.bin" not in files
    for split in ("validation", "test"):
        again = evaluate(second.output_dir, split=split)
        assert again == pytest.approx(second.metrics[split], rel=1e-5)
    assert set(evaluate(second.output_dir, split="train")) == set(again)
    assert len(predict(second.output_dir, split="train")) == second.metrics["train_examples"]
    assert set(evaluate(first.output_dir, split="train")) == set(first.metrics["validation"])
    assert evaluate(first.output_dir, split="validation") == pytest.approx(first.metrics["validation"], rel=1e-5)


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_the_objective_reaches_the_model(tiny, tmp_path, objective):
    result = pretrain(tiny(pretrain={"objective": objective, "max_steps": 1}), tmp_path / "run")
    config = json.loads((result.output_dir / "config.json").read_text())
    assert config["pretraining_objective"] == objective and config["bidirectional"] == (objective == "masked")


def test_causal_pretraining_in_both_directions_is_bidirectional_from_end_to_end(tiny, tmp_path):
    recipe = tiny(task="twins", pretrain={"objective": "causal", "both_directions": True})
    first = pretrain(recipe, tmp_path / "run")
    assert json.loads((first.output_dir / "config.json").read_text())["bidirectional"] and first.metrics["flops"] > 0
    second = finetune(recipe, tmp_path / "classifier", init_from=first.output_dir)
    assert "forward" not in second.metrics["transfer"]
    assert evaluate(first.output_dir, split="validation") == pytest.approx(first.metrics["validation"], rel=1e-5)


def test_pretraining_never_sees_a_label(tiny, tmp_path):
    seen = pretrain(tiny(), tmp_path / "a")
    blind = pretrain(tiny(data={"broken_label": True}), tmp_path / "b")
    assert_same_weights(seen.output_dir, blind.output_dir)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tiny, tmp_path):
    recipe = tiny(model={"dropout": 0.1}, pretrain={"max_steps": 2})
    a, b, c = (pretrain(recipe, tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert_same_weights(a.output_dir, b.output_dir)
    assert a.metrics["validation"] == b.metrics["validation"] != c.metrics["validation"]


def test_workers_that_prepare_batches_change_nothing(tiny, tmp_path):
    alone, helped = (pretrain(tiny(pretrain={"dataloader_num_workers": n}), tmp_path / str(n)) for n in (0, 1))
    assert_same_weights(alone.output_dir, helped.output_dir)


@pytest.mark.parametrize("phase, section", [(pretrain, "pretrain"), (finetune, "scratch")])
def test_accumulation_over_small_batches_gives_the_steps_of_the_large_batch(tiny, tmp_path, phase, section):
    sizes = [{"per_device_train_batch_size": n, "max_steps": 2} for n in (8, 2)]
    large, small = (phase(tiny(**{section: size}), tmp_path / str(n)) for n, size in enumerate(sizes))
    large, small = weights(large.output_dir), weights(small.output_dir)
    for name in large:
        torch.testing.assert_close(small[name], large[name], rtol=1e-4, atol=1e-5)


def test_bf16_and_recomputation_run_and_leave_float32_weights(tiny, tmp_path):
    options = {"bf16": True, "gradient_checkpointing": True}
    result = pretrain(tiny(task="tags", pretrain=options), tmp_path / "run")
    assert {tensor.dtype for tensor in weights(result.output_dir).values()} == {torch.float32}


@pytest.mark.parametrize(
    "phase, objective", [(pretrain, {}), (pretrain, {"objective": "causal", "both_directions": True}), (finetune, {})]
)
def test_an_interrupted_run_goes_on_to_the_same_weights(tiny, tmp_path, phase, objective):
    steps = {"max_steps": 5, "eval_steps": 2}
    recipe = tiny(model={"dropout": 0.1}, pretrain={**steps, **objective}, finetune=steps)

    def interrupt(label, step, total, text):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        phase(recipe, tmp_path / "interrupted", listener=interrupt)
    assert not (tmp_path / "interrupted" / "metrics.json").exists()
    steps = []
    resumed = phase(recipe, tmp_path / "interrupted", listener=lambda label, step, total, text: steps.append(step))
    assert min(steps) == 2  # the last checkpoint before the interruption
    straight = phase(recipe, tmp_path / "straight")
    assert_same_weights(resumed.output_dir, straight.output_dir)
    assert resumed.metrics["validation"] == straight.metrics["validation"]
    assert json.loads((resumed.output_dir / "history.json").read_text())[-1]["step"] == 5


def test_a_finished_run_is_not_repeated_and_not_replaced_by_another(tiny, tmp_path):
    first = finetune(tiny(), tmp_path / "run")
    stamp = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    assert finetune(tiny(), tmp_path / "run").metrics == first.metrics
    with pytest.raises(HfLongSeqError, match="holds another run .*learning_rate"):
        finetune(tiny(finetune={"learning_rate": 0.5}), tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == stamp
    other = finetune(tiny(finetune={"learning_rate": 0.5}), tmp_path / "run", overwrite=True)
    assert other.metrics["validation"] != first.metrics["validation"]


def test_bad_data_found_while_training_leaves_no_folder_behind(tiny, tmp_path):
    with pytest.raises(ValueError, match="labels of example 0 in the batch is 7, outside"):
        finetune(tiny(data={"broken_label": True}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_ends_the_run(tiny, tmp_path):
    recipe = tiny(finetune={"learning_rate": 1e30, "max_grad_norm": 0, "max_steps": 8, "warmup_steps": 0})
    with pytest.raises(HfLongSeqError, match="training loss is .* at step .*: lower finetune.learning_rate"):
        finetune(recipe, tmp_path / "run")


def test_the_best_checkpoint_on_validation_is_kept_not_the_last(tiny, tmp_path):
    recipe = tiny(
        finetune={"max_steps": 6, "eval_steps": 1, "learning_rate": 0.3, "lr_scheduler_type": "constant_with_warmup"}
    )
    result = finetune(recipe, tmp_path / "run")
    history = json.loads((result.output_dir / "history.json").read_text())
    curve = {entry["step"]: entry["eval_accuracy"] for entry in history if "eval_accuracy" in entry}
    assert len(curve) == 6
    assert result.metrics["validation"]["accuracy"] == max(curve.values()) == curve[result.metrics["best_step"]]


def test_labelled_subsets_are_nested_and_shared_by_both_phases(tiny):
    def rows(seed=0, **data):
        data = {"num_train_examples": None, "pretrain_inputs": "subset", "validation": "separate", **data}
        loaded = load_data(tiny(data=data).data, seed)
        return [[tuple(row) for row in split["input_values"]] for split in (loaded.labelled, loaded.pretrain)]

    small, half = rows(num_train_examples=10)[0], rows(train_fraction=0.5)[0]
    assert (len(small), len(half)) == (10, 32) and set(small) < set(half)
    assert rows(num_train_examples=10)[1] == small
    labelled, inputs = rows(num_train_examples=10, pretrain_inputs="all")
    assert (len(labelled), len(inputs)) == (10, 64)
    labelled, inputs = rows(num_train_examples=10, pretrain_inputs=30)
    assert len(inputs) == 30 and set(labelled) < set(inputs)
    assert set(rows(num_train_examples=10, subset_seed=1)[0]) != set(small)


def test_the_labelled_subset_varies_with_the_seed_of_the_run_unless_it_is_fixed(tiny):
    def labels(seed, **data):
        data = {"num_train_examples": 10, "num_validation_examples": 5, "validation": "separate", **data}
        section = tiny(data=data).data
        loaded = load_data(section, seed)
        return loaded.labelled["input_values"][:], loaded.validation["input_values"][:]

    first, second = labels(0), labels(1)
    assert str(first[0]) != str(second[0]) and str(first[1]) == str(second[1])
    assert str(labels(0, subset_seed=3)[0]) == str(labels(1, subset_seed=3)[0]) == str(labels(3)[0])


def test_labels_can_pay_for_their_own_validation(tiny, tmp_path):
    def rows(seed=0, **data):
        loaded = load_data(tiny(data={"num_train_examples": 20, "validation": "labels", **data}).data, seed)
        names = ("labelled", "validation", "pretrain", "pretrain_validation", "test")
        return {name: {tuple(row) for row in getattr(loaded, name)["input_values"]} for name in names}

    cut, separate = rows(), rows(validation="separate")
    assert (len(cut["labelled"]), len(cut["validation"])) == (16, 4)
    assert cut["labelled"] | cut["validation"] == separate["labelled"] and not cut["labelled"] & cut["validation"]
    assert cut["pretrain_validation"] == separate["validation"] and cut["test"] == separate["test"]
    assert rows(pretrain_inputs="subset")["pretrain"] == cut["labelled"]
    assert rows(seed=1)["validation"] != cut["validation"]
    run = finetune(tiny(data={"num_train_examples": 20, "validation": "labels"}), tmp_path / "run").output_dir
    sizes = json.loads((run / "data.json").read_text())["splits"]
    assert (sizes["train"]["num_examples"], sizes["validation"]["num_examples"]) == (16, 4)


@pytest.mark.parametrize(
    ("data", "labelled"),
    [
        ({"num_train_examples": 20}, 16),
        ({"train_fraction": 0.5}, 26),
        ({"num_train_examples": 20, "validation": "separate"}, 20),
        ({}, 64),
    ],
    ids=["number", "fraction", "separate", "no limit"],
)
def test_labels_that_are_limited_pay_for_their_own_validation(tiny, data, labelled):
    loaded = load_data(tiny(data=data).data)
    assert len(loaded.labelled) == labelled


def test_labels_that_pay_for_their_validation_are_enough_for_both(tiny):
    with pytest.raises(HfLongSeqError, match="has none of class"):
        load_data(tiny(data={"num_train_examples": 2, "validation": "labels"}).data)


def test_pretraining_takes_any_dataset_of_the_tasks_inputs(tiny, tmp_path):
    more = Dataset.from_dict({"input_values": [[0.1 * step for step in range(15)]] * 9})
    run = pretrain(tiny(), tmp_path / "run", train_dataset=more.with_format("numpy"))
    assert run.metrics["train_examples"] == 9


def test_a_subset_without_one_of_the_classes_is_refused(tiny):
    with pytest.raises(HfLongSeqError, match="labelled subset of 1 examples has none of class"):
        load_data(tiny(data={"num_train_examples": 1}).data)
    with pytest.raises(HfLongSeqError, match="num_train_examples is 99, but there are 64 training examples"):
        load_data(tiny(data={"num_train_examples": 99}).data)
    with pytest.raises(HfLongSeqError, match="pretrain_inputs is 99, but there are 64 training examples"):
        load_data(tiny(data={"pretrain_inputs": 99}).data)


def test_predictions_name_the_classes_for_splits_and_for_files(tiny, tmp_path):
    run = finetune(tiny(), tmp_path / "run").output_dir
    answers = predict(run, split="validation", limit=5, batch_size=2)
    assert [answer["index"] for answer in answers] == [0, 1, 2, 3, 4]
    assert {answer["prediction"] for answer in answers} <= {"slow", "fast"} and 0.5 <= answers[0]["score"] <= 1
    rows = load_data(tiny().data).validation
    lines = [json.dumps({"input_values": list(map(float, rows[index]["input_values"]))}) for index in range(5)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    own = predict(run, source=tmp_path / "own.jsonl")
    assert [answer["prediction"] for answer in own] == [answer["prediction"] for answer in answers]
    assert "label" not in own[0]
    config = (run / "config.json").read_text()
    for names in ({"0": {"a": 1}, "1": "fast"}, {"1": "slow", "2": "fast"}):
        (run / "config.json").write_text(json.dumps(json.loads(config) | {"id2label": names}))
        with pytest.raises(HfLongSeqError, match="does not name its 2 classes in id2label: restore"):
            predict(run)
    (run / "config.json").write_text(json.dumps(json.loads(config) | {"label2id": 0}))
    assert predict(run, split="validation", limit=5, batch_size=2) == answers
    (run / "config.json").write_text(config)
    (tmp_path / "bad.jsonl").write_text('{"input_values": [0.5, NaN]}')
    for path, message in [("bad.jsonl", "(?i)nan|missing"), ("nowhere.jsonl", "does not exist")]:
        with pytest.raises(ValueError, match=message):
            predict(run, source=tmp_path / path)


def test_using_something_that_is_no_finished_run_is_refused(tiny, tmp_path):
    run = pretrain(tiny(), tmp_path / "run").output_dir
    with pytest.raises(HfLongSeqError, match="ForPreTraining', which has no classifier"):
        predict(run)
    with pytest.raises(HfLongSeqError, match=r"split is 'tst' \(did you mean 'test'"):
        evaluate(run, split="tst")
    settings = (run / "resolved.yaml").read_text()
    for seed in ("first", "true"):
        (run / "resolved.yaml").write_text(settings.replace("seed: 0", f"seed: {seed}"))
        with pytest.raises(HfLongSeqError, match="resolved.yaml names no seed of the run: restore it"):
            evaluate(run)
    (run / "resolved.yaml").write_text(settings)
    config = json.loads((run / "config.json").read_text())
    expected = evaluate(run)["loss"]
    (run / "config.json").write_text(json.dumps({**config, "architectures": [5]}))
    assert evaluate(run)["loss"] == expected  # the task chooses the head, where the file names no class
    (run / "config.json").write_text(json.dumps(config))
    (run / "metrics.json").unlink()
    with pytest.raises(HfLongSeqError, match="unfinished"):
        evaluate(run)
    with pytest.raises(HfLongSeqError, match="is not a run"):
        evaluate(tmp_path)


def test_every_parameter_can_be_redrawn_from_one_normal_distribution(tiny, tmp_path):
    from hf_longseq.training.assemble import CLASSIFIER, configuration, fresh_model, redraw_parameters

    recipe = tiny(model={"init_normal": 0.1}, finetune={"max_steps": 1, "learning_rate": 0.0})
    data = load_data(recipe.data)
    model = fresh_model(CLASSIFIER, configuration(recipe.model, recipe.scratch, data.spec))
    redraw_parameters(model, recipe.model.init_normal)
    drawn = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert 0.09 < drawn.std() < 0.11 and abs(drawn.mean()) < 0.01
    result = finetune(recipe, tmp_path / "run", data=data)
    trained = CLASSIFIER.from_pretrained(result.output_dir)
    assert all(0.05 < parameter.std() < 0.15 for parameter in trained.parameters() if parameter.numel() > 100)
    assert "init_normal: 0.1" in (tmp_path / "run" / "resolved.yaml").read_text()


def test_a_record_starts_no_processes(tiny, tmp_path, monkeypatch):
    run = finetune(tiny(), tmp_path / "run")
    settings = yaml.safe_load((run.output_dir / "resolved.yaml").read_text())
    many = {"dataloader_num_workers": 9000, "dataloader_prefetch_factor": 2, "dataloader_persistent_workers": True}
    for section in {"finetune", "scratch"} & settings.keys():
        settings[section] |= many
    (run.output_dir / "resolved.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", lambda process: pytest.fail("a worker"))
    assert evaluate(run.output_dir)["accuracy"] == run.metrics["test"]["accuracy"]


def test_a_candidate_is_not_scored_on_the_test_split(tiny, tmp_path):
    metrics = finetune(tiny(finetune={"max_steps": 1}), tmp_path / "run", score_test=False).metrics
    assert "test" not in metrics and metrics["validation"] and metrics["flops"] > 0
