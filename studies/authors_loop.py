"""The authors' own training loop on Music, re-written from its description: does it reach the paper's figures?

It differs from the paper and from this library: a new Adam in every epoch, so that its moments are lost; logits of
both layers are mixed, not probabilities; embeddings of instances come from two linear layers without a non-linearity,
have 80 dimensions and any length; and the best epoch is chosen by the test set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from studies.crowds import load
from studies.runs import Options, Setting
from studies.statistics import Published, above_published, judge, paired_difference
from studies.table_1 import PAPERS_FIGURES
from studies.tables import Row, Summary, Table, Tables, by_seed, claim, group_by, mean_and_spread

PARTS = ("authors-loop",)
SEEDS = 5
DATASET = "music"
OURS, RIVAL = "conal", "dl-cl"
METHODS = ("gold", RIVAL, OURS)
PAPERS_MEAN = Published.read(PAPERS_FIGURES[OURS][1]).mean
HIDDEN, EMBEDDING, DROPOUT = 128, 80, 0.5
EPOCHS, BATCH, RATE, LAM = 200, 1024, 0.01, 1e-5
STARTS = {"dl-cl": 1.0, "conal": 2.0}
"""Layers start at so many times the identity."""


def runs(options: Options) -> list[Setting]:
    """CoNAL, the crowd layer and true labels."""
    return [
        {"part": "authors-loop", "dataset": dataset, "method": method, "seed": seed}
        | {"parameters": {"epochs": EPOCHS, "lr": RATE}}
        for dataset in options.pick_datasets((DATASET,))
        for method in options.pick_methods(METHODS)
        for seed in options.seeds_or(SEEDS)
    ]


class Classifier(nn.Sequential):
    """One hidden layer, with batch normalisation without weights before and after it."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(
            nn.BatchNorm1d(n_features, affine=False),
            nn.Linear(n_features, HIDDEN),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.BatchNorm1d(HIDDEN, affine=False),
            nn.Linear(HIDDEN, n_classes),
            nn.Softmax(dim=1),
        )


class Gate(nn.Module):
    """omega of every instance and annotator, from the features as they are."""

    def __init__(self, n_features: int, n_annotators: int) -> None:
        super().__init__()
        self.instances = nn.Sequential(nn.Linear(n_features, HIDDEN), nn.Linear(HIDDEN, EMBEDDING))
        self.annotators = nn.Linear(n_annotators, EMBEDDING)

    def forward(self, x: Tensor) -> Tensor:
        """(N, R)."""
        everyone = torch.eye(self.annotators.in_features)
        logits: Tensor = self.instances(x) @ normalize(self.annotators(everyone)).T
        return logits.sigmoid()


class Model(nn.Module):
    """A classifier, and what turns its probabilities into logits of every annotator's labels."""

    def __init__(self, method: str, n_features: int, n_classes: int, n_annotators: int) -> None:
        super().__init__()
        self.classifier = Classifier(n_features, n_classes)
        start = STARTS.get(method, 0.0) * torch.eye(n_classes)
        self.own = nn.Parameter(start.repeat(n_annotators, 1, 1)) if method in STARTS else None
        self.common = nn.Parameter(start.clone()) if method == "conal" else None
        self.gate = Gate(n_features, n_annotators) if method == "conal" else None

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy to (N,) true classes, or to the (N, R) labels that are there, minus the distance of layers."""
        f = self.classifier(x)
        if self.own is None:
            return cross_entropy(f.clamp(min=1e-9).log(), target)
        logits = torch.einsum("nc,rck->nrk", f, self.own)
        if self.gate is not None and self.common is not None:
            omega = self.gate(x)[:, :, None]
            logits = omega * (f @ self.common)[:, None] + (1 - omega) * logits
        given = target >= 0
        loss = cross_entropy(logits[given], target[given])
        if self.common is not None:
            loss = loss - LAM * (self.own - self.common).flatten(1).square().sum(1).clamp(min=1e-12).sqrt().sum()
        return loss


def run(setting: Setting) -> Row:
    """Test accuracy after the last epoch, and after the best of all, which the test set chooses."""
    torch.manual_seed(setting["seed"])
    data, method = load(setting["dataset"], {}), setting["method"]
    assert data.test is not None
    x, test = torch.from_numpy(data.x).float(), torch.from_numpy(data.test.x).float()
    target = torch.from_numpy(data.y_true if method == "gold" else data.annotations.to_matrix()).long()
    model = Model(method, x.shape[1], len(data.classes), data.annotations.n_annotators)
    epochs = _epochs(model, x, target, setting["parameters"])
    accuracies = [_accuracy(model, test, data.test.y) for _ in epochs]
    best = int(np.argmax(accuracies))
    return {"best_on_test": accuracies[best], "last": accuracies[-1], "best_epoch": best + 1}


def _epochs(model: Model, x: Tensor, target: Tensor, parameters: dict[str, Any]) -> Iterator[None]:
    for _ in range(parameters["epochs"]):
        optimiser = torch.optim.Adam(model.parameters(), lr=parameters["lr"])  # a new one, as theirs
        model.train()
        for rows in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            model.loss(x[rows], target[rows]).backward()
            optimiser.step()
        yield


@torch.no_grad()
def _accuracy(model: Model, x: Tensor, y: npt.NDArray[np.int64]) -> float:
    return float(np.mean(model.eval().classifier(x).argmax(1).numpy() == y))


def summarise(tables: Tables) -> Summary:
    """Beside the paper's, and how far the paper's CoNAL is above its own loop."""
    found = group_by(tables["authors-loop"], "method")
    body = [
        [
            f"`{method}`",
            *(mean_and_spread(by_seed(rows, name)) for name in ("best_on_test", "last")),
            PAPERS_FIGURES.get(method, ("", ""))[1],
        ]
        for method, rows in found.items()
    ]
    note = "Test accuracy in percent, mean ± sample standard deviation over seeds; `gold`: true labels, the ceiling."
    table = Table("Music", ["", "best epoch by the test set: no fair figure", "last epoch", "paper"], body, note)
    summary = Summary([table])
    if {"gold", OURS} <= found.keys():
        ceiling = by_seed(found["gold"], "best_on_test")
        gap = paired_difference((ceiling, [PAPERS_MEAN / 100] * len(ceiling)))
        text = "True labels in this loop reach the paper's CoNAL on Music"
        summary.claims.append(claim(text, judge([gap]), gap, f"`gold` minus the paper's {PAPERS_MEAN}"))
    if {OURS, RIVAL} <= found.keys():
        gap = paired_difference((by_seed(found[OURS], "best_on_test"), by_seed(found[RIVAL], "best_on_test")))
        papers = Published.read(PAPERS_FIGURES[OURS][1]), Published.read(PAPERS_FIGURES[RIVAL][1])
        pair = by_seed(found[OURS], "best_on_test"), by_seed(found[RIVAL], "best_on_test")
        text = "CoNAL is more accurate than DL-CL on Music in the authors' own loop"
        verdict = judge([gap], above_paper=[above_published(pair, papers)])
        summary.claims.append(claim(text, verdict, gap, f"`{OURS}` minus `{RIVAL}`"))
    return summary
