"""From crowd labels alone to one label per task: NumPy and SciPy, no torch."""

from conal.aggregation.base import aggregators, make
from conal.aggregation.dawid_skene import DawidSkene, OneCoinDawidSkene
from conal.aggregation.majority_vote import MajorityVote

__all__ = ["DawidSkene", "MajorityVote", "OneCoinDawidSkene", "get", "make", "names"]

names = aggregators.names
get = aggregators.get
