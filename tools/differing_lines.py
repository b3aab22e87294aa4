"""Statements that only one of two versions of a module has, by line, whatever the layout and the comments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from copy import copy
from difflib import SequenceMatcher
from typing import NamedTuple

__all__ = ["Difference", "difference", "statements"]

BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


class Statement(NamedTuple):
    """A statement without the blocks below it: where it stands, what it says, and on which lines."""

    place: tuple[str, ...]
    text: str
    lines: range
    node: ast.AST

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """Equal for the same statement in two versions."""
        return self.place, self.text


class Difference(NamedTuple):
    """Lines that only one of two versions has, and what cannot be judged by watching whether they are executed."""

    old: list[int]
    new: list[int]
    refused: list[str]


def difference(old: str, new: str) -> Difference:
    """Compare two versions of a module.

    What stands outside of functions is executed at import and used by lines that are the same in both versions.
    So names may be added or removed there, and not changed.

    >>> difference("def f(x):\\n    return x", "K = 1\\ndef f(x):\\n    if not x:\\n        x = K\\n    return x")
    Difference(old=[], new=[1, 3, 4], refused=[])
    >>> difference("K = 1", "K = 2").refused
    ["'K = 1' is now 'K = 2'"]
    """
    before, after = statements(old), statements(new)
    matcher = SequenceMatcher(None, [each.key for each in before], [each.key for each in after], autojunk=False)
    changes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    removed = [each for _, low, high, _, _ in changes for each in before[low:high]]
    added = [each for _, _, _, low, high in changes for each in after[low:high]]
    return Difference(_lines(removed), _lines(added), list(_refused(before, removed, added)))


def statements(source: str) -> list[Statement]:
    """All statements of a module in order, but for docstrings.

    >>> [(each.place, each.text) for each in statements("def f(x):\\n    'Doc.'\\n    return x")]
    [((), 'def f(x):'), (('FunctionDef f', 'body'), 'return x')]
    """
    return list(_statements(ast.parse(source).body, ()))


def _statements(block: Iterable[ast.AST], place: tuple[str, ...]) -> Iterator[Statement]:
    for node in block:
        if _is_text(node):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):  # each name by itself, so that names can be added
            yield from (Statement(place, _header(each), _span(node, {}), each) for each in _imports(node))
            continue
        below = {name: getattr(node, name) for name in BLOCKS if isinstance(getattr(node, name, None), list)}
        yield Statement(place, _header(node), _span(node, below), node)
        for name, inner in below.items():
            yield from _statements(inner, (*place, f"{type(node).__name__} {getattr(node, 'name', '')}".strip(), name))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[ast.AST]:
    for name in node.names:
        single = copy(node)
        single.names = [name]
        yield single


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _header(node: ast.AST) -> str:
    """The source of a statement in one spelling, without its blocks."""
    bare = copy(node)
    for name in BLOCKS:
        if isinstance(getattr(node, name, None), list):
            setattr(bare, name, [])
    return ast.unparse(bare).strip()


def _span(node: ast.AST, below: dict[str, list[ast.AST]]) -> range:
    """From the first decorator to the end, or to the first block."""
    first = min([_line(node), *(_line(each) for each in getattr(node, "decorator_list", ()))])
    blocks = [_line(inner[0]) for inner in below.values() if inner]
    end = min(blocks) - 1 if blocks else getattr(node, "end_lineno", first)
    return range(first, max(first, end) + 1)


def _line(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):  # which has no line of its own
        node = node.pattern
    return int(getattr(node, "lineno", 0))


def _lines(found: Iterable[Statement]) -> list[int]:
    return sorted({line for each in found for line in each.lines})


# ---------------------------------------------------------------- what is executed at import


def _refused(before: list[Statement], removed: list[Statement], added: list[Statement]) -> Iterator[str]:
    """Statements outside of functions that give a name another value, or do something else."""
    bound = {(each.place, name): each.text for each in before if _at_import(each) for name in _names(each.node) or ()}
    for each in filter(_at_import, [*removed, *added]):
        if _names(each.node) is None:
            yield f"{each.text!r} is executed at import, in one version only"
    for each in filter(_at_import, added):
        for name in _names(each.node) or ():
            if (each.place, name) in bound and name != "__all__":
                yield f"{bound[each.place, name]!r} is now {each.text!r}"


def _at_import(each: Statement) -> bool:
    """Whether a statement is executed at import, and is no definition, of which a call tells."""
    inside = any(part.startswith(("FunctionDef", "AsyncFunctionDef")) for part in each.place)
    return not inside and not isinstance(each.node, ast.FunctionDef | ast.AsyncFunctionDef)


def _names(node: ast.AST) -> list[str] | None:
    """The names that a statement binds; None if it does something else."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [each.asname or each.name for each in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if isinstance(node, ast.Assign | ast.AnnAssign) and all(isinstance(each, ast.Name) for each in targets):
        return [each.id for each in targets if isinstance(each, ast.Name)]
    return [node.name] if isinstance(node, ast.ClassDef) else None
