"""From crowd labels alone to one label per task: NumPy and SciPy, no torch."""

from os import PathLike
from typing import Any

from conal.aggregation.auto import Auto
from conal.aggregation.backoff import Backoff
from conal.aggregation.base import Aggregator as _Aggregator
from conal.aggregation.base import aggregators, make
from conal.aggregation.bayes_dawid_skene import BayesianDawidSkene
from conal.aggregation.cbcc import CommunityBCC
from conal.aggregation.common_confusion import CommonConfusion
from conal.aggregation.dawid_skene import DawidSkene, OneCoinDawidSkene
from conal.aggregation.ebcc import EnhancedBCC
from conal.aggregation.fast_dawid_skene import FastDawidSkene
from conal.aggregation.glad import GLAD
from conal.aggregation.gold_majority_vote import GoldMajorityVote
from conal.aggregation.group_confusion import GroupConfusion
from conal.aggregation.kos import KOS
from conal.aggregation.mace import MACE
from conal.aggregation.majority_vote import MajorityVote
from conal.aggregation.minimax_entropy import MinimaxEntropy
from conal.aggregation.mmsr import MMSR
from conal.aggregation.multidimensional import Multidimensional
from conal.aggregation.ordinal import Ordinal
from conal.aggregation.wawa import Wawa
from conal.aggregation.worker_clustering import WorkerClustering
from conal.aggregation.zero_based_skill import ZeroBasedSkill

__all__ = [
    "GLAD",
    "KOS",
    "MACE",
    "MMSR",
    "Auto",
    "Backoff",
    "BayesianDawidSkene",
    "CommonConfusion",
    "CommunityBCC",
    "DawidSkene",
    "EnhancedBCC",
    "FastDawidSkene",
    "GoldMajorityVote",
    "GroupConfusion",
    "MajorityVote",
    "MinimaxEntropy",
    "Multidimensional",
    "OneCoinDawidSkene",
    "Ordinal",
    "Wawa",
    "WorkerClustering",
    "ZeroBasedSkill",
    "get",
    "load",
    "make",
    "names",
]


def load(folder: str | PathLike[str]) -> _Aggregator:
    """An aggregator that its method ``save`` or ``conal aggregate --save`` wrote; it can be updated."""
    from conal.updates.folder import load

    return load(folder)


names = aggregators.names
get = aggregators.get


def __getattr__(name: str) -> Any:
    """Classes of aggregators that are registered but not listed above, such as those of plug-ins."""
    for key in aggregators.names() if not name.startswith("_") else []:
        if aggregators.get(key).__name__ == name:
            return aggregators.get(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
