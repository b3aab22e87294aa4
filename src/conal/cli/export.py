"""``conal export``: a folder to one file that predicts, or combines votes, without conal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conal.cli import options
from conal.cli.inputs import check_results
from conal.cli.options import one_line

if TYPE_CHECKING:
    from conal.estimator.export import Exported


MAX_SHOWN = 10
"""Classes that are listed; all of them are in the file."""


def export(
    *,
    model: Annotated[Path, typer.Argument(help="Model folder written by conal fit, or by conal aggregate --save.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Output file: .onnx, for which conal is installed with its extra 'onnx', or .pt2, a program of "
            "torch.export. For a folder of conal aggregate --save: .json, a combiner of new votes."
        ),
    ],
    features_only: Annotated[
        bool,
        options.on_off(
            "--features-only",
            help="For a text model: export the classifier of text features, without what makes features of texts.",
        ),
    ] = False,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a trained classifier, or a combiner of votes, as one file that needs no conal.

    The file takes a batch of feature rows of any size and gives class probabilities: feature scaling and all networks
    are in it, nothing about annotators is. Its metadata name the input, the features and the classes. Before the file
    is put into place, it is run on random rows, where it must give what conal predict gives. A combiner takes the votes
    of one task, by judge, and gives a label and probabilities. See docs/exports.md.
    """
    if out.suffix.lower() == ".json":
        _export_combiner(model, out, overwrite=overwrite, quiet=quiet, as_json=as_json)
        return
    from conal.estimator import load
    from conal.estimator.export import format_of

    format_of(out, None)
    check_results(files=[out], model=model, overwrite=overwrite)
    estimator = load(model)
    done = estimator.export(out, features_only=features_only, overwrite=overwrite)
    figures = {
        "out": done.path,
        "format": done.format,
        "bytes": done.path.stat().st_size,
        **done.metadata,
        "rows_compared": done.rows,
        "largest_difference": done.largest_difference,
    }
    options.emit(figures, _text(done, estimator.classes_.tolist()), as_json=as_json, quiet=quiet)


def _export_combiner(folder: Path, out: Path, *, overwrite: bool, quiet: bool, as_json: bool) -> None:
    from conal import aggregation
    from conal._files import atomic_file
    from conal.io.model_folder import compact_json

    check_results(files=[out], model=folder, overwrite=overwrite)
    combiner = aggregation.load(folder).combiner()
    with atomic_file(out) as temporary:
        temporary.write_text(compact_json(combiner.document), encoding="utf-8")
    figures = {"out": out, "format": "combiner", "classes": combiner.classes, "judges": combiner.judges}
    text = f"combiner: {out}, of {len(combiner.judges):,} judges and {len(combiner.classes)} classes"
    options.emit(figures, text, as_json=as_json, quiet=quiet)


def _text(done: Exported, classes: list[Any]) -> str:
    facts = done.metadata
    shape = " x ".join(["batch", *map(str, facts["instance_shape"])])
    names = ", ".join(map(one_line, classes[:MAX_SHOWN]))
    names += f" and {len(classes) - MAX_SHOWN:,} more" if len(classes) > MAX_SHOWN else ""
    lines = [
        f"{done.format}: {done.path}, {done.path.stat().st_size:,} bytes",
        f"input: {facts['input']}, {facts['input_type']}, {shape}",
        f"output: {facts['output']}, float32, batch x {len(classes)}: {names}",
        f"probabilities of {done.rows} random rows differ from conal's by at most {done.largest_difference:.1g}",
    ]
    if facts["takes"] == "text features":
        lines.append("it takes features of texts, not texts: conal.load(folder).text_features_.transform(texts)")
    return "\n".join(lines)
