"""The alternative annotator test: published verdicts, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from conal.data.annotations import Annotations
from conal.datasets.base import data_folder
from conal.errors import InputError
from conal.metrics import replacement_test


@pytest.mark.parametrize("name", ["cebab_aspects", "cebab_stars", "framing"])
def test_the_published_verdicts(name: str) -> None:
    """Winning rates and advantage probabilities of the authors' procedure on their crowds, at two values of epsilon."""
    try:
        root = data_folder("people-and-llms", None)
    except InputError:
        pytest.skip("people-and-llms is not here (CONAL_DATA or ../shared/data)")
    published = json.loads((root / "replacement.json").read_text(encoding="utf-8"))[name]
    frame = pd.read_csv(root / name / "label.csv", dtype=str, keep_default_na=False)
    groups = pd.read_csv(root / name / "annotators.csv")
    models = groups.loc[groups["group"] == "llm", "worker"].tolist()
    scale = published["score"] == "neg_rmse"
    for epsilon in ("0.1", "0.2"):
        crowd = Annotations.of(frame)
        crowd = crowd.as_ordinal() if scale else crowd
        found = {each.model: each for each in replacement_test(crowd, models, epsilon=float(epsilon))}
        assert found.keys() == published[epsilon].keys()
        for model, expected in published[epsilon].items():
            assert found[model].winning_rate == pytest.approx(expected["winning_rate"], abs=0.01), model
            assert found[model].advantage_probability == pytest.approx(expected["advantage_probability"], abs=1e-3)
            assert found[model].replaces == expected["replaces"]


def crowd(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=n)
    return np.stack(
        [np.where(rng.random(n) < right, truth, (truth + 1) % 3) for right in (0.9, 0.8, 0.7, 0.95)], axis=1
    )


def test_it_follows_the_definition() -> None:
    labels = crowd()
    (found,) = replacement_test(labels, [3], epsilon=0.15)
    assert found.people.tolist() == [0, 1, 2]
    for j, p_value in enumerate(found.p_values):
        others = [k for k in range(3) if k != j]
        differences = []
        for row in labels:
            model, person = (np.mean([row[k] == row[own] for k in others]) for own in (3, j))
            differences.append(float(person >= model) - float(model >= person))
        t = (np.mean(differences) - 0.15) / (np.std(differences, ddof=1) / np.sqrt(60))
        from scipy.stats import t as student

        assert p_value == pytest.approx(student.cdf(t, 59), abs=1e-12)


def test_wrong_names_and_too_few_items_are_refused() -> None:
    with pytest.raises(InputError, match="models: 9 among the annotators"):
        replacement_test(crowd(), [9])
    with pytest.raises(InputError, match="no person labelled 30 items"):
        replacement_test(crowd(20), [3])
    with pytest.raises(InputError, match="are among models and people"):
        replacement_test(crowd(), [3], people=[2, 3])
    words = pd.DataFrame({"task": [1, 1, 1], "worker": ["a", "b", "m"], "label": ["x", "y", "x"]})
    with pytest.raises(InputError, match="are not all numbers"):
        replacement_test(words, ["m"], scale=True)
