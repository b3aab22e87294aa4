"""Estimators on texts: every method, and all that scikit-learn does with them."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

import conal
from conal import methods
from conal.data.annotations import Annotations
from conal.errors import DataWarning, InputError, ModelFolderError
from conal.io.model_folder import CONFIG
from conal.report.page import write_report
from conal.text import TextFeatures
from helpers.folders import sign

FAST: dict[str, Any] = {"epochs": 4, "batch_size": 32, "verbose": False, "text_components": 8}
LONG: dict[str, Any] = {"epochs": 40, "verbose": False}
CLASSES = np.array(["animals", "money", "sport"])
TOPICS = (
    "the cat sat on a mat and purred while cats slept",
    "prices rose as markets traded shares and bonds in the market",
    "the striker scored a goal and the keeper saved goals in the match",
)
N = 120
pytestmark = pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")

Texts = list[str]


def make_texts(n: int, seed: int) -> tuple[Texts, Any]:
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    return [" ".join(rng.choice(TOPICS[k].split(), size=7)) for k in z], CLASSES[z]


@pytest.fixture(scope="module")
def data() -> tuple[Texts, Any, Annotations]:
    """Texts, their true classes, and five of eight annotators who are right two times in three."""
    texts, z = make_texts(N, 0)
    rng = np.random.default_rng(1)
    rows = [
        (task, worker, z[task] if rng.random() < 2 / 3 else rng.choice(CLASSES))
        for task in range(N)
        for worker in rng.choice(8, size=5, replace=False)
    ]
    return texts, z, Annotations.from_triples(*zip(*rows, strict=True))


def target(name: str, data: tuple[Texts, Any, Annotations]) -> Any:
    return data[1] if methods.get(name).takes == "gold" else data[2]


@pytest.mark.parametrize("name", methods.names())
def test_every_method_learns_saves_and_pickles(name: str, data: tuple[Texts, Any, Annotations], tmp_path: Path) -> None:
    clf = conal.make(name, **FAST)
    with pytest.raises(NotFittedError):
        clf.predict(data[0])
    clf.fit(data[0], target(name, data))
    assert clf.n_features_in_ == 8
    new = [*make_texts(20, 5)[0], "unheard"]
    probas = clf.predict_proba(new)
    clf.save(tmp_path / "model")
    loaded = conal.load(tmp_path / "model")
    assert loaded.get_params() == clf.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(new), probas)
    assert loaded.text_features_ is not None
    assert clf.text_features_ is not None
    np.testing.assert_array_equal(loaded.text_features_.transform(new), clf.text_features_.transform(new))
    restored = pickle.loads(pickle.dumps(clf))  # noqa: S301 - our own object
    np.testing.assert_array_equal(restored.predict_proba(new), probas)
    assert loaded.score(data[0], data[1]) == clf.score(data[0], data[1])
    if methods.get(name).takes == "crowd":
        np.testing.assert_array_equal(loaded.infer(data[0], data[2]), clf.infer(data[0], data[2]))
        assert loaded.score(data[0], data[2]) == clf.score(data[0], data[2])


@pytest.mark.parametrize("name", ["xconal", "conal"])
def test_texts_teach_what_the_crowd_cannot_say(name: str, data: tuple[Texts, Any, Annotations]) -> None:
    clf = conal.make(name, **LONG).fit(data[0], data[2])
    texts, z = make_texts(200, 6)
    assert clf.score(texts, z) > 0.95
    assert (clf.labels_ == data[1]).mean() > 0.95


def test_a_model_of_texts_is_one_of_their_features(data: tuple[Texts, Any, Annotations]) -> None:
    """The same as making the features first; so vocabulary and directions are those of the training texts."""
    clf = conal.CoNAL(**FAST, seed=3).fit(data[0], data[2])
    made = conal.TextFeatures(8, seed=3)
    other = conal.CoNAL(**FAST, seed=3).fit(made.fit_transform(data[0]), data[2])
    new = make_texts(10, 7)[0]
    np.testing.assert_array_equal(clf.predict_proba(new), other.predict_proba(made.transform(new)))
    np.testing.assert_array_equal(clf.probas_, other.probas_)
    np.testing.assert_array_equal(clf.common_noise_rate(new), other.common_noise_rate(made.transform(new)))
    assert other.text_features_ is None


def test_same_seed_same_model(data: tuple[Texts, Any, Annotations]) -> None:
    first, again = (conal.CrossCoNAL(**FAST).fit(data[0], data[2]) for _ in range(2))
    np.testing.assert_array_equal(first.probas_, again.probas_)


def test_an_ensemble_shares_the_text_features(data: tuple[Texts, Any, Annotations], tmp_path: Path) -> None:
    clf = conal.make("dl-mv", ensemble=2, **FAST).fit(data[0], data[2])
    clf.save(tmp_path / "model")
    np.testing.assert_array_equal(conal.load(tmp_path / "model").predict_proba(data[0]), clf.predict_proba(data[0]))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda texts, ids: pd.DataFrame({"id": ids, "text": texts}).sample(frac=1, random_state=0),
        lambda texts, ids: pd.Series(texts, index=pd.Index(ids, name="task"))[::-1],
    ],
)
def test_texts_with_ids_are_joined_by_id(wrap: Callable[..., Any], data: tuple[Texts, Any, Annotations]) -> None:
    ids = [f"t{k:03}" for k in range(N)]
    crowd = Annotations.from_triples(
        [ids[k] for k in data[2].tasks], data[2].annotators, data[2].classes[data[2].labels]
    )
    plain = conal.CoNAL(**FAST).fit(data[0], data[2])
    clf = conal.CoNAL(**FAST).fit(wrap(data[0], ids), crowd)
    assert clf.task_ids_.tolist() == ids
    np.testing.assert_array_equal(clf.probas_, plain.probas_)
    other = conal.CoNAL(**FAST).fit(data[0], crowd, task_ids=ids)
    np.testing.assert_array_equal(other.probas_, plain.probas_)


def test_validation_and_monitored_texts_teach_no_words(data: tuple[Texts, Any, Annotations]) -> None:
    texts, z = make_texts(30, 8)
    strange = [f"{text} unheardof" for text in texts]
    clf = conal.CoNAL(**FAST).fit(data[0], data[2], validation=(strange, z), monitor={"test": (strange, z)})
    assert clf.metrics_["selection"] == "validation_accuracy"
    assert clf.history_[-1]["test_accuracy"] == clf.history_[-1]["validation_accuracy"]
    assert isinstance(clf.text_features_, TextFeatures)
    assert "unheardof" not in clf.text_features_.terms_["words"].vocabulary


def test_scikit_learn_splits_texts_by_task(data: tuple[Texts, Any, Annotations]) -> None:
    clf = conal.CoNAL(**FAST)
    assert clone(clf).get_params() == clf.get_params()
    for X in (data[0], np.array(data[0], dtype=object), pd.Series(data[0])):
        assert cross_val_score(clf, X, data[2], cv=3).shape == (3,)
    search = GridSearchCV(clf, {"text_components": [2, 8]}, cv=2).fit(data[0], data[2])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    gold = conal.make("gold", **(FAST | {"epochs": 20}))
    assert (cross_val_predict(gold, data[0], data[1], cv=3) == data[1]).mean() > 0.8


def test_folds_learn_their_own_words(data: tuple[Texts, Any, Annotations]) -> None:
    """No word of the left-out texts is known to a model that was trained on the others."""
    texts = [f"{text} fold{k % 2}" for k, text in enumerate(data[0])]
    even = np.arange(N) % 2 == 0
    clf = conal.CoNAL(**FAST).fit([text for text, here in zip(texts, even, strict=True) if here], data[2][even])
    assert isinstance(clf.text_features_, TextFeatures)
    known = clf.text_features_.terms_["words"].vocabulary
    assert "fold0" in known
    assert "fold1" not in known


def test_the_transformer_in_a_pipeline(data: tuple[Texts, Any, Annotations]) -> None:
    pipeline = make_pipeline(conal.TextFeatures(8), conal.CoNAL(**FAST)).fit(data[0], data[2])
    np.testing.assert_array_equal(
        pipeline.predict_proba(data[0]), conal.CoNAL(**FAST).fit(data[0], data[2]).predict_proba(data[0])
    )


# -------------------------------------------------------------------- imperfect texts


def test_empty_texts_are_counted_and_say_nothing(data: tuple[Texts, Any, Annotations]) -> None:
    texts: list[Any] = list(data[0])
    texts[3], texts[5] = "", None
    with pytest.warns(DataWarning, match="texts: 2 of 120 texts are empty; they carry no information"):
        clf = conal.CoNAL(**FAST).fit(texts, data[2])
    with pytest.warns(DataWarning, match="texts: 1 of 2 texts are empty"):
        probas = clf.predict_proba(["", "unheard"])
    np.testing.assert_array_equal(probas[0], probas[1])


def test_texts_of_another_language_are_noticed(data: tuple[Texts, Any, Annotations]) -> None:
    clf = conal.CoNAL(**FAST).fit(data[0], data[2])
    with pytest.warns(DataWarning, match="2 of 3 texts contain no known term, such as '天气'"):
        clf.predict(["天气", "很好", "cat"])


def test_features_for_texts_and_texts_for_features(data: tuple[Texts, Any, Annotations]) -> None:
    numbers = np.random.default_rng(0).normal(size=(N, 8)).astype(np.float32)
    on_texts, on_numbers = (conal.CoNAL(**FAST).fit(X, data[2]) for X in (data[0], numbers))
    with pytest.raises(InputError, match="the model was trained on texts"):
        on_texts.predict(numbers)
    with pytest.raises(InputError, match="the model was trained on features, not on texts"):
        on_numbers.predict(data[0])
    with pytest.raises(InputError, match="validation texts: the model was trained on texts"):
        conal.CoNAL(**FAST).fit(data[0], data[2], validation=(numbers, data[1]))
    on_texts.fit(numbers, data[2])
    assert on_texts.text_features_ is None
    np.testing.assert_array_equal(on_texts.predict_proba(numbers), on_numbers.predict_proba(numbers))


def test_ten_texts(tmp_path: Path) -> None:
    texts, z = make_texts(10, 3)
    clf = conal.make("gold", epochs=3, verbose=False).fit(texts, z)
    assert clf.n_features_in_ <= 9
    clf.save(tmp_path / "m")
    np.testing.assert_array_equal(conal.load(tmp_path / "m").predict_proba(texts), clf.predict_proba(texts))


def test_wrong_number_of_components(data: tuple[Texts, Any, Annotations]) -> None:
    with pytest.raises(InputError, match="text_components must be a whole number of at least 1, not 0"):
        conal.CoNAL(text_components=0).fit(data[0], data[2])


# -------------------------------------------------------------------- the model folder


@pytest.fixture
def folder(data: tuple[Texts, Any, Annotations], tmp_path: Path) -> Path:
    conal.CoNAL(**FAST).fit(data[0], data[2]).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_changed_vocabulary_is_noticed(folder: Path) -> None:
    path = folder / "text.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"cat"', '"dog"'), encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"text\.json: has changed since it was saved"):
        conal.load(folder)


def test_a_lost_vocabulary_is_noticed(folder: Path) -> None:
    (folder / "text.json").unlink()
    with pytest.raises(ModelFolderError, match=r"incomplete, text\.json missing"):
        conal.load(folder)


def test_a_vocabulary_that_does_not_fit_is_refused_whatever_the_digests_say(folder: Path) -> None:
    path = folder / "text.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["vocabulary"]["words"].pop()
    path.write_text(json.dumps(document), encoding="utf-8")
    sign(folder)
    with pytest.raises(ModelFolderError, match="vocabulary of words must be"):
        conal.load(folder)


def test_folders_of_models_of_numbers_are_what_they_were(data: tuple[Texts, Any, Annotations], tmp_path: Path) -> None:
    """And those of before there were texts, whose parameters do not speak of them, can be loaded."""
    numbers = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    clf = conal.CoNAL(**FAST).fit(numbers, data[2])
    clf.save(tmp_path / "m")
    assert not (tmp_path / "m" / "text.json").exists()
    config = json.loads((tmp_path / "m" / CONFIG).read_text(encoding="utf-8"))
    del config["parameters"]["text_components"]
    sign(tmp_path / "m", parameters=config["parameters"])
    np.testing.assert_array_equal(conal.load(tmp_path / "m").predict_proba(numbers), clf.predict_proba(numbers))


@pytest.mark.parametrize("named", [False, True])
def test_the_report_quotes_the_texts(data: tuple[Texts, Any, Annotations], tmp_path: Path, named: bool) -> None:
    texts, _, crowd = data
    texts = [f"<b>{text}</b> {'and so on ' * 60}" for text in texts]
    ids = [f"t{k}" for k in range(N)]
    if named:
        tasks, workers, labels = crowd.task_ids[crowd.tasks], crowd.annotators, crowd.classes[crowd.labels]
        crowd = Annotations.from_triples([ids[task] for task in tasks], workers, labels)
    conal.CoNAL(**FAST).fit(texts, crowd, task_ids=ids if named else None).save(tmp_path / "m")
    report = json.loads((tmp_path / "m" / "report.json").read_text(encoding="utf-8"))
    of_task = dict(zip(ids if named else range(N), texts, strict=True))
    lists = [*report["tasks"].values(), report["suggestions"]]
    rows = [row for found in lists for row in found["rows"]]
    assert rows
    for row in rows:
        assert row["text"] == of_task[row["task"]][:300] + "…"
    page = write_report(tmp_path / "m").read_text(encoding="utf-8")
    assert "<b>the" not in page
    assert "--text TEXT --out" in report["model"]["command"]
    shown = re.findall(r'<span class="said">(.*?)</span>', page)
    assert len(shown) == len(rows)
    assert all(text.startswith("&lt;b&gt;") for text in shown)
