"""Preferences beside crowd-kit, and how often intervals hold: ``python benchmarks/pairs.py peers|intervals|scale``."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from crowdkit.aggregation import BradleyTerry as TheirBradleyTerry
from crowdkit.aggregation import NoisyBradleyTerry
from scipy.stats import kendalltau

from conal.aggregation.pairwise import MODELS, SharedBiasBradleyTerry
from conal.data.preferences import Preferences
from conal.datasets import simulate_pairs

CROWDS, HELD_OUT, TRUE = 5, 0.2, {"position": 0.5, "length": 0.5, "tie": -0.5}


def peers() -> None:
    """Kendall's tau to the true scores, held-out log-likelihood and CPU time, means of five crowds without ties."""
    rows = []
    for seed in range(CROWDS):
        truth = simulate_pairs(n_items=100, n_annotators=200, n_tasks=5000, tie=None, seed=seed)
        pairs = truth.preferences
        held = np.random.default_rng(seed).random(len(pairs)) < HELD_OUT
        for name, model in MODELS.items():
            began = time.process_time()
            fitted = model().fit(pairs.rows(~held))
            seconds = time.process_time() - began
            rows.append((name, kendalltau(fitted.scores_, truth.scores)[0], fitted.score(pairs.rows(held)), seconds))
        for name, peer in (("crowd-kit BT", TheirBradleyTerry(100)), ("crowd-kit NoisyBT", NoisyBradleyTerry())):
            began = time.process_time()
            scores = peer.fit_predict(_frame(pairs.rows(~held))).reindex(pairs.item_ids).to_numpy()
            seconds = time.process_time() - began
            rows.append(
                (name, kendalltau(scores, truth.scores)[0], _their_score(name, scores, pairs.rows(held)), seconds)
            )
    print(
        pd.DataFrame(rows, columns=["model", "tau", "log_likelihood", "cpu_seconds"]).groupby("model").mean().round(3)
    )


def _frame(pairs: Preferences) -> Any:
    left, right = pairs.item_ids[pairs.left], pairs.item_ids[pairs.right]
    winner = np.where(pairs.winner == 1, left, right)
    return pd.DataFrame({"worker": pairs.annotators, "left": left, "right": right, "label": winner})


def _their_score(name: str, scores: Any, pairs: Preferences) -> float:
    """Mean log-likelihood: their plain model has the strengths of items, and the noisy one logits on [0, 1]."""
    sides = scores[pairs.left], scores[pairs.right]
    odds = np.log(sides[0] / sides[1]) if name.endswith(" BT") else sides[0] - sides[1]
    return float(-np.logaddexp(0, -odds * pairs.winner).mean())


def intervals(n_crowds: int = 1000) -> None:
    """Shares of 95 % intervals that hold the truth."""
    items: list[bool] = []
    shared: dict[str, list[bool]] = {name: [] for name in TRUE}
    for seed in range(n_crowds):
        truth = simulate_pairs(seed=seed)
        model = SharedBiasBradleyTerry().fit(truth.preferences)
        scores = dict(zip(model.item_ids_.tolist(), truth.scores - truth.scores.mean(), strict=True))
        items += [row["low"] <= scores[row["item"]] <= row["high"] for row in model.ranking().to_pylist()]
        for row in model.shared_biases().to_pylist():
            shared[row["bias"]].append(row["low"] <= TRUE[row["bias"]] <= row["high"])
    print({"items": np.mean(items)} | {name: np.mean(held) for name, held in shared.items()})


def scale() -> None:
    """CPU seconds of scores and of the ranking with intervals, for 20,000 and a million comparisons."""
    for n_items, n_annotators, n_tasks in ((100, 200, 5_000), (1_000, 5_000, 250_000)):
        pairs = simulate_pairs(n_items=n_items, n_annotators=n_annotators, n_tasks=n_tasks).preferences
        began = time.process_time()
        model = SharedBiasBradleyTerry().fit(pairs)
        fitted = time.process_time()
        model.ranking()
        print(f"{pairs}: fit {fitted - began:.1f} s, ranking {time.process_time() - fitted:.1f} s")


if __name__ == "__main__":
    {"peers": peers, "intervals": intervals, "scale": scale}[sys.argv[1]]()
