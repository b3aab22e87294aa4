"""Model folders: whole when read, complete or absent when written."""

from __future__ import annotations

import json
import os
import re
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal.data.encoding import as_names
from conal.errors import InputError, ModelFolderError
from conal.io.model_folder import (
    FORMAT_VERSION,
    MAX_JSON,
    ModelFolder,
    check_target,
    load_json,
    names_from_json,
    names_to_json,
    read_document,
    write_model,
)
from conal.io.tables import read_table
from helpers.files import names_in as names
from helpers.folders import flip_bit, sign

TENSORS: dict[str, npt.NDArray[Any]] = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    "double": np.array([np.pi, -0.0, 1e-300]),
    "count": np.array(3, dtype=np.int64),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "none": np.empty((0, 4), dtype=np.float32),
}
CONFIG = {"method": "conal", "classes": ["é", "b"], "rate": 0.1, "nested": {"b": [1, None, True], "a": {}}}
METRICS = {"accuracy": 0.5, "history": [1.0, 0.5]}
FILES = ["config.json", "labels.csv", "metrics.json", "model.safetensors"]


def write(folder: Path, **options: Any) -> None:
    table = pa.table({"task": ["x", "y"], "label": [1, 2]})
    write_model(folder, TENSORS, CONFIG, METRICS, {"labels.csv": table}, **options)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Weights, configuration and metrics."""
    found = ModelFolder(folder)
    found.check_complete()
    return found.tensors(), found.config, found.document("metrics.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "model")
    return tmp_path / "model"


def test_there_and_back(folder: Path) -> None:
    tensors, config, metrics = read_model(folder)
    assert set(tensors) == set(TENSORS)
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(tensors[name], array)
        assert tensors[name].dtype == array.dtype
        assert tensors[name].shape == array.shape
    assert np.signbit(tensors["double"][1])
    assert {name: config[name] for name in CONFIG} == CONFIG
    assert metrics == METRICS


def test_what_is_in_the_folder(folder: Path) -> None:
    assert names(folder.parent) == ["model"]
    assert names(folder) == FILES
    assert read_table(folder / "labels.csv").to_pydict() == {"task": ["x", "y"], "label": [1, 2]}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == "conal-model"
    assert config["format_version"] == FORMAT_VERSION
    assert config["files"] == ["labels.csv", "metrics.json", "model.safetensors"]
    assert "é" in (folder / "config.json").read_text(encoding="utf-8")


def test_a_config_cannot_change_the_format(tmp_path: Path) -> None:
    write_model(tmp_path / "m", TENSORS, {"files": ["x"], "digests": {}}, {}, {})
    assert read_model(str(tmp_path / "m"))[1]["files"] == ["metrics.json", "model.safetensors"]


# ---------------------------------------------------------------- folders that cannot be read


@pytest.mark.parametrize("name", ["labels.csv", "metrics.json", "model.safetensors"])
def test_incomplete(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=f"{re.escape(str(folder))}: is incomplete, {name} missing"):
        read_model(folder)


def test_incomplete_by_several_files(folder: Path) -> None:
    (folder / "labels.csv").unlink()
    (folder / "metrics.json").unlink()
    with pytest.raises(ModelFolderError, match=r"is incomplete, labels\.csv, metrics\.json missing"):
        read_model(folder)


def test_without_a_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelFolderError, match=r"is not a model folder, it has no config\.json"):
        read_model(folder)


@pytest.mark.parametrize("at", [0, -1])
def test_changed_weights(folder: Path, at: int) -> None:
    flip_bit(folder / "model.safetensors", at)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors: has changed since it was saved"):
        read_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 0.2},
        {"classes": ["b", "é"]},
        {"extra": 1},
        {"files": []},
        {"digests": {}},
        {"config_sha256": None},
        {"format_version": 0},
        {"format_version": "9"},
    ],
)
def test_changed_config(folder: Path, changes: dict[str, Any]) -> None:
    edit(folder / "config.json", **changes)
    with pytest.raises(ModelFolderError, match=r"config\.json: has changed since it was saved"):
        read_model(folder)


def test_config_written_in_another_layout_is_the_same_config(folder: Path) -> None:
    edit(folder / "config.json")
    assert read_model(folder)[1]["rate"] == 0.1


def test_newer_format(folder: Path) -> None:
    edit(folder / "config.json", format_version=FORMAT_VERSION + 6)
    message = (
        f"written by a newer conal \\(model format {FORMAT_VERSION + 6}, this version reads up to {FORMAT_VERSION}\\)"
    )
    with pytest.raises(ModelFolderError, match=message):
        read_model(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "other"}', "does not describe a conal model"),
        ("{}", "does not describe a conal model"),
        ("[1, 2]", "does not contain a JSON object"),
        ('{"format": ', r"cannot be read \(.*\); fit the model again"),
    ],
)
def test_other_json(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelFolderError, match=rf"config\.json: {message}"):
        read_model(folder)


def test_config_that_is_not_text(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFolderError, match=r"config\.json: cannot be read"):
        read_model(folder)


def test_damaged_metrics(folder: Path) -> None:
    (folder / "metrics.json").write_text("{")
    sign(folder)
    with pytest.raises(ModelFolderError, match=r"metrics\.json: cannot be read"):
        read_model(folder)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="nowhere: no such model folder"):
        read_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="file: no such model folder"):
        read_model(tmp_path / "file")


def test_weights_in_a_foreign_format(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not safetensors")
    sign(folder)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors: cannot be read"):
        read_model(folder)


# ---------------------------------------------------------------- writing over something


def test_nothing_is_overwritten_unasked(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in FILES}
    with pytest.raises(InputError, match=r"exists already.*overwrite=True \(--overwrite\)"):
        write(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == before


def test_a_model_folder_is_overwritten_when_asked(folder: Path) -> None:
    write_model(folder, {"new": np.ones(2)}, {"method": "other"}, {}, {}, overwrite=True)
    tensors, config, metrics = read_model(folder)
    assert tensors["new"].tolist() == [1.0, 1.0]
    assert config["method"] == "other"
    assert metrics == {}
    assert names(folder) == ["config.json", "metrics.json", "model.safetensors"]
    assert names(folder.parent) == ["model"]


@pytest.mark.parametrize("config", [None, "{}", '{"format": "other"}', "no json"])
def test_a_foreign_folder_is_never_overwritten(tmp_path: Path, config: str | None) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.txt").write_text("years of work")
    if config is not None:
        (target / "config.json").write_text(config)
    with pytest.raises(InputError, match="thesis: is not a conal model folder, so it is not overwritten"):
        write(target, overwrite=True)
    assert (target / "chapter1.txt").read_text() == "years of work"
    assert names(tmp_path) == ["thesis"]


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(InputError, match="file: exists already"):
        write(tmp_path / "file")
    with pytest.raises(InputError, match="file: is not a conal model folder"):
        write(tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_or_empty_folder_needs_no_permission(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        check_target(tmp_path / name, overwrite=overwrite)
        write(tmp_path / name, overwrite=overwrite)
        assert names(tmp_path / name) == FILES


class Unwritable:
    """No JSON value."""


FAILING: dict[str, dict[str, Any]] = {
    "metrics": {"metrics": {"x": Unwritable()}},
    "config": {"config": {"x": Unwritable()}},
    "tables": {"tables": {"labels.xyz": pa.table({"a": [1]})}},
}


@pytest.mark.parametrize("what", FAILING)
def test_an_error_half_way_leaves_nothing_behind(tmp_path: Path, what: str) -> None:
    parts: dict[str, Any] = {"tensors": TENSORS, "config": CONFIG, "metrics": METRICS, "tables": {}, **FAILING[what]}
    with pytest.raises((TypeError, InputError)):
        write_model(tmp_path / "model", **parts)
    assert names(tmp_path) == []


@pytest.mark.parametrize("what", FAILING)
def test_an_error_half_way_leaves_the_old_model(folder: Path, what: str) -> None:
    parts: dict[str, Any] = {"tensors": {}, "config": {}, "metrics": {}, "tables": {}, **FAILING[what]}
    with pytest.raises((TypeError, InputError)):
        write_model(folder, **parts, overwrite=True)
    assert names(folder.parent) == ["model"]
    np.testing.assert_array_equal(read_model(folder)[0]["weight"], TENSORS["weight"])


# ---------------------------------------------------------------- names in JSON


@pytest.mark.parametrize(
    "values",
    [
        ["a", "é", ""],
        [1, 2, 3],
        [1.5, 2.0],
        [True, False],
        [date(2024, 2, 29), date(1, 1, 1)],
        [datetime(2024, 2, 29, 12, 30, 1, 5), datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2)))],
        [("a", 1), ("b", 2)],
        [("a", (date(2024, 1, 1), True)), 3, "x", 2.5],
        [],
    ],
)
def test_names_there_and_back(values: list[Any]) -> None:
    stored = json.loads(json.dumps(names_to_json(as_names(values))))
    back = names_from_json(stored)
    assert back.tolist() == values
    assert [type(name) for name in back.tolist()] == [type(name) for name in values]
    assert back.dtype == as_names(values).dtype


NAMES = st.recursive(
    st.one_of(st.text(), st.integers(), st.booleans(), st.dates(), st.datetimes(), st.floats(allow_nan=False)),
    lambda inner: st.tuples(inner, inner),
    max_leaves=4,
)


@given(st.lists(NAMES))
def test_any_names_there_and_back(values: list[Any]) -> None:
    array = as_names(values)
    assert names_from_json(json.loads(json.dumps(names_to_json(array)))).tolist() == array.tolist()


def test_timestamps_of_pandas_come_back_as_datetimes() -> None:
    back = names_from_json(names_to_json(as_names([pd.Timestamp("2024-01-01 05:00")])))
    assert back.tolist() == [datetime(2024, 1, 1, 5)]


def test_other_names_cannot_be_saved() -> None:
    with pytest.raises(InputError, match="names of type bytes, such as b'x', cannot be saved"):
        names_to_json(as_names([b"x"]))


@pytest.mark.parametrize(
    "name",
    ["../labels.csv", "/etc/passwd", "a/b.csv", "..", ".a.csv", "a.csv\n", "x.exe", "my.json", "config.json", 7, None],
)
def test_a_folder_names_no_file_outside_of_itself(tmp_path: Path, name: object) -> None:
    """Digests can be made by anybody: a folder from elsewhere is refused for what it names."""
    folder = tmp_path / "m"
    write_model(folder, {"w": np.zeros(1)}, {}, {}, {})
    sign(folder, files=["metrics.json", "model.safetensors", name])
    for use in (lambda: read_model(folder), lambda: read_document(folder, "report.json")):
        with pytest.raises(ModelFolderError, match="which is not a file of a model folder"):
            use()
    with pytest.raises(InputError, match="so it is not overwritten"):
        write_model(folder, {}, {}, {}, {}, overwrite=True)


@pytest.mark.parametrize("content", ["thesis", "link", "folder"])
def test_overwriting_deletes_nothing_that_conal_did_not_write(folder: Path, content: str) -> None:
    """A folder or a link that has the name of one of conal's files is somebody's own."""
    outside = folder.parent / "outside.txt"
    outside.write_text("years of work")
    mine = folder / ("notes.txt" if content == "thesis" else "labels.csv")
    mine.unlink(missing_ok=True)
    if content == "link":
        mine.symlink_to(outside)
    elif content == "folder":
        mine.mkdir()
        (mine / "chapter1.txt").write_text("years of work")
    else:
        mine.write_text("years of work")
    with pytest.raises(InputError, match=f"contains '{mine.name}', which conal did not write"):
        write(folder, overwrite=True)
    assert names(folder) == sorted({*FILES, mine.name})
    assert outside.read_text() == "years of work"


@pytest.mark.parametrize("name", ["config.json", "labels.csv", "metrics.json", "model.safetensors"])
def test_links_are_not_followed(folder: Path, name: str) -> None:
    outside = (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(outside)
    with pytest.raises(ModelFolderError, match=rf"{re.escape(name)}: is a symbolic link, which conal does not follow"):
        _ = [ModelFolder(folder).checked(file) for file in ModelFolder(folder).files]


def test_a_pipe_is_no_file_of_a_model(folder: Path) -> None:
    """Reading it would wait for ever."""
    (folder / "metrics.json").unlink()
    os.mkfifo(folder / "metrics.json")
    with pytest.raises(ModelFolderError, match=r"metrics\.json: is not a file"):
        read_model(folder)


@pytest.mark.parametrize("name", ["labels.csv", "metrics.json", "model.safetensors"])
def test_every_file_has_a_digest(folder: Path, name: str) -> None:
    flip_bit(folder / name, 2)
    with pytest.raises(ModelFolderError, match=f"{re.escape(name)}: has changed since it was saved"):
        ModelFolder(folder).checked(name)


def test_a_missing_digest_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    without = {name: digest for name, digest in config["digests"].items() if name != "labels.csv"}
    both: tuple[Any, ...] = (without, [])
    for digests in both:
        sign(folder, digests=digests)
        with pytest.raises(ModelFolderError, match=r"config\.json: has no digest of every file"):
            read_model(folder)


def test_folders_of_version_0_1_are_refused(folder: Path) -> None:
    sign(folder, format_version=1)
    with pytest.raises(ModelFolderError, match=r"fit the model again, or load the folder with conal 0\.2\.0"):
        read_model(folder)


def test_json_of_absurd_size_or_depth_is_not_read(folder: Path) -> None:
    with (folder / "metrics.json").open("wb") as file:
        file.truncate(MAX_JSON + 1)  # takes no space on the disk
    with pytest.raises(ModelFolderError, match=r"metrics\.json: has more than 268,435,456 bytes"):
        load_json(folder / "metrics.json")
    (folder / "metrics.json").write_text('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    sign(folder)
    with pytest.raises(ModelFolderError, match=r"metrics\.json: cannot be read"):
        read_model(folder)
