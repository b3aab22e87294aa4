"""``conal rank``: pairwise preferences in, a ranking of the items out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli import options
from conal.cli.inputs import check_results
from conal.errors import InputError

if TYPE_CHECKING:
    from conal.aggregation.pairwise import BradleyTerry

NAMES = "shared-bias, annotator-bias, bradley-terry"
"""Names for the help, which imports no model; a test compares them with the models."""
ROWS_SHOWN = 10

Covariate = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Column of numbers that may favour the left item if positive, such as a difference of lengths; or NAME of "
        "the columns left_NAME and right_NAME, for their difference. Can be repeated.",
    ),
]


def rank(
    *,
    pairs: Annotated[
        Path,
        typer.Argument(
            help="Table with a row per comparison: worker, left, right, winner (an item, or left, right, tie) and, if "
            "several rows belong together, task."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output table of items: part, rank, score, interval.")],
    method: Annotated[str, typer.Option(help=f"Model: {NAMES}.")] = "shared-bias",
    covariate: Covariate = None,
    true_winners: Annotated[
        Path | None, typer.Option(help="Table of the same form with true winners of some comparisons.")
    ] = None,
    annotators: Annotated[
        Path | None, typer.Option(help="Output table of annotators: reliability, position bias, share of ties.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the model, such as confidence=0.9."),
    ] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank items by pairwise preferences, with intervals, apart from biases that annotators share.

    Items that no comparisons link are ranked in parts of their own. p_above_next is the probability that an item is
    better than the next one.
    """
    from conal.data.preferences import Preferences
    from conal.io.tables import write_tables

    model = _model(method, options.remaining(options.parse_settings(settings)))
    if covariate and not model.shared:
        raise InputError(f"--covariate does not apply to {method}; use --method shared-bias")
    check_results(tables=[out, annotators], sources=[pairs, true_winners], overwrite=overwrite)
    known = None if true_winners is None else Preferences.read(true_winners)
    model.fit(Preferences.read(pairs, covariates=covariate or ()), known)
    ranking, shared = model.ranking(), model.shared_biases()
    write_tables({out: ranking} | ({} if annotators is None else {annotators: model.annotators()}))
    crowd = model.preferences_
    result: dict[str, Any] = {"out": out, "annotators": annotators, "method": method, "n_comparisons": len(crowd)}
    result |= {"n_items": len(crowd.item_ids), "n_annotators": len(crowd.annotator_ids)}
    result |= {"n_parts": int(model.parts_.max()) + 1, "converged": model.converged_, "n_iter": model.n_iter_}
    result |= {"shared_biases": shared.to_pylist(), "ranking": ranking.to_pylist()}
    lines = _lines(result) if not as_json else []
    options.emit(result, "\n".join(lines), as_json=as_json, quiet=quiet)


def _model(method: str, given: dict[str, Any]) -> BradleyTerry:
    """The model with these parameters."""
    from conal.aggregation.pairwise import MODELS
    from conal.parameters import check_parameters, parameters_of

    if method not in MODELS:
        raise InputError(f"--method {method}: there is no such model; use {NAMES}")
    unknown = [name for name in given if name not in parameters_of(MODELS[method])]
    if unknown:
        raise InputError(f"--set {unknown[0]}: there is no such parameter; {', '.join(parameters_of(MODELS[method]))}")
    model = MODELS[method](**given)
    check_parameters(model)
    return model


def _lines(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    counts = f"{result['n_comparisons']:,} comparisons of {result['n_items']:,} items"
    lines = [f"{result['method']}: {counts} by {result['n_annotators']:,} annotators"]
    lines += [f"shared {row['bias']}: {_interval(row, 'value')} log-odds" for row in result["shared_biases"]]
    for row in result["ranking"][:ROWS_SHOWN]:
        part = f"part {row['part']}, " if result["n_parts"] > 1 else ""
        lines.append(f"{part}{row['rank']}. {row['item']}: {_interval(row, 'score')}")
    more = result["n_items"] - ROWS_SHOWN
    lines += [f"and {more:,} items more"] if more > 0 else []
    places = {"ranking": result["out"], "annotators": result["annotators"]}
    return [options.one_line(line) for line in lines + [f"{key}: {place}" for key, place in places.items() if place]]


def _interval(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
