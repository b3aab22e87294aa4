"""docs/performance.md and its charts, from the stored results of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa

import aggregation
import aggregators
import components
import fit
import processes
import texts
import threads
import training
from conal.training.threads import SMALL_STEP
from harness import FOLDER, markdown, stored

PAGE = FOLDER.parent / "performance.md"


def main() -> None:
    """Write the page; benchmarks without results are left out."""
    parts = ["# Performance", _introduction()]
    for name, section in (
        ("fit", _fit),
        ("training", _training),
        ("aggregation", _aggregation),
        ("aggregators", _aggregators),
        ("scale", _scale),
        ("processes", _processes),
        ("texts", _texts),
        ("components", _components),
        ("threads", _threads),
    ):
        file = FOLDER / f"{name}.json"
        if file.exists():
            found = stored(name)
            parts += [*section(found), _about(found)]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


def _introduction() -> str:
    return (
        "`make bench` repeats all measurements on this page, in about half an hour. Other libraries and conal run "
        "alternately, each time in a new process on one thread. Figures are CPU times of the fastest repetition; "
        "ratios are within one run, because machines differ and are shared. numba is installed, as by default. Without "
        "it, Dawid-Skene uses sparse products of SciPy, which are two to three times slower. Training does not use it."
    )


def _components(found: dict[str, Any]) -> list[str]:
    text = (
        "conal keeps code of its own in place of PyTorch's only where it is faster: dropout by 16 random bits, Adam "
        "that touches the rows of a batch, and averages of all networks in one call."
    )
    return ["## Parts of a training step", text, components.table(found["rows"])]


def _threads(found: dict[str, Any]) -> list[str]:
    text = (
        "Wall time of an epoch over 4,096 instances of 384 features (`make bench-threads`). conal uses several threads "
        f"from {SMALL_STEP / 1e6:,.0f} million multiplications on: the weights of one network times the instances of a "
        "batch. Smaller products gain nothing, and threads that wait for each other take CPU time from others."
    )
    return ["## Threads", text, threads.table(found["rows"])]


def _texts(found: dict[str, Any]) -> list[str]:
    text = (
        "All of `conal fit --text`, from files to model folder and report; texts of 60 words, 3 labels each, of which "
        "78 in 100 are right."
    )
    return ["## Texts", text, texts.table(found["rows"])]


def _fit(found: dict[str, Any]) -> list[str]:
    text = (
        "From files to a model folder: 384 features, 5 classes, 3 labels per task by 100 annotators, who all take a "
        "class for the next one in four cases of ten. Every fit is a new process on one thread that begins with the "
        "same files; conal trains as long as `epochs='auto'` says, and crowd-kit's layer as long as the classifier on "
        "true labels. `make bench-fit SIZES=20000,200000,1000000` chooses the sizes."
    )
    text += (
        " The rows of 200,000 tasks and more were measured before the learning rate fell from 50,000 on, by which "
        "`conal` gains there ([decisions](decisions.md)); they stand until `make bench-fit` is run again."
    )
    return ["## Whole fits", text, fit.table(found["sizes"]), fit.growth(found["sizes"])]


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
        "loop over one label per instance with the same network. *Every annotator of every instance* computes the "
        "model as published code does: scores for all annotators, with a mask for missing labels (written for this "
        "comparison). crowd-kit has only layers, which are trained with the loop of the plain classifier. Its "
        "CrowdLayer is a simpler model with one matrix per annotator; compare it with our crowd layer (`dl-cl`)."
    )
    return ["## Training", text, training.table(found["rows"], sizes), "![Cost of training](performance/training.svg)"]


def _aggregation(found: dict[str, Any]) -> list[str]:
    large = found["ten_million"]
    text = (
        "From the same pandas frame to labels, including reading. crowd-kit's stopping rule is off if the number of "
        f"iterations is fixed. Twenty iterations on ten million labels take {large['wall']:.0f} s and "
        f"{large['peak_mb'] / 1024:.1f} GB; `conal aggregate` takes {found['command_line_seconds']:.1f} s for a CSV "
        "file of a million rows with text ids, including the start of the process."
    )
    return ["## Aggregation", text, aggregation.table(found["rows"])]


def _aggregators(found: dict[str, Any]) -> list[str]:
    accuracy = (
        "Accuracy of the labels in percent, by the defaults and without true labels: means over five crowds of people, "
        "eight juries of language models, all thirteen, and twelve simulated crowds with few labels per annotator and "
        "shared mistakes. *Behind best*: points behind the most accurate one, where it is farthest behind. With true "
        "labels (and for `gold-majority-vote`), a fifth of them was given, and the others judge. The last column is "
        "CPU time on a million labels of 1,000 annotators, ten classes; iterative ones make ten iterations. `mmsr` is "
        "not linear, and `auto` fits four others."
    )
    exponents = [row["exponent"] for row in found["million"].values()]
    if exponents:
        accuracy += f" From a hundred thousand labels on it grows with an exponent of at most {max(exponents):.2f}."
    beside = (
        "Beside crowd-kit, in the same run, with the same settings where there are such and without the guard "
        '(`guard="off"`): CPU time for all crowds that crowd-kit takes, and how many labels are equal. `wawa`, '
        "`zero-based-skill` and `gold-majority-vote` fail in crowd-kit with a current scikit-learn; its weights and "
        "its weighted vote run."
    )
    tables = (aggregators.summary(found), aggregators.by_crowd(found), aggregators.peers(found))
    note = [found["note"]] if "note" in found else []
    return ["## Every aggregator", *note, accuracy, tables[0], tables[1], beside, tables[2]]


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
        "training (64 features): cost scales with the number of annotations."
    )
    hundred = (
        f"A hundred million annotations of twenty million tasks: majority vote {votes['wall']:.0f} s and "
        f"{votes['peak_mb'] / 1024:.1f} GB, five Dawid-Skene iterations {five['wall']:.0f} s and "
        f"{five['peak_mb'] / 1024:.1f} GB (`make bench-scale`)."
    )
    if "reading" in found:
        row = found["reading"]
        hundred += (
            " Reading the same number of CSV rows with text ids, batch by batch into 32-bit codes, takes "
            f"{row['wall']:.0f} s and {row['peak_mb'] / 1024:.1f} GB."
        )
    table = markdown(["", "annotations", "CPU seconds", "peak MB"], rows)
    return ["## Growth", text, table, "![Cost over annotations](performance/scale.svg)", hundred]


def _processes(found: dict[str, Any]) -> list[str]:
    text = (
        "Data that two processes on this machine send each other per iteration of Dawid-Skene or step of training, "
        "measured at the loopback interface, against the [cost model](many-machines.md) (`make bench-processes`). "
        "Times are from a machine with two cores, which the two processes share with all other programs."
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
