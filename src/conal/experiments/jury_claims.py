"""Is the report right about juries: who adds nothing, and which smaller jury is as good? On eight juries of models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.aggregation import DawidSkene
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING
from conal.data.true_labels import known_codes
from conal.datasets.label_sets import JUDGES, label_set
from conal.errors import ConalWarning
from conal.experiments.base import Experiment, register
from conal.experiments.store import Store
from conal.experiments.tables import Row, group_by, markdown, notes
from conal.findings.jury import AS_GOOD, NOTHING

__all__ = ["JuryClaims"]

N_TRUE = 50
DRAWS = 20
COMPARED_ON = JUDGES[::2]
"""The juries by whose likelihood constants were compared. The others were in view too: they are no clean check."""
TRUTHS = ("truth", "truth_alone")
SMALLER = "smaller"
NONE = "\u2013"
LEAST, HALF = 1e-9, 5e-4
"""What numbers may differ by, exact ones and ends of intervals as the report rounds them."""


@register("jury-claims")
class JuryClaims(Experiment):
    """What the report says with fifty true labels, beside what all true labels say."""

    title = "What the report says about juries"
    minutes = 4.0
    reducible = False

    def table(self, store: Store) -> pa.Table:
        """A row per jury, draw of true labels and judge, and one per draw for the smaller jury."""
        return pa.Table.from_pylist([row for name in JUDGES for row in _rows(name)])

    def page(self, table: pa.Table) -> str:
        """How often each statement is right, and how often it is made where it is true."""
        rows = table.to_pylist()
        text = notes(
            f"Labels by `dawid-skene`. The report was made with {N_TRUE} random true labels, {DRAWS} times for each "
            "jury, and judged by all of them.",
            f"A judge *adds nothing* if the share of right labels changes by less than {100 * NOTHING:g} points "
            f"without the judge. A smaller jury is *as good* if it loses less than {100 * AS_GOOD:g} point.",
            "*Right*: how often that is true where the report says it. *Said*: how often the report says it where it "
            "is true. First for labels inferred with the same true labels, as the report's are, and in brackets for "
            "labels inferred without any. *Intervals that hold*: the share of the 95 % intervals of the change that "
            "contain it.",
            "The constants of the rule were compared by their likelihood on the first four juries, but the figures of "
            "all eight were in view, and the probability from which on the report speaks was chosen on all. Expect "
            "somewhat less of other juries.",
        )
        return self.document(text, _claims(rows))


def _rows(name: str) -> Iterator[Row]:
    labels, truth = label_set(name)
    crowd = Annotations.of(labels)
    places = {judge: r for r, judge in enumerate(crowd.annotator_ids.tolist())}
    parts = {judge: np.arange(len(places)) != r for judge, r in places.items()}
    alone = _changes(crowd, truth, parts, None)
    tasks = sorted(truth)
    for seed in range(DRAWS):
        some = np.random.default_rng(seed).choice(len(tasks), N_TRUE, replace=False)
        known = {tasks[k]: truth[tasks[k]] for k in some}
        section = _section(crowd, known)
        members = np.isin(crowd.annotator_ids, section["smaller"]["members"])
        smaller = {SMALLER: members} if members.any() else {}
        taught = _changes(crowd, truth, parts | smaller, known)
        at = {"row": name, "seed": seed}
        for row in section["judges"]:
            figures = {key: row[key] for key in ("changed", "change", "low", "high", "nothing", "verdict")}
            true = {"truth": taught[row["worker"]], "truth_alone": alone[row["worker"]]}
            yield at | {"judge": row["worker"]} | figures | true | {"size": len(places)}
        if smaller:
            nothing: Row = dict.fromkeys(("judge", "changed", "change", "low", "high", "nothing"))
            true = {"truth": taught[SMALLER]} | _changes(crowd, truth, {"truth_alone": members}, None)
            yield at | nothing | {"verdict": SMALLER} | true | {"size": int(members.sum())}


def _changes(
    crowd: Annotations, truth: dict[str, str], parts: dict[str, npt.NDArray[np.bool_]], known: dict[str, str] | None
) -> dict[str, float]:
    """By how much the share of right labels changes if only these annotators take part."""
    z = known_codes(crowd, truth)

    def right(members: npt.NDArray[np.bool_] | slice) -> float:
        some = crowd if isinstance(members, slice) else crowd.select(members[crowd.annotators])
        return float((_fitted(some, known).codes_ == z)[z != MISSING].mean())

    whole = right(slice(None))
    return {name: right(members) - whole for name, members in parts.items()}


def _fitted(crowd: Annotations, known: dict[str, str] | None) -> DawidSkene:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)
        return DawidSkene(verbose=False).fit(crowd, true_labels=known)


def _section(crowd: Annotations, known: dict[str, str]) -> Any:
    return _fitted(crowd, known).results_.section("jury")


def _claims(rows: list[Row]) -> str:
    by = group_by(rows, "row")
    halves = {
        "**the first four**": [row for row in rows if row["row"] in COMPARED_ON],
        "**the others**": [row for row in rows if row["row"] not in COMPARED_ON],
        "**all**": rows,
    }
    order = [*COMPARED_ON, *(name for name in JUDGES if name not in COMPARED_ON)]
    body = [[name, *_figures(some)] for name, some in ({name: by[name] for name in order} | halves).items()]
    header = ["%", "adds nothing: true", "right", "said", "intervals that hold", "smaller jury: as good", "judges left"]
    return markdown(header, body)


def _figures(rows: list[Row]) -> list[str]:
    judged = [row for row in rows if row["verdict"] != SMALLER]
    smaller = [row for row in rows if row["verdict"] == SMALLER]
    said = np.array([row["verdict"] == "nothing" for row in judged])
    true = [np.array([abs(row[key]) < NOTHING - LEAST for row in judged]) for key in TRUTHS]
    held = [[row["low"] - HALF <= row[key] <= row["high"] + HALF for row in judged] for key in TRUTHS]
    good = [[row[key] > -AS_GOOD for row in smaller] for key in TRUTHS]
    return [
        _both(true),
        _both([each[said] for each in true]),
        _both([said[each] for each in true]),
        _both(held),
        _both(good),
        f"{np.mean([row['size'] for row in smaller]):.1f} of {judged[0]['size']}" if smaller else NONE,
    ]


def _both(values: Sequence[Sequence[bool] | npt.NDArray[np.bool_]]) -> str:
    """Two shares, the second in brackets."""
    first, second = (f"{100 * np.mean(each):.0f}" if len(each) else NONE for each in values)
    return f"{first} ({second})"
