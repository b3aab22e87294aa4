"""Figure 1: how many annotators make each mistake, and how much they disagree about each class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.data.annotations import Annotations
from conal.datasets import CrowdDataset
from studies.crowds import load
from studies.figures import heat_maps
from studies.runs import Options, Setting
from studies.tables import Row, Summary, Table, Tables, group_by

PARTS = ("figure-1", "entropies")
TITLES = {"labelme": "LabelMe", "music": "Music"}
PAPERS_SHARES = {
    ("labelme", "street", "insidecity"): 0.610,
    ("labelme", "opencountry", "forest"): 0.441,
    ("music", "metal", "rock"): 0.636,
    ("music", "disco", "pop"): 0.386,
}
"""The shares in the paper's introduction."""
PAPERS_ENTROPIES = {"forest": 0.660, "mountain": 0.192, "opencountry": 1.287, "insidecity": 1.116}
"""Entropies of LabelMe's annotations in the paper's Appendix C, in nats."""
SHOWN = 10


def runs(options: Options) -> list[Setting]:
    """Both crowds; no model is fitted."""
    return [{"part": part, "dataset": dataset} for part in PARTS for dataset in options.pick_datasets(TITLES)]


def run(setting: Setting) -> list[Row]:
    """A row per mistake, or per class."""
    data = load(setting["dataset"], {})
    names = [str(name) for name in data.classes.tolist()]
    if setting["part"] == "entropies":
        entropies = label_entropies(data.annotations, data.y_true)
        return [{"class": name, "entropy": value} for name, value in zip(names, entropies, strict=True)]
    shares = confusion_shares(data)
    return [
        {"true": true, "observed": observed, "share": float(shares[c, k])}
        for c, true in enumerate(names)
        for k, observed in enumerate(names)
        if c != k
    ]


def confusion_shares(data: CrowdDataset) -> npt.NDArray[np.float64]:
    r"""(C, C) share of the annotators who labelled an instance of class c as l at least once.

    .. math:: \tfrac1R \sum_r [\exists i : z_i = c, y_i^r = l]
    """
    crowd = data.annotations
    seen = np.zeros((crowd.n_annotators, crowd.n_classes, crowd.n_classes), dtype=bool)
    seen[crowd.annotators, data.y_true[crowd.tasks], crowd.labels] = True
    return np.asarray(seen.mean(0))


def label_entropies(crowd: Annotations, y: npt.NDArray[np.int64]) -> list[float]:
    r"""Entropy of the labels that tasks of each class got, in nats: :math:`-\sum_l p(l \mid c) \log p(l \mid c)`."""
    from scipy.stats import entropy

    counts = np.zeros((crowd.n_classes, crowd.n_classes))
    np.add.at(counts, (y[crowd.tasks], crowd.labels), 1)
    return [float(each) for each in np.nan_to_num(entropy(counts, axis=1))]


def summarise(tables: Tables) -> Summary:
    """The most common mistakes of each dataset, and the paper's."""
    summary = Summary()
    for dataset, rows in group_by(tables["figure-1"], "dataset").items():
        order = sorted(rows, key=lambda row: -row["share"])
        named = [row for row in order[SHOWN:] if (dataset, row["true"], row["observed"]) in PAPERS_SHARES]
        body = [
            [row["true"], row["observed"], f"{100 * row['share']:.1f}", "" if paper is None else f"{100 * paper:.1f}"]
            for row in [*order[:SHOWN], *named]
            for paper in [PAPERS_SHARES.get((dataset, row["true"], row["observed"]))]
        ]
        note = "Share of the annotators who made a mistake at least once, in percent."
        summary.tables.append(Table(TITLES[dataset], ["true", "observed", "share", "paper"], body, note))
    for dataset, rows in group_by(tables["entropies"], "dataset").items():
        papers = PAPERS_ENTROPIES if dataset == "labelme" else {}
        body = [
            [row["class"], f"{row['entropy']:.3f}", f"{papers[row['class']]:.3f}" if row["class"] in papers else ""]
            for row in rows
        ]
        note = "Entropy of the labels that tasks of a class got, in nats."
        summary.tables.append(Table(f"{TITLES[dataset]}, classes", ["class", "entropy", "paper"], body, note))
    title = "Mistakes that annotators share"
    if tables["figure-1"]:
        summary.charts["figure-1"] = heat_maps(tables["figure-1"], "share", by="dataset", title=title)
    return summary
