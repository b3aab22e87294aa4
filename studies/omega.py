"""True classes of the instances with the highest and with the lowest mean omega, on LabelMe and Music."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conal.datasets import CrowdDataset
from studies.figures import paired_bars
from studies.fits import PAPER, fit
from studies.runs import Options, Setting
from studies.statistics import holm, judge, paired_difference
from studies.table_1 import PRESETS, TITLES
from studies.tables import Row, Summary, Table, Tables, by_seed, claim, column, group_by, percent

PARTS = ("omega",)
HALVES = {"top_half": "higher mean omega", "bottom_half": "lower mean omega"}
SEEDS = 5
PAPERS_CLASSES = {
    "labelme": (("forest", "mountain"), ("opencountry", "insidecity")),
    "music": (("hiphop", "reggae"), ("jazz", "rock")),
}
"""Classes whose mistakes the paper finds to be common, and to be individual (Appendix C)."""


def runs(options: Options) -> list[Setting]:
    """CoNAL with the paper's omega, at the last epoch: the best is often early, with little learned of annotators."""
    options.pick_methods(("conal",))
    return [
        {"part": "omega", "dataset": dataset, "method": "conal", "protocol": "last", "seed": seed}
        | {"parameters": PRESETS[dataset] | PAPER["conal"]}
        for dataset in options.pick_datasets(TITLES)
        for seed in options.seeds_or(SEEDS)
    ]


def run(setting: Setting) -> list[Row]:
    """A row per class: its shares of both halves."""
    clf, data, _ = fit(setting)
    top, bottom = omega_halves(clf.common_noise_rate(data.x, data.annotations), data)
    names = data.classes.tolist()
    return [
        {"class": str(name), "top_half": float(top[c]), "bottom_half": float(bottom[c])} for c, name in enumerate(names)
    ]


def omega_halves(omega: npt.NDArray[np.float64], data: CrowdDataset) -> list[npt.NDArray[np.float64]]:
    """(C,) shares of the true classes among the instances with the higher mean omega, and among the other half.

    The mean is over the annotators who labelled an instance.
    """
    crowd = data.annotations
    given = crowd.labels_per_task()
    labelled = np.flatnonzero(given)
    means = np.bincount(crowd.tasks, weights=omega, minlength=crowd.n_tasks)[labelled] / given[labelled]
    order = labelled[np.argsort(-means, kind="stable")]
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    counts = [np.bincount(data.y_true[half], minlength=crowd.n_classes) for half in halves]
    return [count / max(count.sum(), 1) for count in counts]


def summarise(tables: Tables) -> Summary:
    """Both halves beside each other, and the paper's classes."""
    cells = group_by(tables["omega"], "dataset", "class")
    gaps = holm(
        {at: paired_difference((by_seed(rows, "top_half"), by_seed(rows, "bottom_half"))) for at, rows in cells.items()}
    )
    summary = Summary()
    for dataset in group_by(tables["omega"], "dataset"):
        names = sorted((name for at, name in cells if at == dataset), key=lambda name: -gaps[dataset, name].value)
        body = [
            [name, percent(some, "top_half"), percent(some, "bottom_half"), gaps[dataset, name].starred]
            for name in names
            for some in [cells[dataset, name]]
        ]
        note = "Shares of the classes in percent; differences in points, * if significant after Holm's correction."
        summary.tables.append(Table(TITLES[dataset], ["class", "top half", "bottom half", "difference"], body, note))
        top, bottom = PAPERS_CLASSES[dataset]
        judged = [*(gaps[dataset, name] for name in top), *(-gaps[dataset, name] for name in bottom)]
        common, own = " and ".join(top), " and ".join(bottom)
        text = f"By mean omega, mistakes on {common} of {TITLES[dataset]} are common, on {own} individual"
        least = min(judged, key=lambda gap: gap.value)
        summary.claims.append(claim(text, judge(judged), least, "share in the halves, the least of four classes"))
    drawn = [
        {"panel": TITLES[dataset], "x": name, "series": series, "share": float(np.mean(column(some, half)))}
        for (dataset, name), some in cells.items()
        for half, series in HALVES.items()
    ]
    if drawn:
        title = "True classes of the instances by mean omega"
        summary.charts["omega"] = paired_bars(drawn, y_title="share of the half (%)", title=title)
    return summary
