"""Error messages of the golden set: what a command says about a bad file or a bad option."""

from __future__ import annotations

import io
import re
import shlex
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from conal.cli import main

__all__ = ["CASES", "say_error"]

LABELS = "task,worker,label\n1,a,cat\n1,b,dog\n2,a,cat\n2,b,cat\n3,a,dog\n3,b,dog\n"
FEATURES = "task,x,y\n1,0.5,1\n2,1.5,0\n3,2.5,1\n"
LISTS = re.compile(r"( Known:| \(Possible options:|; set it with --set format=NAME:| use \.).*")
"""Lists of names at the end of a message, which grow with every method, format or option."""
Files = dict[str, str]
CASES: dict[str, tuple[str, Files]] = {
    # files
    "missing-file": ("conal inspect nothing.csv", {}),
    "empty-file": ("conal inspect e.csv", {"e.csv": ""}),
    "header-only": ("conal inspect e.csv", {"e.csv": "task,worker,label\n"}),
    "folder": ("conal inspect .", {}),
    "unknown-suffix": ("conal inspect l.docx", {"l.docx": "x"}),
    "not-parquet": ("conal inspect l.parquet", {"l.parquet": "x"}),
    "not-json": ("conal aggregate l.jsonl --out o.csv", {"l.jsonl": "{\n"}),
    "json-list": ("conal aggregate l.jsonl --out o.csv", {"l.jsonl": "[1, 2]\n"}),
    "not-xlsx": ("conal inspect l.xlsx", {"l.xlsx": "x"}),
    "open-quote": ("conal aggregate l.csv --out o.csv", {"l.csv": LABELS + '4,a,"cat\n'}),
    "duplicate-column": ("conal inspect l.csv", {"l.csv": "task,worker,label,label\n1,a,x,y\n"}),
    "no-worker": ("conal inspect l.csv", {"l.csv": "task,label\n1,x\n2,y\n"}),
    "unknown-column": ("conal inspect l.csv --label-column verdict", {"l.csv": LABELS}),
    "two-answers": ("conal aggregate l.csv --out o.csv", {"l.csv": LABELS + "1,a,dog\n"}),
    "one-class": ("conal aggregate l.csv --out o.csv", {"l.csv": "task,worker,label\n1,a,x\n2,a,x\n"}),
    "no-labels": ("conal aggregate l.csv --out o.csv", {"l.csv": "task,worker,label\n1,a,\n2,a,\n"}),
    "wrong-format": ("conal inspect l.csv --set format=label-studio", {"l.csv": LABELS}),
    "unknown-format": ("conal inspect l.csv --set format=nothing", {"l.csv": LABELS}),
    # outputs
    "output-exists": ("conal aggregate l.csv --out l.csv", {"l.csv": LABELS}),
    "output-suffix": ("conal aggregate l.csv --out o.docx", {"l.csv": LABELS}),
    "overwrite-foreign-folder": (
        "conal fit l.csv --features f.csv --out m --overwrite",
        {"l.csv": LABELS, "f.csv": FEATURES, "m/mine.txt": "x"},
    ),
    # options
    "unknown-command": ("conal train", {}),
    "unknown-option": ("conal aggregate l.csv --fast", {"l.csv": LABELS}),
    "unknown-method": ("conal fit l.csv --features f.csv --out m --method best", {"l.csv": LABELS, "f.csv": FEATURES}),
    "unknown-aggregator": ("conal aggregate l.csv --out o.csv --method best", {"l.csv": LABELS}),
    "unknown-setting": ("conal aggregate l.csv --out o.csv --set speed=1", {"l.csv": LABELS}),
    "bad-setting": ("conal aggregate l.csv --out o.csv --set n_iter=-1", {"l.csv": LABELS}),
    "malformed-setting": ("conal aggregate l.csv --out o.csv --set n_iter", {"l.csv": LABELS}),
    "negative-lr": ("conal fit l.csv --features f.csv --out m --set lr=-1", {"l.csv": LABELS, "f.csv": FEATURES}),
    "word-lr": ("conal fit l.csv --features f.csv --out m --set lr=fast", {"l.csv": LABELS, "f.csv": FEATURES}),
    "zero-epochs": ("conal fit l.csv --features f.csv --out m --epochs 0", {"l.csv": LABELS, "f.csv": FEATURES}),
    "bad-dropout": ("conal fit l.csv --features f.csv --out m --set dropout=1.5", {"l.csv": LABELS, "f.csv": FEATURES}),
    "bad-hidden": ("conal fit l.csv --features f.csv --out m --set hidden=0", {"l.csv": LABELS, "f.csv": FEATURES}),
    "bad-seed": ("conal fit l.csv --features f.csv --out m --seed -1", {"l.csv": LABELS, "f.csv": FEATURES}),
    "bad-scaling": ("conal fit l.csv --features f.csv --out m --set scaling=big", {"l.csv": LABELS, "f.csv": FEATURES}),
    "bad-holdout": ("conal fit l.csv --features f.csv --out m --set holdout=2", {"l.csv": LABELS, "f.csv": FEATURES}),
    "no-features": ("conal fit l.csv --out m", {"l.csv": LABELS}),
    "bad-epsilon": ("conal aggregate l.csv --out o.csv --private 0", {"l.csv": LABELS}),
    "bad-budget": ("conal plan m --out o.csv --budget 0", {"l.csv": LABELS}),
    # features
    "missing-features": ("conal fit l.csv --features f.csv --out m", {"l.csv": LABELS}),
    "text-in-features": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": FEATURES.replace("2.5", "big")},
    ),
    "hole-in-features": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": FEATURES.replace("2.5", "")},
    ),
    "infinite-feature": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": FEATURES.replace("2.5", "inf")},
    ),
    "decimal-comma": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": 'task,x\n1,"0,5"\n2,"1,5"\n3,"2,5"\n'},
    ),
    "task-without-features": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": "task,x\n1,0.5\n2,1.5\n"},
    ),
    "same-task-twice": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": FEATURES + "1,0,0\n"},
    ),
    "no-such-tasks": (
        "conal fit l.csv --features f.csv --out m",
        {"l.csv": LABELS, "f.csv": "task,x\nu,0.5\nv,1.5\nw,2\n"},
    ),
    "not-npy": ("conal fit l.csv --features f.npy --out m", {"l.csv": LABELS, "f.npy": "x"}),
    # true labels
    "unknown-true-class": (
        "conal aggregate l.csv --out o.csv --true-labels g.csv",
        {"l.csv": LABELS, "g.csv": "task,label\n1,fish\n"},
    ),
    "unknown-true-task": (
        "conal aggregate l.csv --out o.csv --true-labels g.csv",
        {"l.csv": LABELS, "g.csv": "task,label\n9,cat\n"},
    ),
    "two-true-labels": (
        "conal aggregate l.csv --out o.csv --true-labels g.csv",
        {"l.csv": LABELS, "g.csv": "task,label\n1,cat\n1,dog\n"},
    ),
    "missing-true-labels": ("conal aggregate l.csv --out o.csv --true-labels g.csv", {"l.csv": LABELS}),
    # model folders
    "no-model": ("conal predict m f.csv --out p.csv", {"f.csv": FEATURES}),
    "empty-model": ("conal predict m f.csv --out p.csv", {"f.csv": FEATURES, "m/config.json": "{}"}),
    "damaged-model": ("conal predict m f.csv --out p.csv", {"f.csv": FEATURES, "m/config.json": "{"}),
    "report-of-nothing": ("conal report m", {"m/x.txt": ""}),
    "update-of-nothing": ("conal update m l.csv", {"l.csv": LABELS}),
    "export-of-nothing": ("conal export m --out m.onnx", {}),
    "plan-of-nothing": ("conal plan m --budget 5 --out p.csv", {}),
    # generator
    "bad-proportion": ("conal simulate --out s --set proportion=2", {}),
    "one-simulated-class": ("conal simulate --out s --set n_classes=1", {}),
}


def say_error(line: str, files: Files) -> str:
    """The exit code of a command and what it prints on standard error, run in the current folder."""
    for name, text in files.items():
        place = Path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    printed, code = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), "0"
    with (
        warnings.catch_warnings(),
        mock.patch.object(warnings, "showwarning"),
        mock.patch.object(sys, "argv", shlex.split(line)),
        redirect_stderr(printed),
        redirect_stdout(io.StringIO()),
    ):
        try:
            main()
        except SystemExit as ended:
            code = str(ended.code)
    printed.seek(0)
    text = " ".join(printed.read().split())
    return f"{code} {LISTS.sub('', text)}"
