"""``conal export``: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import conal as library

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch, of its own code, when it loads a program


def test_a_model_becomes_a_program(conal: Run, model: Path, shared_crowd: Crowd, tmp_path: Path) -> None:
    out = tmp_path / "model.pt2"
    out.write_text("an older one")
    assert (
        f"{out}: exists already; choose another place, or pass --overwrite"
        in conal("export", model, "--out", out).refusal()
    )
    said = conal("export", model, "--out", out, "--overwrite", "--json").json()
    assert (said["out"], said["format"], said["bytes"]) == (str(out), "torch", out.stat().st_size)
    assert (said["classes"], said["instance_shape"], said["method"]) == (["cat", "dog", "fish"], [5], "xconal")
    assert said["largest_difference"] <= 1e-5
    program = torch.export.load(out).module()
    x = shared_crowd.x[:7]
    probas = library.load(model).predict_proba(x)
    np.testing.assert_allclose(program(torch.from_numpy(x)).numpy(), probas, rtol=0, atol=1e-5)
    assert out.stat().st_mode & 0o777 == (model / "config.json").stat().st_mode & 0o777
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}", "--out", "{there}/m.zip"], "m.zip: has no known ending; export to='onnx' (.onnx) or"),
        (["{model}", "--out", "{model}/m.pt2"], "is inside the model folder, which is reserved for conal"),
        (["{there}/none", "--out", "{there}/m.pt2"], "none: no such model folder"),
        (["{model}", "--features-only", "--out", "{there}/m.pt2"], "--features-only is for models of texts"),
    ],
)
def test_impossible_arguments(arguments: list[str], message: str, conal: Run, model: Path, tmp_path: Path) -> None:
    words = [word.format(model=model, there=tmp_path) for word in arguments]
    assert message in conal("export", *words).refusal()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(conal: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    message = conal("export", model, "--out", tmp_path / "m.onnx").refusal()
    assert "needs onnxruntime, which is not installed; run: pip install 'conal[onnx]'" in message


def test_a_model_that_was_changed_is_not_exported(conal: Run, model: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(model, tmp_path / "changed")
    weights = changed / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert "has changed since it was saved" in conal("export", changed, "--out", tmp_path / "m.pt2").refusal()
    assert not (tmp_path / "m.pt2").exists()


def test_a_custom_backbone_is_exported_from_python(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "verbose": False, "selection": "last"}
    labels = [label for _, _, label in shared_crowd.rows[:30]]
    clf = library.make("gold", backbone=torch.nn.Linear(5, 3), **settings).fit(shared_crowd.x[:30], labels)
    clf.save(tmp_path / "model")
    message = conal("export", tmp_path / "model", "--out", tmp_path / "m.pt2").refusal()
    assert "the model has a custom backbone" in message
    assert "conal.load(folder, backbone=...)" in message


def test_a_text_model_is_exported_only_on_request(conal: Run, tmp_path: Path) -> None:
    texts = ["good film", "a bad film", "good!", "bad, bad acting", "such a good story", "the story is bad"]
    clf = library.make("gold", epochs=1, verbose=False, selection="last").fit(texts, ["+", "-", "+", "-", "+", "-"])
    clf.save(tmp_path / "model")
    message = conal("export", tmp_path / "model", "--out", tmp_path / "m.pt2").refusal()
    assert "takes texts" in message
    assert "With --features-only, only the classifier of these" in message
    run = conal("export", tmp_path / "model", "--out", tmp_path / "m.pt2", "--features-only")
    width = clf.n_features_in_
    assert run.out.startswith(f"torch: {tmp_path / 'm.pt2'}, {(tmp_path / 'm.pt2').stat().st_size:,} bytes\n")
    assert f"\ninput: features, float32, batch x {width}\noutput: probabilities, float32, batch x 2: +, -\n" in run.out
    assert "\nprobabilities of 16 random rows differ from conal's by at most " in run.out
    assert "it takes features of texts, not texts: conal.load(folder).text_features_.transform(texts)" in run.out
