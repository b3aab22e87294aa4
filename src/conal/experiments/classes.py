"""Accuracy class by class on LabelMe and Music, and how much the annotators disagree about each class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal import datasets
from conal.data.annotations import Annotations
from conal.experiments.base import Experiment, register
from conal.experiments.comparisons import RULE, Difference, corrected, paired_difference
from conal.experiments.real_tables import PROTOCOLS_OF, TITLES, Table1
from conal.experiments.right_answers import unpacked
from conal.experiments.runs import PROTOCOLS, Run
from conal.experiments.store import Store
from conal.experiments.tables import Row, column, group_by, markdown, n_seeds

__all__ = ["PAPERS_CLASSES", "PAPERS_ENTROPIES", "Classes", "class_gaps", "label_entropies"]

PAPERS_CLASSES = {("labelme", "opencountry"): {"conal": 67.21, "max-mig": 54.19}}
"""Accuracy on a class in percent, where the paper's text has it."""
PAPERS_ENTROPIES = {
    ("labelme", "forest"): 0.660,
    ("labelme", "mountain"): 0.192,
    ("labelme", "opencountry"): 1.287,
    ("labelme", "insidecity"): 1.116,
}
"""Entropies of the annotations in the paper's Appendix C."""
IntArray = npt.NDArray[np.int64]
OURS, RIVAL = "conal", "max-mig"


@register("classes")
class Classes(Experiment):
    """The fits of Table 1, class by class."""

    title = "Accuracy class by class"

    def runs(self) -> list[Run]:
        """Those of Table 1."""
        return self._table_1().runs()

    def table(self, store: Store) -> pa.Table:
        """A row per dataset, method, seed and class, at the grid point that validation chose."""
        chosen = [row for row in self._table_1().table(store).to_pylist() if row["chosen"]]
        rows: list[Row] = []
        for dataset in TITLES:
            data = datasets.load(dataset)
            assert data.test is not None  # noqa: S101 - both have test data
            entropies = label_entropies(data.annotations, data.y_true)
            fits = [row for row in chosen if (row["dataset"], row["protocol"]) == (dataset, PROTOCOLS_OF[dataset][0])]
            for fit in fits:
                (right,) = unpacked([fit["right"]], len(data.test))
                for c, name in enumerate(data.classes.tolist()):
                    of_class = data.test.y == c
                    at = {"dataset": dataset, "row": fit["row"], "seed": fit["seed"], "class": str(name)}
                    counted = {"instances": int(of_class.sum()), "entropy": float(entropies[c])}
                    rows.append(at | counted | {"accuracy": float(right[of_class].mean())})
        return pa.Table.from_pylist(rows)

    def page(self, table: pa.Table) -> str:
        """Methods by classes, the entropies, and CoNAL minus Max-MIG."""
        text = (
            f"Test accuracy of each true class in percent, means over {n_seeds(table)} seeds, of the fits that Table 1 "
            "shows. *Entropy* is that of the labels that training instances of the class got, in nats: 0 if "
            f"everybody is right. {RULE} \\* marks differences that are not level."
        )
        parts, rows = [text], table.to_pylist()
        for dataset, title in TITLES.items():
            here = [row for row in rows if row["dataset"] == dataset]
            cells = group_by(here, "row", "class")
            classes = list(group_by(here, "class"))
            body = [
                [f"`{row}`", *(f"{100 * np.mean(column(cells[row, name], 'accuracy')):.1f}" for name in classes)]
                for row in group_by(here, "row")
            ]
            gaps = class_gaps(here)
            body.append([f"`{OURS}` minus `{RIVAL}`", *(gaps[name].starred for name in classes)])
            of_class = {name: some[0] for name, some in group_by(here, "class").items()}
            body.append(["entropy", *(_entropy(dataset, name, of_class[name]) for name in classes)])
            body.append(["test instances", *(str(of_class[name]["instances"]) for name in classes)])
            parts += [f"## {title}", f"{PROTOCOLS[PROTOCOLS_OF[dataset][0]].capitalize()}."]
            parts += [markdown(["class", *classes], body)]
        return self.document(*parts, _in_the_paper())

    def _table_1(self) -> Table1:
        return Table1(quick=self.quick, seeds=len(self.seeds))


def label_entropies(crowd: Annotations, y: IntArray) -> list[float]:
    r"""Entropy of the labels that tasks of each class got, in nats: :math:`-\sum_l p(l \mid c) \log p(l \mid c)`."""
    counts = np.zeros((crowd.n_classes, crowd.n_classes))
    np.add.at(counts, (y[crowd.tasks], crowd.labels), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return [float(entropy) for entropy in -(shares * logs).sum(1)]


def class_gaps(rows: list[Row]) -> dict[str, Difference]:
    """CoNAL minus Max-MIG on every class of a dataset, corrected for all of them."""
    cells = group_by(sorted(rows, key=lambda row: row["seed"]), "row", "class")
    return corrected(
        {
            name: paired_difference((column(cells[OURS, name], "accuracy"), column(cells[RIVAL, name], "accuracy")))
            for name in group_by(rows, "class")
        }
    )


def _entropy(dataset: str, name: str, row: Row) -> str:
    paper = PAPERS_ENTROPIES.get((dataset, name))
    return f"{row['entropy']:.3f}" + ("" if paper is None else f" (paper {paper:.3f})")


def _in_the_paper() -> str:
    texts = [
        f"{name}: " + ", ".join(f"`{method}` {value:.2f}" for method, value in figures.items())
        for (_, name), figures in PAPERS_CLASSES.items()
    ]
    return f"The paper's figures: {'; '.join(texts)}."
