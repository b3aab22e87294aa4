"""From crowd labels alone to one label per task: NumPy and SciPy, no torch."""

from os import PathLike
from typing import TYPE_CHECKING, Any

from conal.aggregation.base import Aggregator as _Aggregator
from conal.aggregation.base import aggregators, make

if TYPE_CHECKING:  # each is imported when it is first used
    from conal.aggregation.auto import Auto
    from conal.aggregation.clustering import CommunityBCC, EnhancedBCC, WorkerClustering
    from conal.aggregation.common_confusion import Backoff, CommonConfusion
    from conal.aggregation.dawid_skene import BayesianDawidSkene, DawidSkene, FastDawidSkene, OneCoinDawidSkene
    from conal.aggregation.glad import GLAD
    from conal.aggregation.gold_pool import GoldPool
    from conal.aggregation.group_confusion import GroupConfusion
    from conal.aggregation.mace import MACE
    from conal.aggregation.message_passing import KOS, MMSR
    from conal.aggregation.minimax_entropy import MinimaxEntropy
    from conal.aggregation.multidimensional import Multidimensional
    from conal.aggregation.ordinal import Ordinal
    from conal.aggregation.voting import GoldMajorityVote, MajorityVote, Wawa, ZeroBasedSkill

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
    "GoldPool",
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
    from conal.updates import load

    return load(folder)


names = aggregators.names
get = aggregators.get


def __getattr__(name: str) -> Any:
    """The class of an aggregator, also of one that another distribution registers."""
    for key in aggregators.names() if not name.startswith("_") else []:
        if aggregators.get(key).__name__ == name:
            return aggregators.get(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
