"""``conal fit``: what it writes, and that options do what they say."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

import conal as package

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

FILES = {
    "annotators.csv",
    "common_confusion.csv",
    "config.json",
    "history.csv",
    "labels.csv",
    "metrics.json",
    "model.safetensors",
    "report.html",
    "report.json",
    "tasks.json",
    "suggestions.csv",
}


def parameters(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return dict(config["parameters"])


def metrics(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def is_share(column: pa.ChunkedArray) -> bool:
    values = column.to_numpy()
    return bool(((values >= 0) & (values <= 1)).all())


# -------------------------------------------------------------------- the model folder


def test_folder_is_complete_and_nothing_is_beside_it(model: Path, shared_crowd: Crowd) -> None:
    assert {path.name for path in model.iterdir()} == FILES
    assert listing(shared_crowd.folder) == {"labels.csv", "features.npy", "model"} | {f"model/{f}" for f in FILES}


def test_labels_csv_has_a_row_per_task(model: Path, shared_crowd: Crowd) -> None:
    table = pv.read_csv(model / "labels.csv")
    assert table.column_names[:6] == ["task", "label", "probability", "proba_cat", "proba_dog", "proba_fish"]
    assert table["task"].to_pylist() == list(range(len(shared_crowd.x)))
    assert set(table["label"].to_pylist()) <= {"cat", "dog", "fish"}
    assert is_share(table["probability"])
    assert table["probability"].to_numpy().min() >= 1 / 3
    assert (np.array(table["label"].to_pylist()) == shared_crowd.z).mean() > 0.7


def test_annotators_csv_has_a_row_per_worker(model: Path, shared_crowd: Crowd) -> None:
    table = pv.read_csv(model / "annotators.csv")
    assert table.column_names[:5] == [
        "worker",
        "num_examples_labeled",
        "annotator_quality",
        "agreement_with_consensus",
        "common_noise_rate",
    ]
    workers = [worker for _, worker, _ in shared_crowd.rows]
    assert table["worker"].to_pylist() == sorted(set(workers))
    assert table["num_examples_labeled"].to_pylist() == [workers.count(name) for name in sorted(set(workers))]
    assert all(is_share(table[name]) for name in table.column_names[2:7])


def test_common_confusion_csv_is_a_row_stochastic_matrix(model: Path) -> None:
    table = pv.read_csv(model / "common_confusion.csv")
    assert table.column_names == ["true", "cat", "dog", "fish"]
    assert table["true"].to_pylist() == ["cat", "dog", "fish"]
    matrix = np.column_stack([table[name].to_numpy() for name in ("cat", "dog", "fish")])
    np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(matrix, package.load(model).common_confusion_, atol=1e-6)


def test_history_csv_has_a_row_per_epoch(model: Path) -> None:
    table = pv.read_csv(model / "history.csv")
    assert table.column_names == ["epoch", "loss", "lr", "seconds"]
    assert table["epoch"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert np.isfinite(table["loss"].to_numpy()).all()
    np.testing.assert_allclose(table["lr"].to_numpy(), [0.001, 0.002, 0.003, 0.004, 0.005, 0.005])
    assert table["seconds"].to_numpy().min() > 0


def test_metrics_and_config_describe_the_fit(model: Path, shared_crowd: Crowd) -> None:
    found = metrics(model)
    assert found["method"] == "xconal"
    assert found["selection"] == "last"
    assert found["best_epoch"] == found["epochs"] == 6
    assert found["best_score"] is None
    counts = (found["n_tasks"], found["n_annotators"], found["n_annotations"])
    assert counts == (len(shared_crowd.x), 6, len(shared_crowd.rows))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == "conal-model"
    assert config["classes"] == ["cat", "dog", "fish"]
    assert config["instance_shape"] == [5]
    assert set(config["files"]) == FILES - {"config.json", "report.html"}  # the page is made of the others


def test_fit_is_what_the_library_does(model: Path, shared_crowd: Crowd) -> None:
    annotations = package.Annotations.read(shared_crowd.labels)
    fitted = package.make("xconal", epochs=6, verbose=False).fit(shared_crowd.x, annotations)
    loaded = package.load(model)
    np.testing.assert_allclose(loaded.predict_proba(shared_crowd.x), fitted.predict_proba(shared_crowd.x), atol=1e-5)


def test_held_out_annotations_select_the_epoch_of_the_papers_method(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    out = tmp_path / "m"
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", out, "--epochs", 6, "--method", "conal")
    assert " of 6 kept, by the likelihood of held-out annotations" in run.out
    assert "; 9 tasks were held out to select it; " in run.out
    found, history = metrics(out), pv.read_csv(out / "history.csv")
    scores = history["holdout_log_likelihood"].to_pylist()
    assert history.column_names == ["epoch", "loss", "lr", "holdout_log_likelihood", "seconds"]
    assert found["selection"] == "holdout_log_likelihood"
    assert found["best_score"] == pytest.approx(max(scores))
    assert scores.index(max(scores)) + 1 == found["best_epoch"]


# -------------------------------------------------------------------- output


def test_json_is_one_object_on_stdout(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    out = tmp_path / "m"
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", out, "--epochs", 2, "--json")
    result = run.json()
    assert result.pop("out") == str(out)
    assert result.pop("total_seconds") > result["seconds"]
    assert result.pop("files") == []  # of a single file there is nothing to tell
    assert result == metrics(out)


def test_json_stays_alone_on_stdout_when_there_are_warnings(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    rows = [*crowd.rows, (0, "w9", ""), crowd.rows[0]]
    labels = write(tmp_path / "more.csv", ("task", "worker", "label"), rows)
    arguments = ("fit", labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    run = conal(*arguments, "--resume", "--json", "--quiet")
    assert run.json()["n_annotations"] == len(crowd.rows)
    assert "dropped 1 rows without a label" in run.err
    assert "1 rows repeat" in run.err
    assert "no checkpoint at" in run.err
    notes = ("warning: ", "no checkpoint")
    assert all(line.startswith(notes) for line in run.err.splitlines())


def test_summary_is_for_people(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    out = tmp_path / "m"
    run = conal("fit", crowd.labels, "--features", crowd.features, "--out", out, "--epochs", 2)
    assert run.code == 0
    first, second, belief, *outcome, third, last = run.out.splitlines()
    assert first == f"xconal: {len(crowd.rows)} labels by 6 annotators on 90 tasks, 3 classes"
    assert "2 of 2 kept, the last one" in second
    assert third.endswith(str(out))
    assert last == f"report: {out / 'report.html'}"
    assert belief.startswith("The model believes that ")
    assert f"conal plan {out} --experts 50 --out plan.csv" in belief
    assert outcome[0].endswith("from the majority vote")
    assert outcome[1].startswith("common confusions: ")
    assert outcome[-3].startswith("1. Label fifty tasks yourself.")
    assert f"conal plan {out} --experts 50" in outcome[-3]


def test_quiet_says_nothing(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 6)
    run = conal(*arguments, "--quiet")
    assert (run.code, run.out) == (0, "")
    assert run.err == "" or run.err.startswith("warning: ")


# -------------------------------------------------------------------- reproducibility


def test_same_seed_gives_the_same_bytes_and_another_does_not(
    conal: Run, conal_process: Run, model: Path, shared_crowd: Crowd, tmp_path: Path
) -> None:
    weights = []
    for run, seed in ((conal_process, 0), (conal, 1)):
        out = tmp_path / str(seed)
        arguments = ("fit", shared_crowd.labels, "--features", shared_crowd.features, "--out", out, "--epochs", 6)
        assert run(*arguments, "--seed", seed).code == 0
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == (model / "model.safetensors").read_bytes()
    assert weights[1] != weights[0]


def test_row_order_of_the_labels_does_not_matter(
    conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path, write: Callable[..., Path]
) -> None:
    rows = list(reversed(shared_crowd.rows))
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    arguments = ("fit", labels, "--features", shared_crowd.features, "--out", tmp_path / "m", "--epochs", 6)
    assert conal(*arguments).code == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


# -------------------------------------------------------------------- ways to give data


def as_csv(path: Path, ids: list[str], x: Any) -> Path:
    columns = {"id": ids, **{f"f{k}": x[:, k] for k in range(x.shape[1])}}
    pv.write_csv(pa.table(columns), path)
    return path


def as_npz(path: Path, ids: list[str], x: Any) -> Path:
    np.savez(path, X=x, task=np.array(ids))
    return path


def as_parquet(path: Path, ids: list[str], x: Any) -> Path:
    columns = {**{f"f{k}": x[:, k] for k in range(x.shape[1])}, "task": ids}
    pq.write_table(pa.table(columns), path)
    return path


def as_parquet_lists(path: Path, ids: list[str], x: Any) -> Path:
    pq.write_table(pa.table({"embedding": [row.tolist() for row in x], "item": ids}), path)
    return path


@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("x.csv", as_csv),
        ("x.npz", as_npz),
        ("x.parquet", as_parquet),
        ("lists.parquet", as_parquet_lists),
    ],
)
def test_text_ids_in_another_row_order_give_the_same_model(
    conal: Run,
    shared_crowd: Crowd,
    model: Path,
    tmp_path: Path,
    write: Callable[..., Path],
    name: str,
    store: Callable[[Path, list[str], Any], Path],
) -> None:
    n = len(shared_crowd.x)
    names = [f"img {task:03d}.png" for task in range(n)]  # in the order of the numbers, so that codes are equal
    order = np.random.default_rng(5).permutation(n)
    rows = [(names[task], worker, label) for task, worker, label in shared_crowd.rows]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    features = store(tmp_path / name, [names[k] for k in order], shared_crowd.x[order])
    out = tmp_path / "m"
    assert conal("fit", labels, "--features", features, "--out", out, "--epochs", 6).code == 0
    ours, theirs = package.load(out), package.load(model)
    np.testing.assert_allclose(
        ours.predict_proba(shared_crowd.x), theirs.predict_proba(shared_crowd.x), rtol=0, atol=1e-5
    )
    table = pv.read_csv(out / "labels.csv")
    assert table["task"].to_pylist() == names
    assert table["label"].to_pylist() == pv.read_csv(model / "labels.csv")["label"].to_pylist()


@pytest.mark.parametrize("kind", ["tsv", "parquet", "jsonl", "csv with other names"])
def test_labels_come_in_several_formats(
    conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path, kind: str
) -> None:
    tasks, workers, labels = zip(*shared_crowd.rows, strict=True)
    table = pa.table({"task": tasks, "worker": workers, "label": labels})
    path, options = tmp_path / f"labels.{kind}", list[str]()
    if kind == "tsv":
        pv.write_csv(table, path, pv.WriteOptions(delimiter="\t"))
    elif kind == "parquet":
        pq.write_table(table, path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")
        assert pj.read_json(path).num_rows == len(labels)
    else:
        path = tmp_path / "labels.txt"
        pv.write_csv(table.rename_columns(["Bild", "WorkerId", "Urteil"]), path)
        options = ["--set", "format=csv", "--label-column", "Urteil", "--task-column", "Bild"]
    out = tmp_path / "m"
    run = conal("fit", path, "--features", shared_crowd.features, "--out", out, "--epochs", 6, *options)
    assert run.code == 0, run.err
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_labels_may_be_a_matrix(conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path) -> None:
    names = ["cat", "dog", "fish"]
    matrix = np.full((len(shared_crowd.x), 6), -1)
    for task, worker, label in shared_crowd.rows:
        matrix[task, int(worker[1:])] = names.index(label)
    np.save(tmp_path / "labels.npy", matrix)
    arguments = ("fit", tmp_path / "labels.npy", "--features", shared_crowd.features, "--out", tmp_path / "m")
    assert conal(*arguments, "--epochs", 6).code == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_classes_set_the_order_and_may_include_unused_ones(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    assert conal(*arguments, "--classes", "fish, cat,whale,dog").code == 0
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["classes"] == ["fish", "cat", "whale", "dog"]


def test_a_class_may_be_called_true(conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]) -> None:
    names = {"cat": "true", "dog": "false", "fish": "unsure"}
    rows = [(task, worker, names[label]) for task, worker, label in crowd.rows]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    assert conal("fit", labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2).code == 0
    table = pv.read_csv(tmp_path / "m" / "common_confusion.csv")
    assert table.num_columns == 4
    assert table.column(0).to_pylist() == ["false", "true", "unsure"]
    assert package.load(tmp_path / "m").classes_.tolist() == ["false", "true", "unsure"]


def test_classes_may_be_dates(conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]) -> None:
    names = {"cat": "2020-01-01", "dog": "2020-01-02", "fish": "2020-01-03"}
    rows = [(task, worker, names[label]) for task, worker, label in crowd.rows]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    run = conal("fit", labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    assert run.code == 0, run.err
    assert [str(name) for name in package.load(tmp_path / "m").classes_] == sorted(names.values())


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_files_of_other_systems(
    conal: Run, shared_crowd: Crowd, model: Path, tmp_path: Path, line_end: str, encoding: str
) -> None:
    text = shared_crowd.labels.read_text(encoding="utf-8").replace("\n", line_end)
    labels = tmp_path / "labels.csv"
    labels.write_bytes(text.encode(encoding))
    arguments = ("fit", labels, "--features", shared_crowd.features, "--out", tmp_path / "m", "--epochs", 6)
    assert conal(*arguments).code == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_names_of_any_characters_survive(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    names = {"cat": 'a "quoted" cat', "dog": "いぬ, 犬", "fish": "two\x0blines"}
    tasks = [f"t\t{k:02d}," for k in range(90)]
    rows = [(tasks[task], f"{worker} é", names[label]) for task, worker, label in crowd.rows]
    with (tmp_path / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("task", "worker", "label"), *rows])
    np.savez(tmp_path / "x.npz", X=crowd.x, task=np.array(tasks))
    end = ("--features", tmp_path / "x.npz", "--out", tmp_path / "m", "--epochs", 2)
    assert conal("fit", tmp_path / "labels.csv", *end).code == 0
    with (tmp_path / "m" / "labels.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["task"] for row in found] == tasks
    assert {row["label"] for row in found} <= set(names.values())
    assert conal("predict", tmp_path / "m", tmp_path / "x.npz", "--out", tmp_path / "p.csv").code == 0
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        predicted = csv.DictReader(file)
        assert list(predicted.fieldnames or ())[3:] == [f"proba_{name}" for name in sorted(names.values())]
        assert [row["task"] for row in predicted] == tasks


# -------------------------------------------------------------------- imperfect data that are no errors


def test_a_task_without_labels_is_labelled_too(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    rows = [row for row in crowd.rows if row[0] not in (0, 7, 89)]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    run = conal("fit", labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    assert run.code == 0, run.err
    table = pv.read_csv(tmp_path / "m" / "labels.csv")
    assert table["task"].to_pylist() == list(range(90))
    assert None not in table["label"].to_pylist()


def test_an_annotator_without_labels_has_empty_cells(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    rows = [*crowd.rows, (3, "silent", ""), (4, "silent", "NaN")]
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    run = conal("fit", labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    assert run.code == 0
    assert "warning: " in run.err
    assert "dropped 2 rows without a label" in run.err
    table = pv.read_csv(tmp_path / "m" / "annotators.csv")
    (row,) = (row for row in table.to_pylist() if row["worker"] == "silent")
    assert {name: row[name] for name in table.column_names[:5]} == {
        "worker": "silent",
        "num_examples_labeled": 0,
        "annotator_quality": None,
        "agreement_with_consensus": None,
        "common_noise_rate": None,
    }
    assert not any(row[name] for name in table.column_names[5:])
    fitted = package.load(tmp_path / "m")
    at = fitted.annotator_ids_.tolist().index("silent")
    np.testing.assert_allclose(fitted.annotator_confusion_[at], fitted.common_confusion_)


def test_an_unseen_annotator_counts_by_the_common_confusion(model: Path, shared_crowd: Crowd) -> None:
    loaded = package.load(model)
    stranger = package.Annotations.from_triples(
        [0, 1], ["nobody", "nobody"], ["cat", "dog"], classes=["cat", "dog", "fish"]
    )
    probas = loaded.infer(shared_crowd.x[:2], stranger)
    assert probas.shape == (2, 3)
    np.testing.assert_allclose(probas.sum(1), 1)


@pytest.mark.parametrize(("rule", "kept"), [(None, "last"), ("last", "last"), ("first", "first")])
def test_repeated_pairs_keep_one_label(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path], rule: str | None, kept: str
) -> None:
    task, worker, label = crowd.rows[0]
    other = "dog" if label != "dog" else "cat"
    rows = [*crowd.rows, (task, worker, other)]
    repeated = write(tmp_path / "repeated.csv", ("task", "worker", "label"), rows)
    single = write(
        tmp_path / "single.csv",
        ("task", "worker", "label"),
        [(task, worker, other if kept == "last" else label), *crowd.rows[1:]],
    )
    options = [] if rule is None else ["--set", f"on_duplicate={rule}"]
    end = ("--features", crowd.features, "--epochs", 3)
    run = conal("fit", repeated, *end, "--out", tmp_path / "r", *options)
    assert run.code == 0
    assert f"1 rows repeat a (task, worker) pair, the first is task {task}, worker {worker!r}" in run.err
    assert f"kept the {kept} of each" in run.err
    assert conal("fit", single, *end, "--out", tmp_path / "s").code == 0
    assert (tmp_path / "r" / "model.safetensors").read_bytes() == (tmp_path / "s" / "model.safetensors").read_bytes()


def test_allow_missing_drops_and_counts(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    features = tmp_path / "x.npz"
    np.savez(features, X=crowd.x, task=np.arange(90) + 5)  # tasks 0-4 have no features, rows 90-94 no task
    run = conal(
        "fit",
        crowd.labels,
        "--features",
        features,
        "--out",
        tmp_path / "m",
        "--epochs",
        2,
        "--set",
        "allow_missing=true",
    )
    assert run.code == 0, run.err
    assert "warning: dropped: 5 tasks have no features: 0, 1, 2 and 2 more" in run.err
    assert pv.read_csv(tmp_path / "m" / "labels.csv")["task"].to_pylist() == list(range(5, 95))
    assert (metrics(tmp_path / "m")["n_tasks"], metrics(tmp_path / "m")["n_tasks_labelled"]) == (90, 85)


def test_features_without_labels_are_predicted_and_counted(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    features = tmp_path / "x.npz"
    np.savez(features, X=np.vstack([crowd.x, crowd.x[:5]]), task=np.arange(95))
    run = conal("fit", crowd.labels, "--features", features, "--out", tmp_path / "m", "--epochs", 20)
    assert (run.code, run.err) == (0, "")
    assert "on 95 tasks, 3 classes\n5 of the tasks have no label; labels.csv has the classifier's\n" in run.out
    rows = pv.read_csv(tmp_path / "m" / "labels.csv").to_pylist()[90:]
    assert [(row["task"], row["num_annotations"], row["majority_vote"]) for row in rows] == [
        (90 + k, 0, "") for k in range(5)
    ]
    assert [row["label"] for row in rows] == [row["classifier_label"] for row in rows] == crowd.z[:5].tolist()
    predicted = package.load(tmp_path / "m").predict_proba(crowd.x[:5]).max(1)
    np.testing.assert_allclose([row["classifier_probability"] for row in rows], predicted, atol=1e-5)


# -------------------------------------------------------------------- methods and parameters


def test_set_changes_parameters(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    settings = ["layer=row-stochastic", "lam=1e-4", "hidden=[16, 8]", "batch_norm=true", "omega_scale=learn"]
    options = [word for pair in settings for word in ("--set", pair)]
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    run = conal(
        *arguments,
        "--method",
        "conal",
        *options,
        "--set",
        "lr=0.005",
        "--set",
        "batch_size=32",
        "--set",
        "scaling=none",
        "--seed",
        3,
    )
    assert run.code == 0, run.err
    found = parameters(tmp_path / "m")
    expected = {
        "layer": "row-stochastic",
        "lam": 1e-4,
        "hidden": [16, 8],
        "batch_norm": True,
        "omega_scale": "learn",
        "lr": 0.005,
        "batch_size": 32,
        "scaling": "none",
        "seed": 3,
        "epochs": 2,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("setting", ["seed=4", "verbose=false", "lr=0.002"])
def test_set_also_takes_parameters_that_have_an_option(conal: Run, crowd: Crowd, tmp_path: Path, setting: str) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 1)
    assert conal(*arguments, "--set", setting).code == 0
    name, value = setting.split("=")
    assert parameters(tmp_path / "m")[name] == json.loads(value)


def test_gold_takes_one_true_label_per_task(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    order = np.random.default_rng(0).permutation(90)
    gold = write(tmp_path / "gold.csv", ("task", "label"), [(k, crowd.z[k]) for k in order])
    arguments = ("fit", gold, "--features", crowd.features, "--out", tmp_path / "m", "--method", "gold")
    run = conal(*arguments, "--epochs", 8)
    assert run.code == 0, run.err
    assert metrics(tmp_path / "m")["method"] == "gold"
    loaded = package.load(tmp_path / "m")
    assert loaded.score(crowd.x, crowd.z) > 0.8
    assert pv.read_csv(tmp_path / "m" / "labels.csv")["label"].to_pylist() == crowd.z.tolist()


def test_majority_vote_baseline(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--method", "dl-mv")
    run = conal(*arguments, "--epochs", 8)
    assert run.code == 0, run.err
    assert run.out.startswith("dl-mv: ")
    assert package.load(tmp_path / "m").score(crowd.x, crowd.z) > 0.7
    assert "common_noise_rate" not in pv.read_csv(tmp_path / "m" / "annotators.csv").column_names


# -------------------------------------------------------------------- selection


def test_validation_labels_select_the_epoch(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    np.save(tmp_path / "vx.npy", crowd.x[:30])
    labels = write(tmp_path / "vy.csv", ("task", "label"), [(k, crowd.z[k]) for k in reversed(range(30))])
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 6)
    run = conal(*arguments, "--valid", tmp_path / "vx.npy", "--valid-labels", labels)
    assert run.code == 0, run.err
    assert "by accuracy on the validation labels" in run.out
    found = metrics(tmp_path / "m")
    assert found["selection"] == "validation_accuracy"
    scores = pv.read_csv(tmp_path / "m" / "history.csv")["validation_accuracy"].to_pylist()
    assert found["best_score"] == max(scores)
    assert found["best_epoch"] == scores.index(max(scores)) + 1
    assert package.load(tmp_path / "m").score(crowd.x[:30], crowd.z[:30]) == found["best_score"]


def test_validation_labels_without_ids_go_by_row(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Callable[..., Path]
) -> None:
    np.save(tmp_path / "vx.npy", crowd.x[:30])
    labels = write(tmp_path / "vy.csv", ("truth",), [(name,) for name in crowd.z[:30]])
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 6)
    assert conal(*arguments, "--valid", tmp_path / "vx.npy", "--valid-labels", labels).code == 0
    assert package.load(tmp_path / "m").score(crowd.x[:30], crowd.z[:30]) == metrics(tmp_path / "m")["best_score"]


def test_patience_stops_early(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 400)
    assert "patience needs a score" in conal(*arguments, "--set", "patience=2").refusal()
    run = conal(*arguments, "--set", "patience=2", "--set", "lr=0.05", "--method", "conal")
    assert run.code == 0, run.err
    found = metrics(tmp_path / "m")
    assert found["epochs"] == found["best_epoch"] + 2 < 400
    assert pv.read_csv(tmp_path / "m" / "history.csv").num_rows == found["epochs"]


# -------------------------------------------------------------------- where it writes


def test_overwrite_replaces_an_earlier_model(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    assert conal(*arguments).code == 0
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    assert conal(*arguments, "--seed", 1, "--overwrite").code == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() != before
    assert parameters(tmp_path / "m")["seed"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"data", "m"}


def test_parents_are_made(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "m"
    assert conal("fit", crowd.labels, "--features", crowd.features, "--out", out, "--epochs", 2).code == 0
    assert {path.name for path in out.iterdir()} == FILES
    assert [path.name for path in out.parent.iterdir()] == ["m"]
