"""docs/performance.md and its charts, from the results that the benchmarks stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa

import aggregation
import components
import processes
import training
from harness import FOLDER, markdown

PAGE = FOLDER.parent / "performance.md"


def main() -> None:
    """Write the page; a benchmark that has not been run yet is left out."""
    parts = ["# Performance", _introduction()]
    for name, section in (
        ("training", _training),
        ("aggregation", _aggregation),
        ("scale", _scale),
        ("processes", _processes),
        ("texts", _texts),
        ("components", _components),
    ):
        file = FOLDER / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            parts += [*section(found), _about(found)]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


def _introduction() -> str:
    return (
        "`make bench` measures everything on this page anew, in about half an hour. Peers and conal take turns in one "
        "run, each time in a fresh process on one thread; figures are CPU time of the fastest turn, and ratios are "
        "within a run, since machines differ and are shared. numba is installed, as by default; without "
        "it sparse products of SciPy take over in Dawid-Skene, two to three times slower. Training does not use it."
    )


def _components(found: dict[str, Any]) -> list[str]:
    text = (
        "conal keeps code of its own in place of PyTorch's only where it is faster: dropout by 16 random bits, Adam "
        "that touches the rows of a batch, and averages of all networks in one call."
    )
    return ["## Parts of a training step", text, components.table(found["rows"])]


def _texts(found: dict[str, Any]) -> list[str]:
    rows = [[f"{row['n']:,}", f"{row['cpu']:.1f} s", f"{row['wall']:.1f} s"] for row in found["rows"]]
    text = "The whole of `conal fit --text`, from files to model folder and report; texts of 60 words, 5 labels each."
    return ["## Texts", text, markdown(["texts", "CPU time", "wall time"], rows)]


def _training(found: dict[str, Any]) -> list[str]:
    sizes = tuple(found["sizes"])
    lines = [
        {"annotators": size, "method": name, "ratio": row["cpu"] / found["rows"][training.PLAIN]["cpu"]}
        for size in sizes
        for name in (training.CONAL, training.CROWD_LAYER, *training.PEERS)
        if (row := found["rows"].get(f"{name} {size}"))
    ]
    _save(_lines(lines, "annotators", ("ratio", "CPU time of an epoch / plain classifier's"), "method"), "training")
    text = (
        "10,000 instances of 512 features, 8 classes, 3 labels each, batches of 256. The plain classifier is a PyTorch "
        "loop over one label per instance with the same network. *Every annotator of every instance* is how published "
        "code computes the model: scores for all annotators, those without a label masked (written for this "
        "comparison). crowd-kit has layers only, so they are trained by the loop of the plain classifier; its "
        "CrowdLayer is a simpler model, an annotator's matrix and no more, and compares with our crowd layer (`dl-cl`)."
    )
    return ["## Training", text, training.table(found["rows"], sizes), "![Cost of training](performance/training.svg)"]


def _aggregation(found: dict[str, Any]) -> list[str]:
    large = found["ten_million"]
    text = (
        "The same pandas frame to labels, reading included. crowd-kit's stopping rule is switched off where iterations "
        f"are counted. Twenty iterations on ten million labels take {large['wall']:.0f} s and "
        f"{large['peak_mb'] / 1024:.1f} GB; `conal aggregate` makes labels of a CSV file of a million rows with ids of "
        f"text in {found['command_line_seconds']:.1f} s, from start to end of the process."
    )
    return ["## Aggregation", text, aggregation.table(found["rows"])]


def _scale(found: dict[str, Any]) -> list[str]:
    lines, rows = [], []
    for kind, title in (("aggregation", "Dawid-Skene, 20 iterations"), ("training", "CoNAL, an epoch")):
        part = found[kind]
        for n, row in zip(part["sizes"], part["rows"], strict=True):
            lines.append({"annotations": n, "seconds": row["cpu"], "of": title})
            rows.append([f"{title}", f"{n:,}", f"{row['cpu']:.3f}", f"{row['peak_mb']:,.0f}"])
    _save(_lines(lines, "annotations", ("seconds", "CPU seconds"), "of"), "scale")
    votes, five = found["majority vote"], found["five iterations"]
    text = (
        "1,000 annotators. The exponent of CPU time over annotations is "
        f"**{found['aggregation']['exponent']:.2f}** for aggregation and **{found['training']['exponent']:.2f}** for "
        "training (64 features): cost grows with the "
        "annotations and with nothing else."
    )
    hundred = (
        f"A hundred million annotations of twenty million tasks: majority vote {votes['wall']:.0f} s and "
        f"{votes['peak_mb'] / 1024:.1f} GB, five Dawid-Skene iterations {five['wall']:.0f} s and "
        f"{five['peak_mb'] / 1024:.1f} GB (`make bench-scale`)."
    )
    if "reading" in found:
        row = found["reading"]
        hundred += (
            " Reading as many rows of CSV with ids of text, batch by batch into 32-bit codes, takes "
            f"{row['wall']:.0f} s and {row['peak_mb'] / 1024:.1f} GB."
        )
    table = markdown(["", "annotations", "CPU seconds", "peak MB"], rows)
    return ["## Growth", text, table, "![Cost over annotations](performance/scale.svg)", hundred]


def _processes(found: dict[str, Any]) -> list[str]:
    text = (
        "What two processes on this machine send each other per iteration of Dawid-Skene or step of training, read off "
        "the loopback interface, against the [cost model](many-machines.md) (`make bench-processes`). Times are of a "
        "machine with two cores that two processes share with everything else."
    )
    return ["## Two processes", text, processes.table(found["rows"])]


def _about(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"*{found['date']}; {found['machine']}; {versions}.*"


def _lines(lines: list[dict[str, Any]], x: str, y: tuple[str, str], colour: str) -> Any:
    log = alt.Scale(type="log")
    return (
        alt.Chart(pa.Table.from_pylist(lines), width=520, height=300)
        .mark_line(point=True)
        .encode(
            alt.X(f"{x}:Q", scale=log),
            alt.Y(f"{y[0]}:Q", title=y[1], scale=log),
            alt.Color(f"{colour}:N", title=None, sort=None),
        )
    )


def _save(chart: Any, name: str) -> None:
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    chart.save(str(FOLDER / f"{name}.svg"))


if __name__ == "__main__":
    main()
