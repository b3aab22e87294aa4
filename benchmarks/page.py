"""docs/performance.md and its charts, from the stored results of the benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
from aggregation import LARGE
from conal import __version__
from conal.aggregation.auto import MEMBERS
from conal.training.loop import SMALL_STEP
from harness import FOLDER, markdown, stored
from studies.crowds import JUDGES

PAGE = FOLDER.parent / "performance.md"


def main() -> None:
    """Write the page and its charts; ``--print`` shows the page, ``--text`` writes the page alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    parser.add_argument("--text", action="store_true", help="write the page without its charts")
    options = parser.parse_args()
    if options.print:
        print(page(), end="")
        return
    PAGE.write_text(page(), encoding="utf-8")
    for name, chart in {} if options.text else CHARTS.items():
        if (FOLDER / f"{name}.json").exists():
            _save(chart(stored(name)), name)
    print(f"wrote {PAGE}")


def page() -> str:
    """The page; benchmarks without results are left out."""
    parts = ["# Performance", _introduction()]
    for name, section in SECTIONS.items():
        if (FOLDER / f"{name}.json").exists():
            found = stored(name)
            parts += [*section(found), _about(found)]
    return "\n\n".join(parts) + "\n"


def _introduction() -> str:
    return (
        "`make bench` repeats all measurements on this page. Other libraries and conal run alternately, each time in a "
        "new process on one thread. Figures are CPU times of the fastest repetition; ratios are within one run, "
        "because machines differ and are shared. numba is installed, as by default. Without it, Dawid-Skene uses "
        "sparse products of SciPy, which are slower. Training does not use it."
    )


def _components(found: dict[str, Any]) -> list[str]:
    text = (
        "conal keeps code of its own in place of PyTorch's only where it is faster: dropout by 16 random bits, steps "
        "of SparseAdam by rows, and averages of all networks in one call."
    )
    return ["## Parts of a training step", text, components.table(found["rows"])]


def _threads(found: dict[str, Any]) -> list[str]:
    text = (
        f"Wall time of an epoch over {threads.N:,} instances of {threads.D} features (`make bench-threads`). conal "
        f"uses several threads from {SMALL_STEP / 1e6:,.0f} million multiplications on: the weights of one network "
        "times the instances of a batch. Smaller products gain nothing, and threads that wait for each other take CPU "
        "time from others."
    )
    return ["## Threads", text, threads.table(found["rows"])]


def _texts(found: dict[str, Any]) -> list[str]:
    text = (
        f"All of `conal fit --text`, from files to model folder and report; texts of {texts.LENGTH} words, "
        f"{texts.LABELS} labels each, of which {100 * texts.RIGHT:.0f} in 100 are right."
    )
    return ["## Texts", text, texts.table(found["rows"])]


def _fit(found: dict[str, Any]) -> list[str]:
    text = (
        f"From files to a model folder: {fit.D} features, {fit.C} classes, {fit.LABELS} labels per task by {fit.R} "
        f"annotators, who all take a class for the next one in about {100 * fit.CONFUSED:.0f} % of the cases. "
        "Every fit is a new process on one thread that begins with the same files; conal trains as long as "
        "`epochs='auto'` says, and crowd-kit's layer as long as the classifier on true labels. `make bench-fit "
        "SIZES=20000,200000,1000000` chooses the sizes."
    )
    if other := fit.unlike_now(found):
        text += (
            f" The rows of {other[0]:,} tasks and more were measured before the learning rate fell with so many tasks, "
            "by which `conal` gains there ([decisions](decisions.md)); they stand until `make bench-fit` is run again."
        )
    return ["## Whole fits", text, fit.table(found["sizes"]), fit.growth(found["sizes"])]


def _training(found: dict[str, Any]) -> list[str]:
    sizes = tuple(found["sizes"])
    text = (
        f"{training.N:,} instances of {training.D} features, {training.C} classes, {training.LABELS} labels each, "
        f"batches of {training.BATCH}. The plain classifier is a PyTorch loop over one label per instance with the "
        "same network. *Every annotator of every instance* computes the model as "
        "published code does: scores for all annotators, with a mask for missing labels (written for this "
        "comparison). crowd-kit has only layers, which are trained with the loop of the plain classifier. Its "
        "CrowdLayer is a simpler model with one matrix per annotator; compare it with our crowd layer (`dl-cl`)."
    )
    return ["## Training", text, training.table(found["rows"], sizes), "![Cost of training](performance/training.svg)"]


def _training_chart(found: dict[str, Any]) -> Any:
    lines = [
        {"annotators": size, "method": name, "ratio": row["cpu"] / found["rows"][training.PLAIN]["cpu"]}
        for size in found["sizes"]
        for name in (training.CONAL, training.CROWD_LAYER, *training.PEERS)
        if (row := found["rows"].get(f"{name} {size}"))
    ]
    return _lines(lines, "annotators", ("ratio", "CPU time of an epoch / plain classifier's"), "method")


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
    real = list(found["crowds"])
    juries = [name for name in real if name in JUDGES]
    accuracy = (
        "Accuracy of the labels in percent, by the defaults and without true labels: means over "
        f"{len(real) - len(juries)} crowds of people, {len(juries)} juries of language models, all {len(real)}, and "
        f"{len(aggregators.SHARED)} simulated crowds with few labels per annotator and shared mistakes. *Behind "
        "best*: points behind the most accurate one, where it is farthest behind. With true "
        f"labels (and for `gold-majority-vote`), one in {aggregators.GOLD} was given, and the others judge. The last "
        f"column is CPU time on {LARGE['n_tasks'] * LARGE['per_task']:,} labels of {LARGE['n_workers']:,} annotators, "
        f"{LARGE['n_classes']} classes; iterative ones make ten iterations. `mmsr` is not linear, and `auto` fits "
        f"{len(MEMBERS)} others."
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
    rows = [[title, f"{n:,}", f"{row['cpu']:.3f}", f"{row['peak_mb']:,.0f}"] for title, n, row in _points(found)]
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


def _points(found: dict[str, Any]) -> list[tuple[str, int, dict[str, float]]]:
    """What was measured at which number of annotations."""
    kinds = (("aggregation", "Dawid-Skene, 20 iterations"), ("training", "CoNAL, an epoch"))
    return [
        (title, n, row)
        for kind, title in kinds
        for n, row in zip(found[kind]["sizes"], found[kind]["rows"], strict=True)
    ]


def _scale_chart(found: dict[str, Any]) -> Any:
    lines = [{"annotations": n, "seconds": row["cpu"], "of": title} for title, n, row in _points(found)]
    return _lines(lines, "annotations", ("seconds", "CPU seconds"), "of")


def _processes(found: dict[str, Any]) -> list[str]:
    text = (
        "Data that two processes on this machine send each other per iteration of Dawid-Skene or step of training, "
        "measured at the loopback interface, against the [cost "
        "model](guides/several-machines.md#communication-and-memory) (`make bench-processes`). "
        "Times are from a machine with two cores, which the two processes share with all other programs."
    )
    return ["## Two processes", text, processes.table(found["rows"])]


def _about(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    measured = found["versions"]["conal"]
    older = "" if measured == __version__ else f" Measured by conal {measured}, which is older than this version."
    return f"*{found['date']}; {found['machine']}; {versions}.{older}*"


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


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "fit": _fit,
    "training": _training,
    "aggregation": _aggregation,
    "aggregators": _aggregators,
    "scale": _scale,
    "processes": _processes,
    "texts": _texts,
    "components": _components,
    "threads": _threads,
}
"""By the names of the stored results."""
CHARTS = {"training": _training_chart, "scale": _scale_chart}


def _save(chart: Any, name: str) -> None:
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    chart.save(str(FOLDER / f"{name}.svg"))


if __name__ == "__main__":
    main()
