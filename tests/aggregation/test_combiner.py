"""Combiners: what an aggregator makes of new votes, from one JSON file, without conal."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal import Annotations, aggregation
from conal.aggregation import combiner as module
from conal.aggregation.combiner import Combiner
from conal.errors import InputError


def crowd_and_truth() -> tuple[Annotations, np.ndarray]:
    """Four judges on 200 tasks of three classes, with gaps."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    labels = np.where(rng.random((200, 4)) < (0.9, 0.8, 0.6, 0.5), truth[:, None], rng.integers(0, 3, (200, 4)))
    labels[rng.random((200, 4)) < 0.2] = -1
    names = np.array(["no", "so", "yes"])
    kept = labels >= 0
    tasks, judges = np.nonzero(kept)
    return Annotations.from_triples(tasks, np.array(list("abcd"))[judges], names[labels[kept]]), truth


def votes_of(crowd: Annotations, task: int) -> dict[str, str]:
    mine = np.flatnonzero(crowd.tasks == task)
    return {str(crowd.annotator_ids[crowd.annotators[k]]): str(crowd.classes[crowd.labels[k]]) for k in mine}


def fitted(name: str) -> tuple[Any, Annotations]:
    crowd, truth = crowd_and_truth()
    ids = crowd.task_ids
    known = {ids[i]: ["no", "so", "yes"][truth[ids[i]]] for i in range(0, 120, 3)} if name == "gold-pool" else None
    settings = {} if name == "gold-pool" else {"tol": 1e-12, "n_iter": 5000}
    return aggregation.make(name, **settings).fit(crowd, true_labels=known), crowd


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "gold-pool"])
def test_a_combiner_gives_the_posterior(name: str) -> None:
    found, crowd = fitted(name)
    combiner = found.combiner()
    for task in np.flatnonzero(found.known_codes_ < 0):
        label, probabilities = combiner.combine(votes_of(crowd, int(task)))
        np.testing.assert_allclose(list(probabilities.values()), found.probas_[task], atol=2e-3)
        assert label == found.labels_[task]


def test_without_conal_from_a_file(tmp_path: Path) -> None:
    found, crowd = fitted("gold-pool")
    (tmp_path / "combiner.json").write_text(json.dumps(found.combiner().document), encoding="utf-8")
    (tmp_path / "combiner.py").write_text(Path(module.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    votes = votes_of(crowd, 1)
    program = f"""
import sys
sys.modules["conal"] = None
from combiner import Combiner
print(Combiner.read("combiner.json").combine({votes!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == found.combiner().combine(votes)


def test_lists_unknown_judges_and_missing_votes() -> None:
    found, _ = fitted("dawid-skene")
    combiner = found.combiner()
    assert combiner.judges == ["a", "b", "c", "d"]
    by_name = combiner.combine({"a": "yes", "b": "no", "d": "yes"})
    assert combiner.combine(["yes", "no", None, "yes"]) == by_name
    prior = combiner.combine({})[1]
    np.testing.assert_allclose(list(prior.values()), found.class_prior_, atol=1e-9)
    stranger = combiner.combine({"new": "yes"})[1]
    assert prior["yes"] < stranger["yes"] < combiner.combine({"a": "yes"})[1]["yes"]
    with pytest.raises(ValueError, match="'maybe' is no class; the classes are no, so, yes"):
        combiner.combine({"a": "maybe"})
    with pytest.raises(ValueError, match=r"longer|shorter"):
        combiner.combine(["yes"])


def test_it_abstains_where_it_is_not_sure() -> None:
    combiner = fitted("dawid-skene")[0].combiner()
    label, probabilities = combiner.combine({"d": "yes"}, abstain_below=0.99)
    assert label is None
    assert max(probabilities.values()) < 0.99
    assert combiner.combine({"d": "yes"}, abstain_below=max(probabilities.values()))[0] is not None


def test_others_have_none() -> None:
    crowd, _ = crowd_and_truth()
    with pytest.raises(InputError, match="majority-vote has no combiner; use 'gold-pool'"):
        aggregation.make("majority-vote").fit(crowd).combiner()
    with pytest.raises(ValueError, match="not a file of conal-combiner"):
        Combiner({})


def test_the_file_is_short_and_needs_numpy_alone() -> None:
    tree = ast.parse(inspect.getsource(module))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "json", "collections.abc", "typing", "numpy"}
