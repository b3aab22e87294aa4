"""Model folders: whole when read, complete or absent when written."""

from __future__ import annotations

import hashlib
import json
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
from conal.io.models import (
    FORMAT_VERSION,
    check_target,
    names_from_json,
    names_to_json,
    read_document,
    read_model,
    write_model,
)
from conal.io.tables import read_table
from helpers.files import names_in as names

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
    write_model(tmp_path / "m", TENSORS, {"files": ["x"], "sha256": "0"}, {}, {})
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
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[at] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors: has changed since it was saved"):
        read_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 0.2},
        {"classes": ["b", "é"]},
        {"extra": 1},
        {"files": []},
        {"sha256": "0" * 64},
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
    with pytest.raises(ModelFolderError, match=r"metrics\.json: cannot be read"):
        read_model(folder)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="nowhere: no such model folder"):
        read_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="file: no such model folder"):
        read_model(tmp_path / "file")


def test_weights_in_a_foreign_format(folder: Path) -> None:
    import hashlib

    (folder / "model.safetensors").write_bytes(b"not safetensors")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["config_sha256"]
    config["sha256"] = hashlib.sha256(b"not safetensors").hexdigest()
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    edit(folder / "config.json", sha256=config["sha256"], config_sha256=digest)
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
    "name", ["../labels.csv", "/etc/passwd", "a/b.csv", "..", ".hidden.csv", "labels.csv\n", "x.exe", 7, None]
)
def test_a_folder_names_no_file_outside_of_itself(tmp_path: Path, name: object) -> None:
    """Digests can be made by anybody: a folder from elsewhere is refused for what it names."""
    folder = tmp_path / "m"
    write_model(folder, {"w": np.zeros(1)}, {}, {}, {})
    config = json.loads((folder / "config.json").read_text())
    del config["config_sha256"]
    config["files"] = [*config["files"], name]
    signed = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    (folder / "config.json").write_text(json.dumps(config | {"config_sha256": signed}))
    for use in (lambda: read_model(folder), lambda: read_document(folder, "report.json")):
        with pytest.raises(ModelFolderError, match="which is not a file of a model folder"):
            use()
    with pytest.raises(InputError, match="so it is not overwritten"):
        write_model(folder, {}, {}, {}, {}, overwrite=True)
