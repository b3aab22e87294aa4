"""Run a study: ``python -m studies table-1 --methods conal,dl-cl --seeds 20``; without a name, list all."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import conal
from conal.errors import InputError
from studies import STUDIES
from studies.runs import Options, Record, Setting, run_missing, study_of
from studies.tables import Row, flat, page, read_csv, write_csv

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 if a run failed, 2 for wrong input, 130 if interrupted."""
    given = _parser().parse_args(arguments)
    if given.study is None:
        for name in STUDIES:
            print(f"{name:12} {title_of(study_of(name))}")
        return 0
    try:
        return _show(given.study, given.show) if given.show else _run(given)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; finished runs are kept: the same command continues", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("study", nargs="?", choices=STUDIES, metavar="NAME", help=f"one of {', '.join(STUDIES)}")
    parser.add_argument("--methods", type=_names, default=(), help="only these, separated by commas")
    parser.add_argument("--datasets", type=_names, default=(), help="only these, separated by commas")
    parser.add_argument("--seeds", type=_whole, help="number of seeds; by default the study's own")
    parser.add_argument("--jobs", type=_whole, default=1, help="worker processes of one thread each (default: 1)")
    parser.add_argument("--out", type=Path, help="folder for results (default: studies/results/VERSION)")
    parser.add_argument("--show", type=Path, metavar="DIR", help="run nothing, and summarise the tables of this folder")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def title_of(study: Any) -> str:
    """What a study is about: the first line of its docstring."""
    return str(study.__doc__).partition("\n")[0].rstrip(".")


def _run(given: argparse.Namespace) -> int:
    study, out = study_of(given.study), given.out or RESULTS / conal.__version__
    options = Options(given.methods, given.datasets, given.seeds)
    settings = study.runs(options)
    records, failures = _run_all(given, settings, out)
    if not failures and hasattr(study, "more"):
        settings += study.more(_tables(study, records), options)
        records, failures = _run_all(given, settings, out)
    if failures:
        count = f"{len(failures):,} of {len(settings):,} runs failed"
        print(f"{count}, so no table is written: the same command repeats only these", file=sys.stderr)
        return 1
    tables = _tables(study, records)
    for part, rows in tables.items():
        if rows:
            write_csv(rows, out / f"{part}.csv")
    summary = study.summarise(tables)
    text = page(title_of(study), provenance(records), summary)
    (out / f"{given.study}.md").write_text(text, encoding="utf-8")
    for stem, chart in summary.charts.items():
        chart.save(str(out / f"{stem}.svg"))
    print(text)
    return 0


def _run_all(given: argparse.Namespace, settings: Sequence[Setting], out: Path) -> tuple[list[Record], list[str]]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(given.study, total=len(settings))
        return run_missing(
            given.study,
            settings,
            out / f"{given.study}.jsonl",
            jobs=given.jobs,
            show=lambda done, total: progress.update(bar, completed=done, total=total),
        )


def _tables(study: Any, records: Sequence[Record]) -> dict[str, list[Row]]:
    return {part: [row for record in records for row in _rows(record, part)] for part in study.PARTS}


def _rows(record: Record, part: str) -> list[Row]:
    """The rows of a run, each with its setting; runs of other parts have none."""
    setting = {name: value for name, value in record["setting"].items() if name != "part"}
    return [flat(setting | row) for row in record["rows"]] if record["setting"]["part"] == part else []


def provenance(records: Sequence[Record]) -> str:
    """What made the runs of a page, where and when."""

    def values(name: str) -> str:
        found = Counter(str(record[name]) for record in records)
        return "; ".join(each if len(found) == 1 else f"{each} ({n:,})" for each, n in found.most_common())

    hours = sum(record["seconds"] for record in records) / 3600
    dates = sorted(record["date"][:10] for record in records) or ["-"]
    return (
        f"conal {values('version')}, commit {values('commit')}, {values('software')}, on {values('machine')}; "
        f"{len(records):,} runs, {hours:.2f} CPU hours, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."
    )


def _show(name: str, folder: Path) -> int:
    study = study_of(name)
    files = {part: folder / f"{part}.csv" for part in study.PARTS}
    tables = {part: read_csv(path) if path.is_file() else [] for part, path in files.items()}
    if not any(tables.values()):
        raise InputError(
            f"{folder}: has none of {', '.join(path.name for path in files.values())}; pass another folder"
        )
    print(page(title_of(study), f"Tables of {folder}.", study.summarise(tables)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
