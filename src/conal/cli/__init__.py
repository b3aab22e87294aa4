"""The command line. Heavy imports happen inside the commands, so that ``conal --help`` is instant."""

from conal.cli.app import app, main

__all__ = ["app", "main"]
