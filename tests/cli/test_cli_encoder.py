"""``--set encoder=FOLDER``: a model whose texts an encoder of the user's own reads."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pv
import pytest

import conal as package
from helpers.encoders import write_onnx_encoder
from helpers.files import write_csv

if TYPE_CHECKING:
    from cli.conftest import Run

MISSING = [name for name in ("onnx", "onnxruntime", "tokenizers") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
WORDS = ("purr", "bark", "swim")
N = 60


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Labels by four annotators of whom one errs, texts that the encoder understands, and the encoder."""
    rng = np.random.default_rng(0)
    texts = [f"{WORDS[k % 3]} the {rng.choice(['the', 'x'])}" for k in range(N)]
    rows = [(k, w, WORDS[(k + (w == 3)) % 3]) for k in range(N) for w in range(4)]
    write_csv(tmp_path / "labels.csv", ("task", "worker", "label"), rows)
    write_csv(tmp_path / "texts.csv", ("task", "text"), enumerate(texts))
    write_onnx_encoder(tmp_path / "tiny")
    return tmp_path


def test_from_texts_by_an_encoder_to_predictions(conal: Run, files: Path) -> None:
    texts = files / "texts.csv"
    fit = ("fit", files / "labels.csv", "--text", texts, "--out", files / "m", "--epochs", 20)
    done = conal(*fit, "--set", f"encoder={files / 'tiny'}")
    assert done.code == 0, done.err
    for name in ("config.json", "text.json", "report.json", "report.html"):
        assert str(files) not in (files / "m" / name).read_text(encoding="utf-8"), name
    assert "--set encoder=ENCODER" in (files / "m" / "report.json").read_text(encoding="utf-8")
    predict = ("predict", files / "m", texts, "--out", files / "p.csv")
    assert "needs its encoder 'tiny'" in conal(*predict).refusal()
    elsewhere = (files / "tiny").rename(files / "elsewhere")
    done = conal(*predict, "--set", f"encoder={elsewhere}")
    assert done.code == 0, done.err
    table = pv.read_csv(files / "p.csv")
    assert table["label"].to_pylist() == [WORDS[k % 3] for k in range(N)]
    clf = package.load(files / "m", encoder=elsewhere)
    assert clf.n_features_in_ == 3
    np.testing.assert_allclose(clf.predict_proba(["purr"]).argmax(1), [list(clf.classes_).index("purr")])
    assert "ENCODER" not in str(clf.get_params())
    assert package.load(files / "m").labels_.tolist() == clf.labels_.tolist()


def test_new_texts_by_the_same_encoder(conal: Run, files: Path) -> None:
    fit = ("fit", files / "labels.csv", "--text", files / "texts.csv", "--out", files / "m", "--epochs", 10)
    assert conal(*fit, "--set", f"encoder={files / 'tiny'}", "--keep-data").code == 0
    write_csv(files / "more.csv", ("task", "worker", "label"), [(N, w, "swim") for w in range(3)])
    write_csv(files / "new.csv", ("task", "text"), [(N, "swim the")])
    update = ("update", files / "m", files / "more.csv", "--text", files / "new.csv")
    assert "needs its encoder 'tiny'" in conal(*update).refusal()
    done = conal(*update, "--set", f"encoder={files / 'tiny'}")
    assert done.code == 0, done.err
    assert package.load(files / "m").labels_[-1] == "swim"


def test_an_encoder_that_cannot_be_used_is_refused(conal: Run, files: Path) -> None:
    fit = ("fit", files / "labels.csv", "--out", files / "m", "--epochs", 2)
    texts = ("--text", files / "texts.csv")
    assert "there is no such folder" in conal(*fit, *texts, "--set", f"encoder={files / 'absent'}").refusal()
    np.save(files / "x.npy", np.ones((N, 2)))
    features = ("--features", files / "x.npy")
    assert "--features are trained on" in conal(*fit, *features, "--set", f"encoder={files / 'tiny'}").refusal()
    assert not (files / "m").exists()
    assert conal(*fit, *texts).code == 0
    predict = (
        "predict",
        files / "m",
        files / "texts.csv",
        "--out",
        files / "p.csv",
        "--set",
        f"encoder={files / 'tiny'}",
    )
    assert "was trained without an encoder" in conal(*predict).refusal()
