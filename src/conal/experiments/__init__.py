"""The paper's tables and figures: experiments as data, a runner that can be interrupted, pages and charts."""

from conal.experiments.base import Experiment, experiments
from conal.experiments.runs import Run
from conal.experiments.store import Store

__all__ = ["Experiment", "Run", "Store", "get", "names"]

names = experiments.names
get = experiments.get
