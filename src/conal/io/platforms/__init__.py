"""Exports of annotation platforms, one module each: how to recognise and read them.

Each module of this package with a class decorated with :func:`conal.io.platforms.base.register` adds a format; the
command line, the table in ``docs/files.md`` and the contract tests follow.

>>> from conal.io import platforms
>>> "label-studio" in platforms.names()
True
"""

from conal.io.platforms.base import Importer, importers

__all__ = ["Importer", "get", "names"]

names = importers.names
get = importers.get
