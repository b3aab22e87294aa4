"""E-steps: by sparse products for every model, by a compiled pass for models of a confusion matrix per annotator."""

from conal.aggregation.engines.base import Engine, Expectation, Sums
from conal.aggregation.engines.compiled import CompiledEngine
from conal.aggregation.engines.sparse import SparseEngine

__all__ = ["CompiledEngine", "Engine", "Expectation", "SparseEngine", "Sums"]
