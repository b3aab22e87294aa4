"""Combine new votes of known judges without a fit: one JSON file, and the forty lines of numpy below.

This file imports numpy alone; copy it to where the votes are combined, or write the same in another language.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FORMAT = "conal-combiner"


class Combiner:
    """What a fitted aggregator makes of the votes of one task.

    Parameters
    ----------
    document : dict
        The content of the JSON file. ``judges`` and ``classes`` are texts. A reading gives every vote a score for each
        class: ``votes[j][l]``, or ``others[l]`` for a judge who is not known; they are added to ``start``. With
        ``doubt``, the scores become probabilities, of which this share is spread evenly, and their logarithms. The sum
        of all readings, each times its ``weight``, has the logarithms of the probabilities.

    Examples
    --------
    >>> from conal.aggregation import DawidSkene
    >>> fitted = DawidSkene(prior=1).fit(np.array([["x", "x"], ["y", "y"], ["y", "x"]] * 9))
    >>> fitted.combiner().combine({0: "y", 1: "y"})[0]
    'y'
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if document.get("format") != FORMAT:
            raise ValueError(f"not a file of {FORMAT}")
        self.document = document
        self.classes, self.judges = list(document["classes"]), list(document["judges"])
        self._label_of = {name: code for code, name in enumerate(self.classes)}
        self._judge_of = {name: code for code, name in enumerate(self.judges)}

    @classmethod
    def read(cls, path: Any) -> Combiner:
        """From a JSON file."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    def combine(
        self, votes: Mapping[Any, Any] | Sequence[Any], abstain_below: float = 0.0
    ) -> tuple[str | None, dict[str, float]]:
        """The label, None if its probability is below ``abstain_below``, and the probabilities of all classes.

        ``votes`` has a label by judge; or a label for each of ``judges``, in this order. None is no vote.
        """
        by_judge = votes if isinstance(votes, Mapping) else dict(zip(self.judges, votes, strict=True))
        given = [(self._judge_of.get(str(judge)), str(label)) for judge, label in by_judge.items() if label is not None]
        unknown = [label for _, label in given if label not in self._label_of]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no class; the classes are {', '.join(self.classes)}")
        total = np.zeros(len(self.classes))
        for reading in self.document["readings"]:
            scores = np.array(reading["start"], dtype=float)
            for judge, label in given:
                code = self._label_of[label]
                scores += reading["others"][code] if judge is None else reading["votes"][judge][code]
            if reading["doubt"] is not None:
                doubt = reading["doubt"]
                scores = np.log((1 - doubt) * _softmax(scores) + doubt / len(scores))
            total += reading["weight"] * scores
        probabilities = _softmax(total)
        best = int(probabilities.argmax())
        winner = self.classes[best] if probabilities[best] >= abstain_below else None
        return winner, dict(zip(self.classes, probabilities.tolist(), strict=True))


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()
