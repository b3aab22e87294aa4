"""Every aggregator on every crowd, and beside crowd-kit's, in one run: `make bench-aggregation`.

Accuracy is that of the defaults, on labels alone. Where crowd-kit has the aggregator, both run in turn with the same
settings, as far as there are such: CPU time, and the share of equal labels. Aggregators whose cost is linear also run
on a hundred thousand and on a million labels, in processes of their own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from aggregation import LARGE, simulated
from harness import Row, clock, main, markdown, measure, store, stored
from studies.crowds import JUDGES, LABEL_SETS, PEOPLE, label_set

REAL = LABEL_SETS
SHARED = tuple(f"shared {k}" for k in range(1, 13))
"""Twelve simulated crowds with few labels per annotator, in which many make the same mistakes."""
GOLD = 5
"""Every so many tasks, the true label is given to aggregators that need some; they are judged by the others."""
SHORT = 0.2
"""CPU seconds below which a fit is timed three times, and the shortest time taken."""

Fit = Callable[[pd.DataFrame, pd.Series], pd.Series]


# ---------------------------------------------------------------- crowds


def real(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """A public crowd of people, or a jury of language models, with its true labels."""
    labels, truth = label_set(name)
    return labels.to_pandas(), pd.Series(truth)


def shared(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """A crowd of the paper's generator: 1,000 tasks of six classes, 60 annotators, three labels per task."""
    from conal.datasets.crowd import simulate_crowd
    from conal.parameters.simulation import CrowdSettings

    k = SHARED.index(name)
    rng = np.random.default_rng(k)
    z = rng.integers(6, size=1000)
    settings = CrowdSettings(
        n_annotators=60,
        labels_per_instance=3,
        common_strength=(0.4, 0.5, 0.6)[k % 3],
        proportion=(0.5, 0.8)[k // 3 % 2],
        seed=k,
    )
    crowd, _ = simulate_crowd(z, rng.normal(size=(1000, 8)), range(6), settings)
    frame = pd.DataFrame({"task": crowd.tasks, "worker": crowd.annotators, "label": crowd.labels})
    return frame, pd.Series(z)


def facts(frame: pd.DataFrame, truth: pd.Series) -> dict[str, float]:
    """What a crowd looks like."""
    tasks, workers = frame["task"].nunique(), frame["worker"].nunique()
    return {
        "tasks": tasks,
        "annotators": workers,
        "classes": frame["label"].nunique(),
        "labels_per_task": len(frame) / tasks,
        "labels_per_annotator": len(frame) / workers,
        "largest_class": float(truth.value_counts(normalize=True).iloc[0]),
    }


# ---------------------------------------------------------------- accuracy


def ours(name: str, given: int = 0, **settings: Any) -> Fit:
    """One of conal's; ``given``: every so many tasks, it gets the true label."""

    def fit(frame: pd.DataFrame, truth: pd.Series) -> pd.Series:
        from conal import aggregation

        known = truth.iloc[::given] if given else None
        return aggregation.make(name, **settings).fit_predict(frame, true_labels=known)

    return fit


def models() -> dict[str, Fit]:
    """All aggregators as shipped; those that need true labels, and Dawid-Skene for comparison, get a fifth of them."""
    from conal import aggregation

    names = [name for name in aggregation.names() if not aggregation.get(name).ordered]  # the classes are kinds
    alone = {name: ours(name) for name in names if name != "gold-majority-vote"}
    return alone | {
        "gold-majority-vote": ours("gold-majority-vote", GOLD),
        "dawid-skene, true labels": ours("dawid-skene", GOLD),
    }


def timed(fit: Fit, frame: pd.DataFrame, truth: pd.Series) -> tuple[pd.Series | None, float]:
    """Labels, or None where the aggregator cannot take the crowd, and CPU seconds."""
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        try:
            labels = fit(frame, truth)
        except (ValueError, KeyError, MemoryError, AttributeError):
            return None, float("nan")
        best = min(best, time.process_time() - began)
        if best > SHORT:
            break
    return labels, best


def accuracy(labels: pd.Series | None, truth: pd.Series, given: bool) -> float | None:
    """Percent of right labels; of tasks whose truth was not given."""
    if labels is None:
        return None
    judges = truth.drop(truth.index[::GOLD]) if given else truth
    return float(100 * (labels.reindex(judges.index) == judges).mean())


def accuracies(crowds: dict[str, tuple[pd.DataFrame, pd.Series]]) -> dict[str, dict[str, Row]]:
    """Accuracy and CPU seconds of every aggregator on every crowd."""
    found: dict[str, dict[str, Row]] = {}
    for name, fit in models().items():
        given = name == "gold-majority-vote" or name.endswith("true labels")
        found[name] = {}
        for crowd, (frame, truth) in crowds.items():
            labels, cpu = timed(fit, frame, truth)
            found[name][crowd] = {"accuracy": accuracy(labels, truth, given), "cpu": cpu}
        each = [row["accuracy"] for row in found[name].values()]
        print(f"{name:30}" + "".join(f"{value:7.1f}" for value in each), flush=True)
    return found


# ---------------------------------------------------------------- crowd-kit


class Peer(NamedTuple):
    """Ours and crowd-kit's with the same settings, and why labels may differ."""

    ours: Fit
    theirs: Fit
    why: str


def crowdkit(name: str, **settings: Any) -> Fit:
    """One of crowd-kit's; where its ``predict`` fails with a current scikit-learn, its weights and weighted vote."""

    def fit(frame: pd.DataFrame, truth: pd.Series) -> pd.Series:
        import crowdkit.aggregation as theirs

        model = getattr(theirs, name)(**settings)
        if name not in ("Wawa", "ZeroBasedSkill", "GoldMajorityVote"):
            return model.fit_predict(frame)
        fitted = model.fit(frame, truth.iloc[::GOLD]) if name == "GoldMajorityVote" else model.fit(frame)
        return theirs.MajorityVote(on_missing_skill="ignore").fit(frame, skills=fitted.skills_).labels_

    return fit


TWENTY: dict[str, Any] = {"n_iter": 20, "tol": 0, "guard": "off", "verbose": False}
# Its first iteration is the E-step of the start, which ours does not count; -inf: it never stops early.
THEIR_TWENTY: dict[str, Any] = {"n_iter": 21, "tol": -np.inf}
UNUSED = "it leaves labels that a worker never used out of the worker's matrix, and holds counts of zero at 1e-10"
PEERS = {
    "majority-vote": Peer(
        ours("majority-vote", guard="off"),
        crowdkit("MajorityVote"),
        "on a tie it takes the class that comes first in its table of counts, which depends on the order of the rows",
    ),
    "dawid-skene": Peer(ours("dawid-skene", **TWENTY), crowdkit("DawidSkene", **THEIR_TWENTY), UNUSED),
    "one-coin": Peer(ours("one-coin", **TWENTY), crowdkit("OneCoinDawidSkene", **THEIR_TWENTY), UNUSED),
    "glad": Peer(
        ours("glad", guard="off"),
        crowdkit("GLAD"),
        "its M-step ends after 25 steps or at 1e-2, and it stops at any fall of its objective, before the optimum",
    ),
    "mace": Peer(
        ours("mace", guard="off"),
        crowdkit("MACE", n_restarts=1, random_state=0),  # its ten restarts are all the same one
        "it starts at random, and it mixes up workers and labels unless they are named in the order of appearance; "
        "from its start and with such names all labels are equal",
    ),
    "kos": Peer(ours("kos", guard="off"), crowdkit("KOS", random_state=0), "it takes two classes only"),
    "mmsr": Peer(
        ours("mmsr", guard="off"),
        crowdkit("MMSR", n_iter=500, random_state=0),
        "it counts annotators who share no task as pairs that disagree, and divides votes by their sum, which turns "
        "them around where it is negative; from another start a mean may leave out other partners",
    ),
    "wawa": Peer(ours("wawa", guard="off"), crowdkit("Wawa"), "ties of the first vote, as for majority-vote"),
    "zero-based-skill": Peer(
        ours("zero-based-skill", guard="off"), crowdkit("ZeroBasedSkill"), "ties of the votes, as for majority-vote"
    ),
    "gold-majority-vote": Peer(
        ours("gold-majority-vote", GOLD, guard="off"),
        crowdkit("GoldMajorityVote"),
        "it leaves out workers without tasks of known truth, who here count as the average one, and does not keep "
        "known labels; ties",
    ),
}


def beside_peers(crowds: dict[str, tuple[pd.DataFrame, pd.Series]]) -> dict[str, dict[str, Row]]:
    """CPU seconds of both sides, the share of equal labels, and crowd-kit's accuracy, by aggregator and crowd."""
    found: dict[str, dict[str, Row]] = {}
    for name, peer in PEERS.items():
        found[name] = {}
        for crowd, (frame, truth) in crowds.items():
            theirs, their_cpu = timed(peer.theirs, frame, truth)
            labels, cpu = timed(peer.ours, frame, truth)
            if theirs is None or labels is None:
                continue
            judges = truth.drop(truth.index[::GOLD]).index if name == "gold-majority-vote" else labels.index
            equal = float((labels[judges] == theirs.reindex(judges)).mean())
            right = accuracy(theirs, truth, name == "gold-majority-vote")
            found[name][crowd] = {"ours": cpu, "theirs": their_cpu, "equal": equal, "accuracy": right}
        both = [sum(row[side] for row in found[name].values()) for side in ("ours", "theirs")]
        print(f"{name}: {both[0]:.2f} s, crowd-kit {both[1]:.2f} s on {len(found[name])} crowds", flush=True)
    return found


# ---------------------------------------------------------------- a million labels

SMALL = 100_000
FEW: dict[str, Any] = {"n_iter": 10, "tol": 0, "n_restarts": 1, "guard": "off", "verbose": False}
"""Settings of the iterative ones, as far as they have them."""
FIXED: dict[str, dict[str, Any]] = {
    "minimax-entropy": {"gamma": 0.5},
    "common-confusion": {"prior_individual": 1.0},
    "ordinal": {"strength": 100.0},
}
"""No choice by held-out labels, which is a handful of further fits."""
LIMIT = 900.0
"""Seconds after which a fit is given up."""


def linear() -> list[str]:
    """Those whose cost grows with the labels; mmsr's grows with the annotators squared, and auto fits four of them."""
    from conal import aggregation

    return [name for name in aggregation.names() if name not in ("mmsr", "auto")]


def large_fit(name: str) -> Row:
    """A hundred thousand labels, then a million, in this process."""
    from conal import Annotations, aggregation

    warnings.simplefilter("ignore")
    known = aggregation.get(name).parameter_names()
    settings = {key: value for key, value in (FEW | FIXED.get(name, {})).items() if key in known}
    frame = simulated(**LARGE)
    truth = dict.fromkeys(range(0, SMALL // LARGE["per_task"], 100), 0) if name == "gold-majority-vote" else None
    times = []
    for part in (SMALL, SMALL, len(frame)):  # imports and compilation are not what is measured
        crowd = Annotations.of(frame.head(part))
        with clock() as row:
            aggregation.make(name, **settings).fit(crowd, true_labels=truth)
        times.append(row["cpu"])
    return row | {"small": times[1]}


def jobs() -> dict[str, Callable[[], Row]]:
    """All fits that have a process of their own."""
    return {name: partial(large_fit, name) for name in linear()}


def large_fits() -> dict[str, Row]:
    """CPU seconds on a hundred thousand and on a million labels, and the exponent of the growth between them."""
    found: dict[str, Row] = {}
    for name in linear():
        row = measure(__file__, name, LIMIT)
        if row is None:
            print(f"{name}: more than {LIMIT:.0f} s", flush=True)
            continue
        found[name] = row | {"exponent": float(np.log10(row["cpu"] / row["small"]))}
        print(f"{name}: {row['cpu']:.2f} s on a million labels, {found[name]['exponent']:.2f}", flush=True)
    return found


# ---------------------------------------------------------------- tables


def mean_accuracy(found: dict[str, Any], name: str, crowds: tuple[str, ...]) -> float:
    """Mean accuracy over crowds."""
    return float(np.mean([found["models"][name][crowd]["accuracy"] for crowd in crowds]))


def behind_best(found: dict[str, Any], name: str) -> float:
    """Points behind the most accurate one that needs no true labels, on the real crowd where it is farthest behind."""
    alone = [each for each in found["models"] if "," not in each and each not in ("auto", "gold-majority-vote")]
    gaps = []
    for crowd in REAL:
        best = max(found["models"][each][crowd]["accuracy"] for each in alone)
        gaps.append(best - found["models"][name][crowd]["accuracy"])
    return float(max(gaps))


def summary(found: dict[str, Any]) -> str:
    """A row per aggregator, the most accurate first."""
    header = ["aggregator", "people", "juries", "all 13", "behind best", "shared mistakes", "CPU s, 13 crowds"]
    header += ["a million labels"]
    rows = []
    for name in sorted(found["models"], key=lambda each: -mean_accuracy(found, each, REAL)):
        means = [mean_accuracy(found, name, crowds) for crowds in (PEOPLE, JUDGES, REAL)]
        cpu = sum(found["models"][name][crowd]["cpu"] for crowd in REAL)
        million = found["million"].get(name)
        plain = "," not in name and name != "gold-majority-vote"
        rows.append(
            [f"`{name}`" if "," not in name else f"`{name.split(',')[0]}`,{name.split(',')[1]}"]
            + [f"{value:.1f}" for value in means]
            + [f"{behind_best(found, name):.1f}" if plain else ""]
            + [f"{mean_accuracy(found, name, SHARED):.1f}", f"{cpu:.2f}", f"{million['cpu']:.1f} s" if million else ""]
        )
    return markdown(header, rows)


def by_crowd(found: dict[str, Any]) -> str:
    """A row per aggregator and a column per crowd."""
    rows = [
        [f"`{name}`"] + [f"{each[crowd]['accuracy']:.1f}" for crowd in REAL]
        for name, each in found["models"].items()
        if "," not in name and name != "gold-majority-vote"
    ]
    return markdown(["accuracy, %", *REAL], rows)


def peers(found: dict[str, Any]) -> str:
    """A row per aggregator that crowd-kit has."""
    rows = []
    for name, crowds in found["peers"].items():
        ours, theirs = (sum(row[side] for row in crowds.values()) for side in ("ours", "theirs"))
        equal = [row["equal"] for row in crowds.values()]
        times = [f"{ours:.2f} s", f"{theirs:.2f} s", f"1/{theirs / ours:.0f}"]
        shares = [f"{sum(share == 1 for share in equal)} of {len(equal)}", f"{100 * min(equal):.1f} %"]
        rows.append([f"`{name}`", str(len(crowds)), *times, *shares, PEERS[name].why])
    header = ["", "crowds", "conal", "crowd-kit", "ratio", "crowds with all labels equal", "least equal"]
    return markdown([*header, "why crowd-kit differs"], rows)


def beside_earlier(found: dict[str, Any]) -> dict[str, Any]:
    """New measurements on the crowds, with the earlier ones beside crowd-kit and on a million labels."""
    earlier = stored("aggregators")
    when = earlier.get("whole_run", earlier["date"])
    note = (
        f"Accuracies and CPU times on the crowds are from a later run than those beside crowd-kit and on a million "
        f"labels, which are of {when}."
    )
    return {"whole_run": when, "note": note, "peers": earlier["peers"], "million": earlier["million"]} | found


def options(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark alone."""
    parser.add_argument(
        "--crowds", action="store_true", help="only the crowds, in minutes: for a new aggregator; keeps the rest"
    )


def run(arguments: argparse.Namespace) -> None:
    """Everything in one run."""
    warnings.simplefilter("ignore")
    if arguments.quick:
        accuracies({"bluebird": real("bluebird")})
        return
    crowds = {name: real(name) for name in REAL}
    for name in ("dawid-skene", "minimax-entropy"):
        ours(name)(*crowds["product"])  # imports and compilation
    about = {name: facts(*data) for name, data in crowds.items()}
    found: dict[str, Any] = {"crowds": about, "models": accuracies(crowds | {name: shared(name) for name in SHARED})}
    if arguments.crowds:
        store("aggregators", beside_earlier(found))
        return
    found["peers"] = beside_peers(crowds)
    found["million"] = {}
    store("aggregators", found)  # already, because the rest takes long
    found["million"] = large_fits()
    store("aggregators", found)
    print(summary(found), by_crowd(found), peers(found), sep="\n\n")


if __name__ == "__main__":
    main(jobs(), run, __doc__, options)
