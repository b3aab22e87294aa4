"""Exported files give what ``predict_proba`` gives, in a process that cannot import conal."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import conal
from conal.errors import InputError
from conal.estimator import CrowdClassifier
from conal.estimator.export import FORMATS, write_onnx, write_torch
from helpers.exports import predictions_without_conal

pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")

FAST: dict[str, Any] = {"epochs": 1, "batch_size": 4, "verbose": False, "selection": "last"}
EVERY = [f"{method} {backbone}" for method in ("xconal", "conal", "dl-cl") for backbone in ("mlp", "vgg16", "cnn")]
CHOSEN = {".onnx": ["xconal mlp", "conal cnn"], ".pt2": ["ensemble mlp", "conal cnn"]}
"""Exports take seconds each: these stand for all in the usual tests."""
PRIOR = {"cat": 0.8, "dog": 0.1, "é ☃": 0.1}
SIZES = ("classes", "n_features", "instance_shape")


def skip_without_onnx() -> None:
    for package in FORMATS["onnx"].needs:
        pytest.importorskip(package, reason="ONNX needs optional packages: pip install conal[onnx]")


class OwnCNN(nn.Module):
    """A user's own network, with a batch size taken by ``len``, as people write it."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 3 * 3, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.norm(self.convolution(images)).relu(), 2)
        logits: Tensor = self.head(nn.functional.dropout(x, 0.5, self.training).view(len(x), -1))
        return logits


@cache
def crowd(backbone: str) -> tuple[npt.NDArray[np.float32], conal.Annotations]:
    """Features of the shape that the backbone takes, and the labels of three annotators."""
    rng = np.random.default_rng(0)
    n, shape = {"mlp": (40, (6,)), "vgg16": (8, (1, 32, 32)), "cnn": (16, (1, 6, 6))}[backbone]
    x = rng.normal(2.0, 3.0, size=(n, *shape)).astype(np.float32)
    if backbone == "mlp":
        x[:, 2] = 7.0  # a constant feature
        x[:, 3] = -50.0 * np.exp(x[:, 3])  # far beyond where robust scaling cuts off
    labels = np.array(["cat", "dog", "é ☃"])[rng.integers(3, size=(n, 3))]
    return x, conal.Annotations.from_matrix(labels, annotator_ids=["ann-of-cleves", "bob-the-builder", "carl-gauss"])


@cache
def fitted(name: str) -> CrowdClassifier:
    """A method with a backbone, trained for a moment."""
    method, backbone = name.split()
    x, labels = crowd(backbone)
    if method == "ensemble":
        frame = pa.table({"task": range(len(x)), **{f"f{k}": x[:, k] for k in range(x.shape[1])}})
        return conal.make("conal", ensemble=2, class_prior=PRIOR, **FAST).fit(frame, labels)
    few = {"folds": 2, "rounds": 1} if method == "xconal" else {}
    network = OwnCNN(3) if backbone == "cnn" else backbone
    return conal.make(method, backbone=network, **FAST, **few).fit(x, labels)


def check_files(names: list[str], ending: str, folder: Path) -> dict[str, Any]:
    """Export, run without conal, and compare; the metadata by name."""
    files = {}
    for name in names:
        path = folder / f"{name}{ending}"
        done = fitted(name).export(path)
        assert (done.path, done.format) == (path, {".onnx": "onnx", ".pt2": "torch"}[ending])
        assert done.largest_difference <= 1e-5
        files[path] = crowd(name.split()[1])[0]
    found, said = predictions_without_conal(files)
    for path, rows in files.items():
        for probas, size in zip(found[path], (1, 7), strict=True):
            np.testing.assert_allclose(probas, fitted(path.stem).predict_proba(rows[:size]), rtol=0, atol=1e-5)
    assert said["torch"] == (ending == ".pt2")  # ONNX Runtime needs no torch
    return {Path(path).stem: facts for path, facts in said["facts"].items()}


@pytest.mark.slow
@pytest.mark.parametrize("ending", CHOSEN)
def test_files_give_what_predict_proba_gives_where_conal_cannot_be_imported(ending: str, tmp_path: Path) -> None:
    if ending == ".onnx":
        skip_without_onnx()
    said = check_files(CHOSEN[ending], ending, tmp_path)
    assert "ensemble mlp" not in said or said["ensemble mlp"]["feature_names"] == [f"f{k}" for k in range(6)]
    facts = said["conal cnn"]
    plain = {key: json.loads(facts[key]) if isinstance(facts[key], str) else facts[key] for key in SIZES}
    assert plain == {"classes": ["cat", "dog", "é ☃"], "n_features": 36, "instance_shape": [1, 6, 6]}
    names = {"conal_version": conal.__version__, "method": "conal", "input": "features", "output": "probabilities"}
    assert {key: facts[key] for key in names} == names
    for path in tmp_path.glob(f"*{ending}"):
        content = path.read_bytes()
        for private in (
            b"site-packages",
            b"test_exports.py",
            b"bob-the-builder",
            os.fsencode(Path(conal.__file__).parent),
        ):
            assert private not in content


@pytest.mark.large
@pytest.mark.parametrize("ending", CHOSEN)
def test_every_method_with_every_backbone(ending: str, tmp_path: Path) -> None:
    check_files(EVERY, ending, tmp_path)


# ---------------------------------------------------------------- refusals


def refused(match: str, path: Path, to: Any = None, name: str = "dl-cl mlp", **options: Any) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(InputError, match=match):
        fitted(name).export(path, to, **options)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [found.name for found in path.parent.iterdir()] == ([] if before is None else [path.name])


def test_places_and_formats_that_cannot_be(tmp_path: Path) -> None:
    refused(r"model.bin: has no known ending; export to='onnx' \(.onnx\) or 'torch' \(.pt2\)", tmp_path / "model.bin")
    refused("model.pt2: must end in .onnx for export to onnx", tmp_path / "model.pt2", "onnx")
    refused("there is no format 'tensorflow'", tmp_path / "model.onnx", "tensorflow")
    refused("this one was trained on features, so leave it out", tmp_path / "model.pt2", features_only=True)
    (tmp_path / "model.pt2").write_text("mine")
    refused(r"exists already; choose another place, or pass overwrite=True", tmp_path / "model.pt2")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refused(rf"needs .*{package}.* not installed; run: pip install 'conal\[onnx\]'", tmp_path / "model.onnx")


def test_a_model_that_is_too_large_for_onnx_is_refused() -> None:
    program = torch.export.export(nn.Linear(2**15, 2**14, device="meta"), (torch.zeros(2, 2**15, device="meta"),))
    with pytest.raises(InputError, match=r"2,147,549,184 bytes, and an ONNX file can have two gigabytes.*torch"):
        write_onnx(program, {}, Path("model.onnx"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_is_an_error_that_can_be_handled() -> None:
    """torch's own writer of files ends the process."""
    program = torch.export.export(nn.Linear(2, 3), (torch.zeros(2, 2),))
    with pytest.raises(OSError, match="No space left"):
        write_torch(program, {}, Path("/dev/full"))


class Noisy(OwnCNN):
    """Dropout that is never switched off."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(images, 0.5))


class TwoFaced(OwnCNN):
    """Computes something else where it is exported."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + 1.0 if torch.compiler.is_exporting() else images)


class Deciding(OwnCNN):
    """Decides by the values of its input."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images if images.sum() > 0 else -images)


@pytest.mark.parametrize(
    ("network", "match"),
    [
        (Noisy, "the module does not give what predict_proba gives: probabilities of random rows differ by 0"),
        (TwoFaced, "model.pt2: the file does not give what predict_proba gives: probabilities .* differ by 0"),
        (Deciding, "the network cannot be exported by torch.export: .*must not decide by the values of tensors"),
    ],
)
def test_networks_that_cannot_be_exported_are_refused(network: type[OwnCNN], match: str, tmp_path: Path) -> None:
    x, labels = crowd("cnn")
    clf = conal.make("dl-mv", backbone=network(3), **FAST).fit(x, labels)
    place = tmp_path / "model.pt2"
    place.write_text("an older export")
    with pytest.raises(InputError, match=match):
        clf.export(place, overwrite=True)
    assert place.read_text() == "an older export"
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def test_a_text_model_is_exported_only_without_the_part_that_reads_texts(tmp_path: Path) -> None:
    texts = ["good film", "a bad film", "good!", "bad, bad acting", "such a good story", "the story is bad"]
    votes = [["pos", "pos"], ["neg", "pos"], ["pos", "pos"], ["neg", "neg"], ["pos", "neg"], ["neg", "neg"]]
    clf = conal.make("dl-mv", **FAST).fit(texts, conal.Annotations.from_matrix(votes))
    for refusing in (clf.to_torch, lambda: clf.export(tmp_path / "model.pt2")):
        with pytest.raises(InputError, match=r"takes texts.*features_only=True.*text_features_.transform\(texts\)"):
            refusing()
    assert clf.text_features_ is not None
    features = clf.text_features_.transform(texts)
    done = clf.export(tmp_path / "model.pt2", features_only=True)
    assert done.metadata["takes"] == "text features"
    module = clf.to_torch(features_only=True)
    np.testing.assert_allclose(module(torch.from_numpy(features)).numpy(), clf.predict_proba(texts), rtol=0, atol=1e-6)
