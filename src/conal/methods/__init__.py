"""One file per method: what it learns and its loss. The registry finds the files by itself."""

from conal.methods.base import Batch, CrowdMethod, Problem, methods, register

__all__ = ["Batch", "CrowdMethod", "Problem", "get", "names", "register"]

names = methods.names
get = methods.get
