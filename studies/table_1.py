"""Table 1: every method on LabelMe and Music, with a grid search on validation data.

Every method has nine points of search: the learning rate and a constant of its own. Of each grid, the point with the
best validation score is shown, with more seeds. The score is the best epoch's, averaged over the seeds of the search:
accuracy on gold validation labels if the protocol has them, likelihood of held-out annotations otherwise. Test labels
select in the protocol "test" alone, as in published code on Music. The part "fair-trial" has the crowd layer against
CoNAL on equal terms: the same starts, grids and help in training.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from conal.errors import InputError
from studies.crowds import load
from studies.fits import (
    BASELINES,
    PAPER,
    TWO_STAGES,
    Fit,
    every_method,
    figures_of,
    fit,
    packed,
    two_stages,
    unpacked,
)
from studies.runs import Options, Setting
from studies.statistics import (
    Difference,
    Published,
    above_published,
    bootstrap_difference,
    holm,
    judge,
    paired_difference,
)
from studies.tables import Claim, Row, Summary, Table, Tables, by_seed, claim, group_by, mean_and_spread, percent

PARTS = ("table-1", "fair-trial")
Grid = Mapping[str, Sequence[Any]]

SEEDS, TRIAL_SEEDS = 5, 10
ALL_SEEDS = 20
"""Seeds of the search, which choose, and of the points that are chosen."""
TITLES = {"labelme": "LabelMe", "music": "Music"}
PROTOCOLS = {"labelme": ("gold",), "music": ("annotations", "test")}
IN_WORDS = {
    "gold": "epoch by gold validation labels",
    "annotations": "epoch by held-out annotations",
    "test": "epoch by the test set: no fair figure",
}
N_TEST = {"labelme": 1188, "music": 300}
RATES = (0.02, 0.01, 0.005)
OWN: dict[str, Grid] = {
    "dl-cl": {"start": (1.0, 2.0, 4.0)},
    "dl-cl-over": {"start": (1.0, 2.0, 4.0)},
    "anno-reg": {"lam": (0.1, 0.01, 0.001)},
    "dl-wc": {"n_groups": (2, 5, 10)},
    "aggnet": {"smoothing": (0.01, 0.1, 1.0)},
    "conal": {"lam": (1e-4, 1e-5, 1e-6)},
    "conal-em": {"smoothing": (0.01, 0.1, 1.0)},
    "xconal": {"vote_weight": (0.5, 0.7, 1.0)},
    "xaggnet": {"vote_weight": (0.5, 0.7, 1.0)},
}
"""The constant of each method over which it searches; the others search over the decay of weights."""
PLAIN: Grid = {"weight_decay": (0.0, 0.01, 0.1)}
PRESETS: dict[str, dict[str, Any]] = {"labelme": {}, "music": {"batch_norm": True, "epochs": 200}}
"""Batch normalisation on Music, as in the paper, and 200 epochs, as in its published code."""
OURS = "conal"

# Tables 1 and 3 of Chu, Ma and Wang (2021): LabelMe, Music.
PAPERS_FIGURES = {
    "dl-mv": ("79.83 ± 0.34", "72.53 ± 0.41"),
    "dl-cl": ("83.27 ± 0.52", "81.46 ± 0.53"),
    "dl-cl-over": ("82.34 ± 0.34", "80.47 ± 0.27"),
    "doctor-net": ("82.12 ± 0.43", "76.58 ± 0.47"),
    "anno-reg": ("82.77 ± 0.48", "79.12 ± 0.36"),
    "max-mig": ("85.33 ± 0.61", "81.37 ± 0.33"),
    "dl-glad": ("83.12 ± 0.34", "77.82 ± 0.37"),
    "dl-wc": ("82.74 ± 0.33", "75.76 ± 0.24"),
    "aggnet": ("84.75 ± 0.27", "81.92 ± 0.41"),
    "conal": ("87.12 ± 0.55", "84.06 ± 0.42"),
}
PAPERS_CLASS = ("labelme", "opencountry", "conal", 67.21, "max-mig", 54.19)
"""The class of which the paper's text has accuracies in percent."""

OFF: dict[str, dict[str, Any]] = {
    "no warm-up of the learning rate": {"warmup_epochs": 0},
    "features not scaled": {"scaling": "none"},
    "no restarts when a class is lost": {"max_restarts": 0},
}
TERMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as in Table 1: starts 1·I and 2·I": ({"start": 1.0}, {"start": 2.0}),
    "both start at 1·I": ({"start": 1.0},) * 2,
    "both start at 2·I": ({"start": 2.0},) * 2,
    **{f"both start at 2·I, {name}": ({"start": 2.0, **settings},) * 2 for name, settings in OFF.items()},
    "both start at 2·I, none of the three": ({"start": 2.0, "warmup_epochs": 0, "scaling": "none", "max_restarts": 0},)
    * 2,
}
"""Settings of the crowd layer and of CoNAL, beyond the learning rate, over which both search. The first are unequal."""
TRIED = ("dl-cl", "conal")


def runs(options: Options) -> list[Setting]:
    """All points of all grids, all seeds, all protocols; and the trial on equal terms."""
    names = options.pick_methods([*every_method(), TWO_STAGES])
    settings = grid_runs("table-1", {name: (name, grid_of(name)) for name in names}, options)
    if {*TRIED} <= {*names} and "labelme" in options.pick_datasets(TITLES):
        settings += [
            {
                "part": "fair-trial",
                "dataset": "labelme",
                "protocol": "gold",
                "row": terms,
                "method": method,
                "seed": seed,
            }
            | {"parameters": own | PAPER.get(method, {}) | {"lr": lr}}
            for terms, both in TERMS.items()
            for method, own in zip(TRIED, both, strict=True)
            for lr in RATES
            for seed in options.seeds_or(TRIAL_SEEDS)
        ]
    return settings


def grid_of(method: str) -> Grid:
    """Nine points: the learning rate, and the method's own constant; one where there is nothing to search."""
    return {} if method == TWO_STAGES else {"lr": RATES, **OWN.get(method, PLAIN)}


def more(tables: Tables, options: Options) -> list[Setting]:
    """Further seeds of the chosen points of Tables 1 to 3, unless the number of seeds was given."""
    seeds = range(SEEDS, 0 if options.seeds else ALL_SEEDS)
    names = ("dataset", "protocol", "row", "method")
    return [
        {"part": part, **{name: rows[0][name] for name in names}, "seed": seed}
        | {"parameters": json.loads(rows[0]["parameters"])}
        for part, some in tables.items()
        if part != "fair-trial"
        for rows in chosen(some).values()
        for seed in seeds
    ]


def grid_runs(part: str, rows: Mapping[str, tuple[str, Grid]], options: Options) -> list[Setting]:
    """Settings of a grid search: row name to method and grid, on both crowds."""
    return [
        {"part": part, "dataset": dataset, "protocol": protocol, "row": row, "method": method, "seed": seed}
        | {"parameters": PRESETS[dataset] | PAPER.get(method, {}) | dict(zip(grid, values, strict=True))}
        for dataset in options.pick_datasets(TITLES)
        for row, (method, grid) in rows.items()
        for protocol in PROTOCOLS[dataset]
        for values in itertools.product(*grid.values())
        for seed in options.seeds_or(SEEDS)
    ]


def run(setting: Setting) -> Row:
    """A fit, and which test instances it gets right."""
    if setting["method"] == TWO_STAGES:
        data = load(setting["dataset"], {})
        row, predicted = two_stages(data)
        assert data.test is not None
        return row | {"right": packed(predicted == data.test.y)}
    return row_of(fit(setting))


def row_of(found: Fit) -> Row:
    """Figures of a fit, and which test instances it gets right."""
    test = found.data.test
    assert test is not None
    return figures_of(found) | {"right": packed(found.clf.predict(test.x) == found.data.classes[test.y])}


def summarise(tables: Tables) -> Summary:
    """Ours beside the paper's, classes, the trial on equal terms, and the paper's claims."""
    found = chosen(tables["table-1"])
    summary = Summary([*accuracy_tables(found, OURS, PAPERS_FIGURES), *_classes(found)], _most_accurate(found))
    summary.claims += _class_claim(found)
    if tables["fair-trial"]:
        table, claims = _trial(tables["fair-trial"])
        summary.tables.append(table)
        summary.claims += claims
    return summary


Chosen = dict[tuple[str, str, str], list[Row]]
"""Rows of all seeds, by dataset, protocol and row, of the grid point that validation chose."""


def chosen(rows: Sequence[Row]) -> Chosen:
    """The seeds of the best point of each grid, by the mean validation score, in the order of the seeds."""
    found = {}
    for place, some in group_by(rows, "dataset", "protocol", "row").items():
        found[place] = best_point(some, SEEDS)
    return found


def best_point(rows: Sequence[Row], seeds: int) -> list[Row]:
    """The rows of the grid point with the best mean validation score over so many seeds; the first of equals."""

    def score(some: Iterable[Row]) -> float:
        return float(np.mean([row["best_score"] for row in some if row["seed"] < seeds]))

    return sorted(max(group_by(rows, "parameters").values(), key=score), key=lambda row: row["seed"])


def accuracy_tables(found: Chosen, reference: str, papers: Mapping[str, tuple[str, str]]) -> Iterator[Table]:
    """A table per dataset: accuracies, and differences from a reference over seeds and over test instances."""
    note = (
        "Test accuracy in percent, mean ± sample standard deviation over seeds; cleaned labels and seconds of the "
        "first protocol. Differences in points with 95 % intervals, * if significant after Holm's correction."
    )
    for place, (dataset, title) in enumerate(TITLES.items()):
        protocols, rows = PROTOCOLS[dataset], rows_of(found, dataset)
        over_seeds = gaps_to(reference, rows)
        over_instances = holm(
            {
                row: instance_gap(some, rows[reference], N_TEST[dataset])
                for row, some in rows.items()
                if row in over_seeds and all(each["right"] for each in (*some, *rows[reference]))
            }
        )
        body = [
            [
                f"`{row}`",
                *(mean_and_spread([r["test_accuracy"] for r in found.get((dataset, p, row), [])]) for p in protocols),
                *(gaps[row].starred if row in gaps else "" for gaps in (over_seeds, over_instances)),
                "given" if row == "gold" else percent(some, "label_accuracy"),
                f"{np.mean([each['seconds'] for each in some]):.1f}",
                papers.get(row, ("", ""))[place],
            ]
            for row, some in rows.items()
        ]
        header = ["", *(IN_WORDS[protocol] for protocol in protocols), f"minus `{reference}`, seeds", "test instances"]
        if body:
            yield Table(title, [*header, "cleaned labels", "seconds", "paper"], body, note)


def rows_of(found: Chosen, dataset: str) -> dict[str, list[Row]]:
    """The fits of a dataset by row, by its first protocol."""
    return {row: some for (at, by, row), some in found.items() if (at, by) == (dataset, PROTOCOLS[dataset][0])}


def gaps_to(reference: str, rows: Mapping[str, list[Row]]) -> dict[str, Difference]:
    """Every other row minus the reference over seeds, corrected for all rows."""
    if reference not in rows:
        return {}
    return holm({name: seed_gap(some, rows[reference]) for name, some in rows.items() if name != reference})


def seed_gap(ours: list[Row], theirs: list[Row]) -> Difference:
    """The difference of test accuracies over the same seeds."""
    return paired_difference((by_seed(ours, "test_accuracy"), by_seed(theirs, "test_accuracy")))


def instance_gap(ours: list[Row], theirs: list[Row], n: int) -> Difference:
    """The same over test instances."""
    return bootstrap_difference(unpacked(by_seed(ours, "right"), n), unpacked(by_seed(theirs, "right"), n))


class Comparison(NamedTuple):
    """A claim of the paper about two rows of a dataset, of which it published figures; the decisive gap comes first."""

    text: str
    gaps: list[Difference]
    ours: list[Row]
    theirs: list[Row]
    published: tuple[str, str]
    what: str


def papers_claims(found: Sequence[Comparison]) -> list[Claim]:
    """Claims about the datasets of a table; comparisons with the paper are corrected over them."""
    above = {}
    for k, each in enumerate(found):
        ours, theirs = (Published.read(text) for text in each.published)
        pair = by_seed(each.ours, "test_accuracy"), by_seed(each.theirs, "test_accuracy")
        above[k] = above_published(pair, (ours, theirs))
    corrected = holm(above)
    return [
        claim(each.text, judge(each.gaps, above_paper=[corrected[k]]), each.gaps[0], each.what)
        for k, each in enumerate(found)
    ]


def _most_accurate(found: Chosen) -> list[Claim]:
    comparisons = []
    for place, (dataset, title) in enumerate(TITLES.items()):
        rows = rows_of(found, dataset)
        if {OURS, *BASELINES} <= rows.keys():
            against = gaps_to(OURS, rows)
            best = max(BASELINES, key=lambda name: float(np.mean(by_seed(rows[name], "test_accuracy"))))
            gaps = [-against[best], *(-against[name] for name in BASELINES if name != best)]
            published = PAPERS_FIGURES[OURS][place], PAPERS_FIGURES[best][place]
            text = f"CoNAL is more accurate than all baselines on {title} (Table 1)"
            what = f"`{OURS}` minus `{best}`, the best of {len(BASELINES)} baselines"
            comparisons.append(Comparison(text, gaps, rows[OURS], rows[best], published, what))
    return papers_claims(comparisons)


def _classes(found: Chosen) -> Iterator[Table]:
    """Accuracy on each true class, where the test labels are at hand."""
    for dataset, title in TITLES.items():
        shares = {row: _class_shares(some) for row, some in rows_of(found, dataset).items()}
        if shares and all(shares.values()):
            classes = list(next(iter(shares.values())))
            body = [[f"`{row}`", *(f"{100 * np.mean(each[c]):.1f}" for c in classes)] for row, each in shares.items()]
            yield Table(f"{title}, class by class", ["test accuracy, %", *classes], body)


def _class_shares(rows: list[Row]) -> dict[str, list[float]]:
    """Class to the accuracy of every seed; empty without the data or without single answers."""
    try:
        data = load(rows[0]["dataset"], {})
    except InputError:
        return {}
    if data.test is None or not all(row["right"] for row in rows):
        return {}
    right = unpacked(by_seed(rows, "right"), len(data.test))
    return {str(name): right[:, data.test.y == c].mean(1).tolist() for c, name in enumerate(data.classes.tolist())}


def _class_claim(found: Chosen) -> list[Claim]:
    dataset, name, ours, high, rival, low = PAPERS_CLASS
    rows = rows_of(found, dataset)
    shares = {method: _class_shares(rows[method]) for method in (ours, rival) if method in rows}
    if len(shares) < 2 or not all(shares.values()):
        return []
    pair = shares[ours][name], shares[rival][name]
    gap, above = paired_difference(pair), above_published(pair, (Published(high, 0.0), Published(low, 0.0)))
    text = f"CoNAL is more accurate than Max-MIG on {name} of {TITLES[dataset]}"
    return [claim(text, judge([gap], above_paper=[above]), gap, f"`{ours}` minus `{rival}`")]


def _trial(rows: list[Row]) -> tuple[Table, list[Claim]]:
    """CoNAL minus DL-CL on all terms, corrected for all of them, and how far that is above the paper's."""
    best = {place: best_point(some, TRIAL_SEEDS) for place, some in group_by(rows, "row", "method").items()}
    terms = [name for name in group_by(rows, "row") if all((name, method) in best for method in TRIED)]
    gaps = holm({name: seed_gap(best[name, OURS], best[name, "dl-cl"]) for name in terms})
    figures = tuple(Published.read(PAPERS_FIGURES[name][0]) for name in (OURS, "dl-cl"))
    pairs = {name: tuple(by_seed(best[name, method], "test_accuracy") for method in (OURS, "dl-cl")) for name in terms}
    above = holm(
        {name: above_published((ours, theirs), (figures[0], figures[1])) for name, (ours, theirs) in pairs.items()}
    )
    body = [
        [name, *(mean_and_spread(by_seed(best[name, m], "test_accuracy")) for m in TRIED), gaps[name].starred]
        for name in terms
    ]
    table = Table("Equal terms: DL-CL and CoNAL on LabelMe", ["terms", *(f"`{m}`" for m in TRIED), "difference"], body)
    equal = terms[1:]
    if not equal:
        return table, []
    verdict = judge([gaps[name] for name in equal], above_paper=[above[name] for name in equal])
    least = min((gaps[name] for name in equal), key=lambda gap: gap.value)
    text = "CoNAL is more accurate than DL-CL on LabelMe with equal starts, grids and help in training"
    return table, [claim(text, verdict, least, f"the smallest of {len(equal)} terms")]
