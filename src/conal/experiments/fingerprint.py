"""Fingerprints of the code that a result depends on: the modules that can change it, found by their imports."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "REPORTED",
    "ROOMS",
    "SHOWING",
    "digest_of",
    "findings_roots",
    "fingerprint",
    "modules_behind",
    "uses_findings",
]

ROOMS = (
    "_support",
    "aggregation",
    "data",
    "datasets",
    "estimator",
    "methods",
    "metrics",
    "networks",
    "parameters",
    "privacy",
    "text",
    "theory",
    "training",
)
"""Packages whose code can change what a fit gives. Files, findings, reports and commands only read or show it."""
REPORTED = "findings"
"""The package that makes what reports say. It counts where that is measured."""
SHOWING = frozenset(
    f"conal.{name}"
    for name in (
        "_support.memory",
        "_support.processes",
        "_support.progress",
        "_support.registry",
        "_support.shapes",
        "_support.versions",
        "estimator.anonymity",
        "estimator.deployment",
        "estimator.exhibits",
        "estimator.export_formats",
        "estimator.folder",
        "estimator.kept_data",
        "estimator.provenance",
        "estimator.results",
        "estimator.shared",
        "estimator.sketch",
        "experiments.base",
        "experiments.comparisons",
        "experiments.fingerprint",
        "experiments.store",
    )
)
"""Modules of these packages that save or show what was computed elsewhere: they do not count unless they are roots."""
REGISTRIES = ("make", "get", "load", "names")
"""Attributes of a package by which code uses any of its modules, by a name that is not in the source."""
CHOSEN = ("conal.methods", "conal.datasets")
"""Packages of which a run uses one module that is known, and is a root."""
LENGTH = 12


def fingerprint(roots: Iterable[str], *, rooms: Iterable[str] = ROOMS) -> str:
    """A digest of these modules, and of all modules in ``rooms`` that they import, directly or not.

    Comments, docstrings and help texts do not count, nor does the order of the roots.

    >>> len(fingerprint(["conal.methods.conal"])), fingerprint(["conal.methods.conal"]) == fingerprint([])
    (12, False)
    """
    return digest_of(f"{name} {_read(name).digest}" for name in modules_behind(roots, rooms=rooms))


def digest_of(parts: Iterable[str]) -> str:
    """A short digest of texts, whatever their order.

    >>> digest_of(["b", "a"]) == digest_of(["a", "b"])
    True
    """
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:LENGTH]


def modules_behind(roots: Iterable[str], *, rooms: Iterable[str] = ROOMS) -> frozenset[str]:
    """These modules, and the modules in ``rooms`` that they import, directly or not, but for :data:`SHOWING`.

    >>> "conal.networks.dropout" in modules_behind(["conal.networks.backbones"])
    True
    """
    allowed = tuple(f"conal.{room}." for room in rooms)
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [each for each in _read(name).imports if each.startswith(allowed) and each not in SHOWING]
    return frozenset(found)


def uses_findings(name: str) -> bool:
    """Whether a module asks for what reports say."""
    return any(each.startswith(f"conal.{REPORTED}.") for each in _read(name).imports)


def findings_roots() -> list[str]:
    """Modules that make what reports say: findings are registered by name, so each of them counts."""
    return ["conal.estimator.results", *_members_by_name(f"conal.{REPORTED}").values()]


class Source(NamedTuple):
    """What counts of a module: a digest of its code, and the modules that it imports."""

    digest: str
    imports: frozenset[str]


@cache
def _read(name: str) -> Source:
    tree = ast.parse(_file(name).read_bytes())
    imports = frozenset(_imports(tree))
    code = ast.dump(_Bare().visit(tree))
    return Source(hashlib.sha256(code.encode()).hexdigest(), imports)


def _file(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source of {name}")
    return Path(spec.origin)


class _Bare(ast.NodeTransformer):
    """Code without what cannot change a result: docstrings, help texts, and imports for types only."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        body = getattr(node, "body", None)
        if isinstance(body, list):  # that of a lambda is an expression
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
        return super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.keywords = [each for each in node.keywords if each.arg != "help"]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if _for_types(node) else self.generic_visit(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


# ---------------------------------------------------------------- imports


def _imports(tree: ast.Module) -> Iterator[str]:
    """Modules of conal that a module imports anywhere; of a package, those that the imported names come from."""
    packages: dict[str, str] = {}
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("conal."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "conal":
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                if _is_package(inner):
                    packages[each.asname or each.name] = inner
                else:
                    yield from _origin(str(node.module), each.name)
    for node in _nodes(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            yield from _origin(packages[node.value.id], node.attr)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not _for_types(child):
            yield from _nodes(child)


def _origin(module: str, name: str) -> Iterator[str]:
    """The modules that a name of a module or package comes from; all modules of a package if it is a registry's."""
    if not _is_package(module):
        yield module
    elif name in REGISTRIES:
        yield from () if module in CHOSEN else _members_by_name(module).values()
    elif name in _members_by_name(module):
        yield _members_by_name(module)[name]
    else:
        yield from _exported(module).get(name, ())


@cache
def _is_package(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a name of a module that is no package
        return False
    return spec is not None and spec.submodule_search_locations is not None


@cache
def _members_by_name(package: str) -> dict[str, str]:
    return {path.stem: f"{package}.{path.stem}" for path in sorted(_file(package).parent.glob("[!_]*.py"))}


@cache
def _exported(package: str) -> dict[str, tuple[str, ...]]:
    """The names that a package takes from its modules, and those modules."""
    tree = ast.parse(_file(package).read_bytes())
    return {
        each.asname or each.name: tuple(_origin(str(node.module), each.name))
        for node in _nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for each in node.names
    }
