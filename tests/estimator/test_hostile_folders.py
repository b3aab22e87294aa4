"""Model folders from strangers: digests that fit, and content that does not. Nothing is built before it is checked."""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import conal
from conal.errors import InputError, ModelFolderError
from conal.report.page import write_report
from helpers.folders import sign

FAST: dict[str, Any] = {"epochs": 2, "batch_size": 64, "verbose": False}
pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of numbers, of an ensemble and of texts; no test changes them."""
    place = tmp_path_factory.mktemp("saved")
    data = conal.datasets.synthetic(n_train=60, n_valid=0, n_test=0, n_classes=3, n_annotators=5, seed=1)
    conal.make("conal", **FAST).fit(data.x, data.annotations).save(place / "conal")
    conal.make("xconal", **FAST).fit(data.x, data.annotations).save(place / "xconal")
    conal.make("dl-mv", ensemble=2, **FAST).fit(data.x, data.annotations).save(place / "ensemble")
    texts = [f"word{k % 7} word{k % 3} another" for k in range(60)]
    conal.make("conal", text_components=4, **FAST).fit(texts, data.annotations).save(place / "text")
    return place


@pytest.fixture
def folder(saved: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the model that the test names, or of CoNAL's."""
    return shutil.copytree(saved / getattr(request, "param", "conal"), tmp_path / "m")


def set_parameters(folder: Path, **changes: Any) -> None:
    parameters = json.loads((folder / "config.json").read_text(encoding="utf-8"))["parameters"]
    sign(folder, parameters=parameters | changes)


def refused(folder: Path) -> str:
    """The message of a refusal, which must take little time and memory."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InputError) as error:
        conal.load(folder)
    assert time.process_time() - began < 8  # of which two are the import of torch's "meta" device, once
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    return str(error.value)


@pytest.mark.parametrize(
    ("folder", "changes"),
    [
        ("conal", {"hidden": [200_000_000]}),
        ("conal", {"hidden": [10**15]}),
        ("conal", {"hidden": [1] * 100_000}),
        ("conal", {"hidden": [400] * 1_000}),
        ("conal", {"embedding_dim": 10**9}),
        ("conal", {"ensemble": 10**9}),
        ("ensemble", {"ensemble": 10**9}),
        ("ensemble", {"ensemble": 3}),
        ("xconal", {"folds": 10**9}),
        ("xconal", {"hidden": [10**6, 10**6, 10**6]}),
    ],
    indirect=["folder"],
)
def test_networks_that_the_weights_are_not_of(folder: Path, changes: dict[str, Any]) -> None:
    set_parameters(folder, **changes)
    assert "does not match" in refused(folder)


@pytest.mark.parametrize("folder", ["xconal"], indirect=True)
def test_a_number_that_is_not_about_sizes_costs_nothing(folder: Path) -> None:
    set_parameters(folder, rounds=10**12)
    began = time.process_time()
    conal.load(folder)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "changes",
    [
        {"instance_shape": [10**12]},
        {"instance_shape": [20, 10**6]},
        {"instance_shape": [-20]},
        {"instance_shape": [20.0]},
        {"instance_shape": "20"},
        {"instance_shape": [1] * 10**5},
        {"classes": [str(k) for k in range(100_000)]},
        {"classes": "abc"},
        {"classes": []},
        {"annotator_ids": list(range(1_000_000))},
        {"annotator_ids": {"tuple": [1]}},
        {"n_tasks_trained_on": 10**30},
        {"n_tasks_trained_on": None},
        {"feature_names": "x" * 20},
        {"feature_names": [1]},
        {"method": ["conal"]},
        {"method": None},
        {"parameters": None},
        {"parameters": {"backbone": "mlp", "hidden": 3}},
        {"classes": [{"a": 1, "b": 2}]},
        {"classes": [{"date": "tomorrow"}]},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_sizes_and_names_that_cannot_be(folder: Path, changes: dict[str, Any]) -> None:
    sign(folder, **changes)
    refused(folder)


@pytest.mark.parametrize(
    "changes", [{"dropout": 7}, {"lr": "fast"}, {"seed": -1}, {"batch_size": 0}, {"backbone": 5}, {"scaling": {}}]
)
def test_parameters_are_checked_as_if_the_user_had_given_them(folder: Path, changes: dict[str, Any]) -> None:
    set_parameters(folder, **changes)
    refused(folder)


@pytest.mark.parametrize("tensor", ["scaler.shift", "scaler.limit", "scaler.root", "labels_per_annotator"])
def test_tensors_of_another_shape(folder: Path, tensor: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {tensor: np.zeros((7, 5), dtype=tensors[tensor].dtype)}, folder / "model.safetensors")
    sign(folder)
    assert "does not match" in refused(folder)


@pytest.mark.parametrize("header", [b"{", b"[]", b'{"a": 1}', b'{"a": {"dtype": "F32", "shape": "x"}}', b"[" * 50_000])
def test_headers_that_describe_nothing(folder: Path, header: bytes) -> None:
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    sign(folder)
    refused(folder)


def test_a_header_that_claims_to_be_endless(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 8 + b"{}")
    sign(folder)
    assert "model.safetensors: cannot be read" in refused(folder)


@pytest.mark.parametrize("folder", ["text"], indirect=True)
def test_a_vocabulary_without_weights(folder: Path) -> None:
    document = json.loads((folder / "text.json").read_text(encoding="utf-8"))
    document["vocabulary"]["words"] += [f"w{k}" for k in range(200_000)]
    (folder / "text.json").write_text(json.dumps(document), encoding="utf-8")
    sign(folder)
    assert "vocabulary of words must be" in refused(folder)


@pytest.mark.parametrize("name", ["labels.csv", "report.json", "tasks.json", "model.safetensors", "history.csv"])
def test_no_link_out_of_the_folder_is_followed(folder: Path, name: str) -> None:
    outside = (folder / name).rename(folder.parent / "outside")
    (folder / name).symlink_to(outside)
    assert f"{name}: is a symbolic link, which conal does not follow" in refused(folder)


def test_the_report_does_not_overwrite_what_a_link_leads_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("years of work")
    (folder / "report.html").symlink_to(tmp_path / "precious.txt")
    for out in (None, folder / "report.html"):
        with pytest.raises(ModelFolderError, match=r"report\.html: is a symbolic link, which conal does not follow"):
            write_report(folder, out)
    assert (tmp_path / "precious.txt").read_text() == "years of work"


def test_every_model_still_loads(saved: Path) -> None:
    for each in sorted(saved.iterdir()):
        assert len(conal.load(each).labels_) == 60
