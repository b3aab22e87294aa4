"""``python -m torture``: run the campaign, print its counts, write a summary and a minimal case per kind of failure."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torture.intercept import build
from torture.page import write_page
from torture.tally import Tally

ROOT = Path(__file__).parents[1]
PARTS = ("signals", "fuzz", "names", "folders")


def main() -> int:
    """The exit code: 1 if anything failed."""
    options = _options()
    if options.job is not None:
        return _job(options)
    out = Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    began, when = time.monotonic(), time.strftime("%Y-%m-%d")
    memory = Path("/dev/shm")  # noqa: S108 - a faster place for folders that are made and thrown away
    with tempfile.TemporaryDirectory(prefix="torture-", dir=memory if memory.is_dir() else None) as folder:
        tally = _run_jobs(options, Path(folder).resolve())
    seconds = round(time.monotonic() - began)
    summary = {"date": when, "seconds": seconds, "seed": options.seed, "jobs": options.jobs, **tally.as_json()}
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    cases = tally.write_cases(out / "cases")
    print(_text(summary))
    print(f"summary: {out / 'summary.json'}; {len(cases)} kinds of failure" + (f": {out / 'cases'}" if cases else ""))
    if options.page:
        write_page(ROOT / "SECURITY.md", summary)
    return 1 if cases else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description="Attack conal, and count what happens.")
    parser.add_argument("--hours", type=float, default=0.0, help="time in hours")
    parser.add_argument("--minutes", type=float, default=5.0, help="time in minutes, unless --hours is given")
    parser.add_argument("--seed", type=int, default=None, help="seed; a new one every day by default")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, comma-separated")
    parser.add_argument("--out", default=str(ROOT / "torture-results"), help="folder for the summary and the cases")
    parser.add_argument("--page", action="store_true", help="write the counts into SECURITY.md")
    parser.add_argument("--job", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.seed = int(time.strftime("%Y%m%d")) if options.seed is None else options.seed
    return options


def _run_jobs(options: argparse.Namespace, folder: Path) -> Tally:
    """All jobs at once, each a process that starts with the library; what they found together."""
    library = build(folder)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "PYTHONWARNINGS": "ignore"}
    if isinstance(library, Path):
        environment["LD_PRELOAD"] = str(library)
    else:
        print(library)
    running = []
    for number in range(options.jobs):
        place = folder / str(number)
        place.mkdir()
        words = [sys.executable, "-m", "torture", "--job", str(number), "--folder", str(place)]
        words += ["--hours", str(options.hours or options.minutes / 60), "--seed", str(options.seed)]
        words += ["--parts", options.parts]
        running.append((subprocess.Popen(words, env=environment, cwd=ROOT), place / "found.json"))
    tally = Tally()
    for number, (process, found) in enumerate(running):
        code = process.wait()
        if found.exists():
            tally.merge(json.loads(found.read_text(encoding="utf-8")))
        if code:
            tally.fail(f"campaign: job {number} ends with {code}", {"part": "campaign", "job": number})
    return tally


def _job(options: argparse.Namespace) -> int:
    from torture.job import SHARES, preload, prepare, run_part

    folder, tally = Path(options.folder), Tally()
    parts = [part for part in options.parts.split(",") if part]
    turn = options.job % len(parts)
    prepare()
    preload(folder)
    for part in parts[turn:] + parts[:turn]:
        share = SHARES[part] / sum(SHARES[each] for each in parts)
        run_part(part, folder, 1000 * options.seed + options.job, 3600 * options.hours * share, tally)
        found = folder / "found.json"
        found.write_text(json.dumps(tally.as_json()), encoding="utf-8")
        print(f"job {options.job}: {part} done, {len(tally.failures)} kinds of failure so far", flush=True)
    return 0


def _text(summary: dict[str, Any]) -> str:
    lines = []
    for part, outcomes in summary["counts"].items():
        total = sum(outcomes.values())
        shown = ", ".join(f"{outcome} {number:,}" for outcome, number in sorted(outcomes.items()))
        lines.append(f"{part}: {total:,} ({shown})")
    lines += [f"{part}: skipped, {reason}" for part, reason in summary["skipped"].items()]
    lines += [f"FAILED {each['times']:,} x {each['signature']}" for each in summary["failures"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
