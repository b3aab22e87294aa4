"""``--defend``: labels without answers that say nothing, before they are aggregated or trained on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from conal.cli.terminal import say
from conal.errors import ConalWarning

if TYPE_CHECKING:
    from conal.data.annotations import Annotations

__all__ = ["Defend", "defended_labels"]

Defend = Annotated[
    bool,
    typer.Option(
        "--defend",
        help="Leave out answers that do not depend on the task, and count copied answers once. The report without "
        "this option says whose they are.",
    ),
]


def defended_labels(crowd: Annotations, *, rings: bool = True, quiet: bool = False) -> Annotations:
    """The labels that are left; says how many are not, without names."""
    from conal.aggregation import DawidSkene
    from conal.metrics.suspicion import defended

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConalWarning)  # the user asked for another method, which has its own
        posterior = DawidSkene(verbose=False).fit(crowd).probas_
    found = defended(crowd, posterior, rings=rings)
    if not quiet:
        say(str(found), err=True)
    return found.annotations
