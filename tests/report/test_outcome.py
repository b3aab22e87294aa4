"""What commands say at their end is what the first screen of the page shows."""

from __future__ import annotations

import numpy as np

from conal import Annotations
from conal.aggregation import DawidSkene
from conal.report.page import outcome, render


def crowd(guesser: str = "the 'guesser'") -> Annotations:
    """Four careful annotators, who take b for c, and one who always says a."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    votes = np.stack([np.where((truth == 1) & (rng.random(300) < 0.3), 2, truth) for _ in range(4)])
    votes = np.concatenate([votes, np.zeros((1, 300), dtype=int)])
    who = np.repeat(["ann", "bob", "cat", "dan", guesser], 300)
    return Annotations.from_triples(np.tile(np.arange(300), 5), who, np.array(["a", "b", "c"])[votes.ravel()])


def test_the_first_screen_as_text() -> None:
    fitted = DawidSkene(verbose=False).fit(crowd())
    report = fitted.results_.report
    changed, confusions, worst, *steps = outcome(report)
    table = fitted.table("labels.csv", "arrow").to_pydict()
    differ = sum(label != vote for label, vote in zip(table["label"], table["majority_vote"], strict=True))
    assert changed == f"{differ} labels differ from the majority vote"
    assert confusions.startswith("common confusions: b is labelled c (")
    assert worst.startswith("worst annotator: the 'guesser', ")
    assert worst.endswith(" of 300 labels right (believed)")
    assert [step[:3] for step in steps] == ["1. ", "2. ", "3. "]
    assert any("""--without 'the '"'"'guesser'"'"'' does so.""" in step for step in steps)
    assert "<" not in "".join(steps)
    page = render(report)
    assert "<code>--without</code> <code>&#39;the &#39;&#34;&#39;&#34;&#39;guesser" in page


def test_pseudonyms_are_no_names_for_an_option() -> None:
    hidden = DawidSkene(verbose=False).fit(crowd().anonymised(hide_below=2))
    assert not any("--without" in line for line in outcome(hidden.results_.report))


def test_nobody_is_worst_where_all_are_right() -> None:
    votes = np.tile(np.arange(40) % 2, (3, 1)).T
    lines = outcome(DawidSkene(verbose=False).fit(votes).results_.report)
    assert lines[0] == "0 labels differ from the majority vote"
    assert lines[1] == "common confusions: no two classes are confused often"
    assert not any("worst" in line for line in lines)
