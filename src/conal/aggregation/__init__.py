"""From crowd labels alone to one label per task: NumPy and SciPy, no torch."""

from conal.aggregation.base import aggregators, make
from conal.aggregation.bayes_dawid_skene import BayesianDawidSkene
from conal.aggregation.common_confusion import CommonConfusion
from conal.aggregation.dawid_skene import DawidSkene, OneCoinDawidSkene
from conal.aggregation.glad import GLAD
from conal.aggregation.majority_vote import MajorityVote
from conal.aggregation.worker_clustering import WorkerClustering

__all__ = [
    "GLAD",
    "BayesianDawidSkene",
    "CommonConfusion",
    "DawidSkene",
    "MajorityVote",
    "OneCoinDawidSkene",
    "WorkerClustering",
    "get",
    "make",
    "names",
]

names = aggregators.names
get = aggregators.get
