"""Bad input: exit code 2, one line that says what is wrong, and nothing left behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.folders import sign

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Refuse = Callable[..., str]
Write = Callable[..., Path]

HEADER = ("task", "worker", "label")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every path below a folder, with the content of the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder" for path in folder.rglob("*")
    }


@pytest.fixture
def refuse(conal: Run, tmp_path: Path) -> Refuse:
    """Run a command that must be refused and must change nothing; returns the message."""

    def run(*arguments: object) -> str:
        before = snapshot(tmp_path)
        message: str = conal(*arguments).refusal()
        assert snapshot(tmp_path) == before
        return message

    return run


CONAL = ("--method", "conal")


@pytest.fixture
def refuse_fit(refuse: Refuse, crowd: Crowd, tmp_path: Path) -> Refuse:
    """``conal fit`` on the crowd's files, other files or options given, must be refused."""

    def run(*options: object, labels: Path | None = None, features: Path | None = None) -> str:
        files = (labels or crowd.labels, "--features", features or crowd.features)
        return refuse("fit", *files, "--out", tmp_path / "m", "--epochs", 2, *options)

    return run


@pytest.fixture
def broken(model: Path, tmp_path: Path) -> Path:
    """A copy of a model folder, to be broken."""
    copy = tmp_path / "broken"
    shutil.copytree(model, copy)
    return copy


# -------------------------------------------------------------------- label files


def test_missing_columns(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    message = refuse_fit(labels=write(tmp_path / "l.csv", ("picture", "worker", "label"), [(0, "a", "x")]))
    assert "l.csv: no column for the task; it has 'picture', 'worker', 'label'" in message
    assert "--task-column" in message
    message = refuse_fit(labels=write(tmp_path / "l.csv", ("task", "who", "label"), [(0, "a", "x")]))
    assert "--worker-column" in message
    message = refuse_fit(labels=write(tmp_path / "l.csv", ("task", "worker", "what"), [(0, "a", "x")]))
    assert "--label-column" in message
    message = refuse_fit(labels=write(tmp_path / "l.csv", ("film", "ann", "bob"), [("m1", "x", "y")]))
    assert "no column for the task; it has 'film', 'ann', 'bob'" in message
    assert "pass --set format=wide and --task-column 'film'" in message


@pytest.mark.parametrize("option", ["--task-column", "--worker-column", "--label-column"])
def test_a_named_column_that_is_not_there(refuse_fit: Refuse, option: str) -> None:
    assert "no column 'nowhere'; it has 'task', 'worker', 'label'" in refuse_fit(option, "nowhere")


def test_ambiguous_columns(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", ("item", "unit", "worker", "label"), [(0, 1, "a", "x")])
    message = refuse_fit(labels=labels)
    assert "columns 'item', 'unit' could all be the task" in message
    assert "--task-column" in message


def test_columns_of_one_name(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", ("task", "worker", "label", "label"), [(0, "a", "x", "y")])
    assert "several columns have the name 'label'" in refuse_fit(labels=labels)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n\n"])
def test_empty_file(refuse_fit: Refuse, tmp_path: Path, content: bytes) -> None:
    labels = tmp_path / "l.csv"
    labels.write_bytes(content)
    message = refuse_fit(labels=labels)
    assert "l.csv" in message
    assert "empty" in message.lower()


def test_header_only(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    message = refuse_fit(labels=write(tmp_path / "l.csv", HEADER, []))
    assert "l.csv: has a header ('task', 'worker', 'label') but no rows" in message


def test_no_such_file(refuse_fit: Refuse, tmp_path: Path) -> None:
    assert "nowhere.csv: no such file" in refuse_fit(labels=tmp_path / "nowhere.csv")
    assert "nowhere.npy: no such file" in refuse_fit(features=tmp_path / "nowhere.npy")


def test_a_folder_instead_of_a_file(refuse_fit: Refuse, tmp_path: Path) -> None:
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "is a folder, expected a file" in refuse_fit(labels=folder)
    assert "is a folder, expected a file" in refuse_fit(features=folder)


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10" + bytes(range(256)) * 3


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.parquet", "l.jsonl", "l.npy"])
def test_a_picture_is_no_table(refuse_fit: Refuse, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PNG)
    assert name in refuse_fit(labels=tmp_path / name)


def test_csv_called_parquet(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    labels = tmp_path / "l.parquet"
    shutil.copy(crowd.labels, labels)
    message = refuse_fit(labels=labels)
    assert "l.parquet: cannot be read as parquet" in message
    assert "--set format=NAME" in message


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet"])
@pytest.mark.parametrize("content", [b"some text\n", b"a,b\n1,2\n" * 50, PNG])
def test_features_of_the_wrong_kind(refuse_fit: Refuse, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert f"{name}: cannot be read as" in refuse_fit(features=tmp_path / name)


def test_pickled_features_are_not_opened(refuse_fit: Refuse, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "x.npy" in refuse_fit(features=tmp_path / "x.npy")


def test_unknown_endings(refuse_fit: Refuse, tmp_path: Path) -> None:
    (tmp_path / "l.ods").write_bytes(b"PK")
    message = refuse_fit(labels=tmp_path / "l.ods")
    assert "unknown kind of table '.ods'" in message
    assert ".csv" in message
    message = refuse_fit(features=tmp_path / "l.ods")
    assert "unknown kind of features '.ods'" in message
    assert ".npy" in message
    assert "'excel'" in refuse_fit("--set", "format=excel")


def test_rows_without_task_or_worker(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    message = refuse_fit(labels=write(tmp_path / "l.csv", HEADER, [*crowd.rows, ("", "w0", "cat")]))
    assert f"1 rows have no task, the first is row {len(crowd.rows) + 1}" in message
    message = refuse_fit(labels=write(tmp_path / "l.csv", HEADER, [(0, "", "cat"), *crowd.rows]))
    assert "1 rows have no worker, the first is row 1" in message


def test_no_label_at_all(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [(0, "a", ""), (1, "a", "NaN")])
    assert "every label is missing" in refuse_fit(labels=labels)


def test_a_single_class(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [(task, worker, "cat") for task, worker, _ in crowd.rows])
    assert "a single class ('cat')" in refuse_fit(labels=labels)


def test_labels_outside_the_classes(refuse_fit: Refuse) -> None:
    message = refuse_fit("--classes", "cats,dog,fish")
    assert "'cat' not among the 3 classes; did you mean 'cats'?" in message
    assert "labels.csv: row " in message
    assert "a name is empty" in refuse_fit("--classes", "cat,,dog,fish")
    assert "listed twice" in refuse_fit("--classes", "cat,dog,fish,cat")


def test_numeric_labels_and_classes_of_text(refuse_fit: Refuse, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [(0, "a", 1), (1, "a", 2)])
    assert "do not have the type of the labels" in refuse_fit("--classes", "one,two", labels=labels)


def test_repeated_pairs_if_they_are_errors(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "l.csv", HEADER, [*crowd.rows, *crowd.rows[:4]])
    message = refuse_fit("--set", "on_duplicate=error", labels=labels)
    assert f"l.csv: 4 rows repeat a (task, worker) pair, the first is task {crowd.rows[0][0]}, worker " in message


def test_text_in_another_encoding(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    text = crowd.labels.read_text(encoding="utf-8").replace("fish", "Bär")
    (tmp_path / "l.csv").write_bytes(text.encode("latin-1"))
    assert "UTF-8" in refuse_fit(labels=tmp_path / "l.csv")


@pytest.mark.parametrize(("mark", "advice"), [("\t", "--set format=tsv"), ("|", "commas")])
def test_other_delimiters(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, mark: str, advice: str) -> None:
    text = crowd.labels.read_text(encoding="utf-8").replace(",", mark)
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")
    message = refuse_fit(labels=tmp_path / "l.csv")
    assert f"l.csv: columns are separated by {mark!r}" in message
    assert advice in message


@pytest.mark.parametrize(
    ("command", "method", "meant"),
    [
        ("aggregate", "ds", "dawid-skene"),
        ("aggregate", "mv", "majority-vote"),
        ("aggregate", "dawid_skene", "dawid-skene"),
        ("fit", "ds", "dl-ds"),
        ("fit", "mv", "dl-mv"),
    ],
)
def test_short_names_of_methods_are_understood(
    refuse: Refuse, crowd: Crowd, tmp_path: Path, command: str, method: str, meant: str
) -> None:
    more = ["--features", crowd.features] if command == "fit" else []
    message = refuse(command, crowd.labels, *more, "--out", tmp_path / "o.csv", "--method", method)
    assert f"{method!r}; did you mean {meant!r}?" in message


def test_a_fit_without_features_names_the_command_for_labels(refuse: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    assert "for labels alone, use conal aggregate" in refuse("fit", crowd.labels, "--out", tmp_path / "m")


# -------------------------------------------------------------------- features


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, value: float) -> None:
    x = crowd.x.copy()
    x[17, 3] = x[80, 0] = value
    np.save(tmp_path / "x.npy", x)
    message = refuse_fit(features=tmp_path / "x.npy")
    assert (
        f"x.npy: {value} in row 17, column 3 (2 rows contain NaN, infinity or more than 3.4e38; rows count from 0)"
        in message
    )


def test_an_empty_cell_in_a_feature_table_is_named_by_its_column(
    refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    rows = [[task, *values] for task, values in enumerate(crowd.x.tolist())]
    rows[4][2] = ""
    features = write(tmp_path / "x.csv", ("task", "length", "width", "a", "b", "c"), rows)
    assert (
        "x.csv: nan in row 4, column 'width' (1 rows contain NaN, infinity or more than 3.4e38; rows count from 0)"
        in refuse_fit(features=features)
    )


def test_text_among_the_features(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    rows = [[f"t{task}", *values] for task, values in enumerate(crowd.x.tolist())]
    features = write(tmp_path / "x.csv", ("picture", "a", "b", "c", "d", "e"), rows)
    assert "column 'picture' contains string, not numbers" in refuse_fit(features=features)


def test_numbered_tasks_under_another_name(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    rows = [[task, *values] for task, values in enumerate(crowd.x.tolist())][::-1]
    features = write(tmp_path / "x.csv", ("picture", "a", "b", "c", "d", "e"), rows)
    told = "x.csv: column 'picture' has the tasks' ids, but is not called so; call the column of ids 'task'"
    assert told in refuse_fit(features=features)
    valid = write(tmp_path / "valid.csv", ("task", "label"), [(task, "x") for task in range(len(rows))])
    assert told in refuse_fit("--valid", features, "--valid-labels", valid)


def test_features_that_are_no_table(refuse_fit: Refuse, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(90.0))
    assert "expected rows x features, got shape (90,)" in refuse_fit(features=tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.zeros((0, 5)))
    assert "contains no features" in refuse_fit(features=tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.full((90, 2), "a"))
    assert "features must be numbers" in refuse_fit(features=tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", first=np.zeros((90, 5)), second=np.zeros((90, 5)))
    assert "contains arrays 'first', 'second'" in refuse_fit(features=tmp_path / "x.npz")


def test_lists_of_different_length(refuse_fit: Refuse, tmp_path: Path) -> None:
    lists = [[1.0, 2.0]] * 89 + [[1.0]]
    pq.write_table(pa.table({"task": list(range(90)), "x": lists}), tmp_path / "x.parquet")
    assert "feature lists have 1 to 2 entries" in refuse_fit(features=tmp_path / "x.parquet")


def test_tasks_without_features(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", crowd.x[:80])
    message = refuse_fit(features=tmp_path / "x.npy")
    assert "10 tasks have no features (row numbers run from 0 to 79): 80, 81, 82 and 7 more" in message
    assert "--set", "allow_missing=true" in message
    np.savez(tmp_path / "x.npz", X=crowd.x[4:], task=np.arange(4, 90))
    assert "4 tasks have no features: 0, 1, 2 and 1 more" in refuse_fit(features=tmp_path / "x.npz")


def test_scores_and_ids_are_refused_as_labels_before_they_fill_the_memory(
    conal: Run, tmp_path: Path, write: Write
) -> None:
    scores = np.random.default_rng(0).random(5500)
    labels = write(tmp_path / "l.csv", HEADER, [(k // 11, f"w{k % 11}", f"{scores[k]:.9f}") for k in range(5500)])
    np.save(tmp_path / "x.npy", np.zeros((500, 2), dtype=np.float32))
    looks = "the label column looks like numbers ("
    remedy = "put them into a few bins first (pandas.cut), or choose another column or question with --label-column"
    for command in (
        ("aggregate", labels, "--out", tmp_path / "o.csv"),
        ("fit", labels, "--features", tmp_path / "x.npy", "--out", tmp_path / "m"),
    ):
        run = conal(*command)
        message = run.err.splitlines()[-1]
        assert run.code == 2
        assert "error: " in message
        assert "needs about" in message
        assert looks in message
        assert remedy in message
    assert looks in conal("inspect", labels).out
    ids = write(tmp_path / "i.csv", HEADER, [(k // 100, f"w{k % 100}", f"c{k * 7 % 2000}") for k in range(30_000)])
    run = conal("aggregate", ids, "--out", tmp_path / "o.csv")
    assert run.code == 2
    assert "the label column looks like ids ('c0', 'c1', 'c10'" in run.err.splitlines()[-1]
    run = conal("aggregate", ids, "--out", tmp_path / "o.csv", "--method", "majority-vote")
    assert run.code == 0
    assert "and 1,950 more classes" in run.out


def test_free_text_as_a_label_is_a_warning_of_every_command(conal: Run, tmp_path: Path, write: Write) -> None:
    rows = [(k, f"w{j}", f"remark {3 * k + j}") for k in range(30) for j in range(2)]
    labels = write(tmp_path / "l.csv", HEADER, rows)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32))
    wanted = f"{labels}: 60 classes in 60 labels; is this free text, or a number?"  # hardly text, hardly ids
    run = conal("aggregate", labels, "--out", tmp_path / "o.csv", "--method", "majority-vote")
    assert run.err.count(f"warning: {wanted}") == 1
    run = conal("fit", labels, "--features", tmp_path / "x.npy", "--out", tmp_path / "m", "--epochs", 1, "--no-report")
    assert (run.code, run.err.count(f"warning: {wanted}")) == (0, 1)
    assert "60 classes in 60 labels" in conal("inspect", labels).out


def test_ids_that_have_nothing_in_common(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=crowd.x, task=np.array([f"img{k}" for k in range(90)]))
    for option in ([], ["--set", "allow_missing=true"]):
        message = refuse_fit(*option, features=tmp_path / "x.npz")
        assert "no task id is among the feature ids: the tasks are 0, 1, 2 and 87 more" in message
        assert "'img0'" in message


def test_text_ids_and_a_bare_array(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    rows = [(f"img{task}", worker, label) for task, worker, label in crowd.rows]
    message = refuse_fit(labels=write(tmp_path / "l.csv", HEADER, rows))
    assert "task ids such as 'img0' cannot be matched to a feature array without ids" in message
    assert (
        "add a column 'task' with these ids to the features or texts, or an array 'task' beside 'X' to an .npz"
        in message
    )


def test_two_feature_rows_for_one_task(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=crowd.x, task=np.r_[np.arange(89), 0])
    assert "1 ids occur more than once (0)" in refuse_fit(features=tmp_path / "x.npz")


def test_ids_of_another_number_than_rows(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=crowd.x, task=np.arange(40))
    assert "40 ids for 90 rows" in refuse_fit(features=tmp_path / "x.npz")


# -------------------------------------------------------------------- options of fit


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "conl"), "there is no method 'conl'; did you mean 'conal'? Known: aggnet, anno-reg, conal, co"),
        (("--set", "fold=1"), "method 'xconal' has no parameter 'fold'; did you mean 'folds'? it has averaging, "),
        (("--set", "fold=1"), "start, vote_weight; and, as every method, accelerator, backbone, "),
        (("--set", "fold=1"), "warmup_epochs, weight_decay; docs/api/classifiers.md says what they mean"),
        (("--method", "dl-mv", "--set", "lam=1"), "method 'dl-mv' has no parameter 'lam'"),
        (("--set", "lam"), "--set 'lam': expected NAME=VALUE"),
        (("--set", "=1"), "--set '=1': expected NAME=VALUE"),
        (("--set", "hidden=abc"), "hidden"),
        (("--set", "hidden=64"), "hidden"),
        (("--set", "hidden=[0]"), "hidden"),
        (("--set", "hidden=[-3]"), "hidden"),
        (("--set", "hidden=[1.5]"), "hidden"),
        (("--set", "lam=abc"), "lam"),
        (("--set", "lam=NaN"), "lam"),
        (("--set", "embedding_dim=0"), "embedding_dim"),
        (("--set", "embedding_dim=abc"), "embedding_dim"),
        (("--set", "omega_scale=abc"), "omega_scale"),
        (("--set", "omega_scale=null"), "omega_scale"),
        (("--set", "batch_norm=maybe"), "batch_norm"),
        ((*CONAL, "--set", "layer=foo"), "layer must be 'softmax' or 'row-stochastic', not 'foo'"),
        ((*CONAL, "--set", "mixing=foo"), "mixing must be"),
        ((*CONAL, "--set", "likelihood=foo"), "likelihood must be"),
        ((*CONAL, "--set", "likelihood=joint"), "use layer='row-stochastic'"),
        (("--set", "backbone=resnet"), "there is no backbone 'resnet'"),
        (("--set", "backbone=vgg16"), "backbone 'vgg16' takes images"),
        (("--set", "selection=best"), "selection must be 'auto', 'gold', 'annotations' or 'last'"),
        (("--set", "selection=gold"), "selection='gold' needs validation"),
        (("--set", "dropout=1"), "dropout must be"),
        (("--set", "holdout=0"), "holdout must be"),
        (("--set", "accelerator=abacus"), "accelerator"),
        (("--set", "precision=low"), "precision"),
        (("--set", "warmup_epochs=soon"), "warmup_epochs must be"),
        (("--set", "max_restarts=-1"), "max_restarts must be"),
        (("--epochs", 0), "epochs must be a whole number of at least 1 or 'auto', not 0"),
        (("--set", "batch_size=0"), "batch_size must be"),
        (("--set", "patience=0"), "patience must be"),
        (("--set", "lr=-1"), "lr must be a finite number above 0, not -1"),
        (("--set", "lr=nan"), "lr must be"),
        (("--set", "lr=inf"), "lr must be"),
        (
            ("--set", "scaling=foo"),
            "scaling must be None or 'auto', 'robust', 'global', 'standard' or 'none', not 'foo'",
        ),
        (("--set", "lr=fast"), "lr must be a finite number above 0, not 'fast'"),
        (("--epochs", "1.5"), "epochs must be a whole number of at least 1 or 'auto', not 1.5"),
        (("--epochs", "many"), "epochs must be a whole number of at least 1 or 'auto', not 'many'"),
        (("--seed", -1), "seed must be a whole number from 0 to below 2**63, not -1"),
        (("--seed", "many"), "Invalid value for '--seed'"),
        (("--seed", 10**30), "seed"),
        (("--set", "on_duplicate=maybe"), "on_duplicate must be 'last', 'first' or 'error', not 'maybe'"),
        (("--no-such-option",), "--no-such-option"),
    ],
)
def test_options_that_cannot_be_meant(refuse_fit: Refuse, options: tuple[object, ...], words: str) -> None:
    assert words in refuse_fit(*options)


def test_missing_arguments(refuse: Refuse, crowd: Crowd) -> None:
    assert "Missing argument 'labels'" in refuse("fit")
    assert "Missing option '--out'" in refuse("fit", crowd.labels)
    assert "Missing option '--out'" in refuse("fit", crowd.labels, "--features", crowd.features)
    assert "Missing argument 'tasks'" in refuse("predict", crowd.folder)
    assert "Missing option '--out'" in refuse("simulate")
    assert "No such command 'sum'; see conal --help" in refuse("sum")


# -------------------------------------------------------------------- gold labels


@pytest.mark.parametrize("rows", [40, 100])
def test_gold_labels_of_another_number(
    refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write, rows: int
) -> None:
    gold = write(tmp_path / "g.csv", ("label",), [("cat",), ("dog",)] * (rows // 2))
    message = refuse_fit("--method", "gold", labels=gold)
    assert f"g.csv: {rows} labels for 90 feature rows" in message


def test_gold_labels_that_lack_some_tasks(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    gold = write(tmp_path / "g.csv", ("task", "label"), [(k, crowd.z[k]) for k in range(86)])
    message = refuse_fit("--method", "gold", labels=gold)
    assert "g.csv: 4 feature rows have no label: 86, 87, 88 and 1 more" in message


def test_gold_labels_that_are_missing(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    gold = write(tmp_path / "g.csv", ("task", "label"), [(k, "" if k == 8 else crowd.z[k]) for k in range(90)])
    message = refuse_fit("--method", "gold", labels=gold)
    assert "1 true labels are missing, the first in row 9" in message


# -------------------------------------------------------------------- validation data


def test_half_a_validation_set(refuse_fit: Refuse, crowd: Crowd) -> None:
    assert "go together" in refuse_fit("--valid", crowd.features)
    assert "go together" in refuse_fit("--valid-labels", crowd.labels)


def test_validation_features_of_another_width(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    np.save(tmp_path / "vx.npy", crowd.x[:, :3])
    labels = write(tmp_path / "vy.csv", ("task", "label"), list(enumerate(crowd.z)))
    message = refuse_fit("--valid", tmp_path / "vx.npy", "--valid-labels", labels)
    assert "vx.npy: instances have shape (3,), the model was trained on (5,)" in message


def test_validation_labels_of_unknown_classes(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    labels = write(tmp_path / "vy.csv", ("task", "label"), [(k, "cow" if k % 2 else "owl") for k in range(90)])
    message = refuse_fit("--valid", crowd.features, "--valid-labels", labels)
    assert "labels 'cow', 'owl' are not among the classes 'cat', 'dog', 'fish'" in message


def test_some_validation_labels_of_unknown_classes_count_as_errors(
    conal: Run, crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    labels = write(tmp_path / "vy.csv", ("task", "label"), [(k, "cow" if k < 30 else crowd.z[k]) for k in range(90)])
    files = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 2)
    run = conal(*files, "--valid", crowd.features, "--valid-labels", labels, "--json")
    assert "30 labels have classes that no annotator used ('cow'); they count as errors" in run.err
    assert run.json()["best_score"] <= 60 / 90


def test_validation_labels_that_match_no_features(
    refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write
) -> None:
    labels = write(tmp_path / "vy.csv", ("task", "label"), [(k + 1000, crowd.z[k]) for k in range(90)])
    message = refuse_fit("--valid", crowd.features, "--valid-labels", labels)
    assert "vy.csv: 90 feature rows have no label: 0, 1, 2 and 87 more" in message


def test_infinite_validation_features(refuse_fit: Refuse, crowd: Crowd, tmp_path: Path, write: Write) -> None:
    x = crowd.x.copy()
    x[2, 1] = np.inf
    np.save(tmp_path / "vx.npy", x)
    labels = write(tmp_path / "vy.csv", ("task", "label"), list(enumerate(crowd.z)))
    message = refuse_fit("--valid", tmp_path / "vx.npy", "--valid-labels", labels)
    assert "vx.npy: inf in row 2, column 1" in message


# -------------------------------------------------------------------- where to write


def test_results_are_not_overwritten(refuse: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine", encoding="utf-8")
    start = ("fit", crowd.labels, "--features", crowd.features, "--epochs", 2, "--out")
    assert "mine: exists already; choose another place" in refuse(*start, mine)
    assert "not a conal model folder" in refuse(*start, mine, "--overwrite")
    assert "exists already" in refuse(*start, crowd.labels)
    assert "not a conal model folder" in refuse(*start, crowd.labels, "--overwrite")


def test_a_file_is_no_place_for_a_folder(refuse: Refuse, crowd: Crowd, model: Path) -> None:
    for out in (crowd.labels / "m", crowd.labels / "a" / "b" / "m"):
        assert "is not a folder" in refuse("fit", crowd.labels, "--features", crowd.features, "--out", out)
        assert "is not a folder" in refuse("simulate", "--out", out)
        assert "is not a folder" in refuse("demo", "--out", out)
        assert "is not a folder" in refuse("predict", model, crowd.features, "--out", f"{out}.csv")


def test_the_current_folder_is_not_replaced(
    refuse: Refuse, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert "choose a name" in refuse("fit", crowd.labels, "--features", crowd.features, "--out", ".")
    assert "choose a name" in refuse("simulate", "--out", ".")


# -------------------------------------------------------------------- predict


def test_predictions_need_a_known_ending(refuse: Refuse, model: Path, crowd: Crowd, tmp_path: Path) -> None:
    assert "unknown kind of table '.xlsx'" in refuse("predict", model, crowd.features, "--out", tmp_path / "p.xlsx")
    assert "unknown kind of table ''" in refuse("predict", model, crowd.features, "--out", tmp_path / "p")


def test_predictions_do_not_replace_a_folder(refuse: Refuse, model: Path, crowd: Crowd, tmp_path: Path) -> None:
    folder = tmp_path / "p.csv"
    folder.mkdir()
    assert "p.csv: is a folder" in refuse("predict", model, crowd.features, "--out", folder)


def test_features_of_another_width(refuse: Refuse, model: Path, crowd: Crowd, tmp_path: Path) -> None:
    for width, x in ((3, crowd.x[:, :3]), (10, np.hstack([crowd.x, crowd.x]))):
        np.save(tmp_path / "x.npy", x)
        message = refuse("predict", model, tmp_path / "x.npy", "--out", tmp_path / "p.csv")
        assert f"x.npy: instances have shape ({width},), the model was trained on (5,)" in message


def test_infinite_features_are_not_predicted(refuse: Refuse, model: Path, crowd: Crowd, tmp_path: Path) -> None:
    x = crowd.x.copy()
    x[5, 4] = np.nan
    np.save(tmp_path / "x.npy", x)
    message = refuse("predict", model, tmp_path / "x.npy", "--out", tmp_path / "p.csv")
    assert "x.npy: nan in row 5, column 4" in message


# -------------------------------------------------------------------- model folders


def test_no_model_folder(refuse: Refuse, crowd: Crowd, tmp_path: Path) -> None:
    end = (crowd.features, "--out", tmp_path / "p.csv")
    assert "nowhere: no such model folder" in refuse("predict", tmp_path / "nowhere", *end)
    assert "is not a model folder, it has no config.json" in refuse("predict", crowd.folder, *end)
    assert "labels.csv: no such model folder" in refuse("predict", crowd.labels, *end)


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.json", "history.csv", "labels.csv"])
def test_an_incomplete_model_folder(refuse: Refuse, broken: Path, crowd: Crowd, tmp_path: Path, name: str) -> None:
    (broken / name).unlink()
    message = refuse("predict", broken, crowd.features, "--out", tmp_path / "p.csv")
    assert f"broken: is incomplete, {name} missing" in message


def test_changed_weights(refuse: Refuse, broken: Path, crowd: Crowd, tmp_path: Path) -> None:
    path = broken / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    message = refuse("predict", broken, crowd.features, "--out", tmp_path / "p.csv")
    assert "model.safetensors: has changed since it was saved" in message
    path.write_bytes(bytes(content[:100]))
    message = refuse("predict", broken, crowd.features, "--out", tmp_path / "p.csv")
    assert "model.safetensors: has changed since it was saved" in message


def edit_config(folder: Path, seal: bool, **changes: Any) -> None:
    """Change the configuration; ``seal`` gives it a digest again, as another program might."""
    if seal:
        sign(folder, **changes)
    else:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "seal", "words"),
    [
        ({"classes": ["dog", "cat", "fish"]}, False, "config.json: has changed since it was saved"),
        ({"format_version": 3}, False, "was written by a newer conal (model format 3"),
        ({"format_version": 3}, True, "was written by a newer conal (model format 3"),
        ({"format": "other"}, True, "does not describe a conal model"),
        ({"method": "crowdlayer"}, True, "crowdlayer"),
        ({"parameters": {}}, True, "does not match this version of 'xconal'"),
        ({"instance_shape": [7]}, True, "does not match this version of 'xconal'"),
        ({"classes": ["cat", "dog"]}, True, "does not match this version of 'xconal'"),
    ],
)
def test_a_changed_configuration(
    refuse: Refuse, broken: Path, crowd: Crowd, tmp_path: Path, changes: dict[str, Any], seal: bool, words: str
) -> None:
    edit_config(broken, seal, **changes)
    assert words in refuse("predict", broken, crowd.features, "--out", tmp_path / "p.csv")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", PNG])
def test_a_configuration_that_is_none(
    refuse: Refuse, broken: Path, crowd: Crowd, tmp_path: Path, content: bytes
) -> None:
    (broken / "config.json").write_bytes(content)
    assert "config.json" in refuse("predict", broken, crowd.features, "--out", tmp_path / "p.csv")


# -------------------------------------------------------------------- failure that is not the input's


@pytest.mark.parametrize("method", ["conal", "xconal"])
def test_training_that_diverges_is_a_failure(conal: Run, crowd: Crowd, tmp_path: Path, method: str) -> None:
    files = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--epochs", 4)
    run = conal(*files, "--method", method, "--set", "lr=1e30")
    assert run.code == 1
    assert run.out == ""
    (line,) = run.err.splitlines()
    assert re.match(r"error: the (loss|holdout_log_likelihood|inferred labels) became (nan|inf)", line)
    assert not (tmp_path / "m").exists()


def test_an_error_of_the_system_is_one_line(
    conal: Run, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    run = conal("simulate", "--out", tmp_path / "s", "--set", "n_train=20")
    assert (run.code, run.out) == (1, "")
    assert run.err == "error: [Errno 28] No space left on device\n"


def test_a_parameter_has_one_value(refuse_fit: Refuse) -> None:
    message = refuse_fit("--epochs", 2, "--set", "epochs=3")
    assert "--set epochs: --epochs sets it too; leave out one of the two" in message


def test_a_misspelt_parameter_is_guessed(refuse_fit: Refuse) -> None:
    assert "has no parameter 'hiden'; did you mean 'hidden'? it has" in refuse_fit("--set", "hiden=[4]")


@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "loop"),
        ("aggregate", "loop", "--out", "clean.csv"),
        ("aggregate", "labels", "loop", "--out", "clean.csv"),
        ("aggregate", "labels", "--out", "loop"),
        ("aggregate", "labels", "--out", "clean.csv", "--true-labels", "loop"),
        ("aggregate", "labels", "--out", "clean.csv", "--save", "loop"),
        ("fit", "labels", "--features", "loop", "--out", "m"),
        ("fit", "labels", "--features", "labels", "--out", "loop"),
        ("convert", "labels", "--to", "csv", "--out", "loop"),
        ("predict", "loop", "labels", "--out", "clean.csv"),
    ],
    ids=" ".join,
)
def test_symbolic_links_that_lead_to_themselves(
    refuse: Refuse, crowd: Crowd, tmp_path: Path, command: tuple[str, ...]
) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop.name)
    places = {"labels": crowd.labels, "loop": loop, "clean.csv": tmp_path / "clean.csv", "m": tmp_path / "m"}
    message = refuse(*(places.get(word, word) for word in command))
    assert re.search(
        r"loop\.csv: no such (file|model folder)|loop\.csv: is a symbolic link that leads nowhere", message
    )
