"""Tampered model folders: refused or harmless, and nothing outside of the folder is read or written."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import note

import conal
from conal import aggregation
from conal.errors import ConalError
from conal.report.page import write_report
from fuzz.breaking import break_json
from fuzz.odd import odd_name
from helpers.folders import flip_bit, sign

__all__ = ["Models", "check_folder", "make_models", "tamper"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SIZES = [10**9, 200_000_000, 2**31, 2**63, 0, -1, 10**30, 1.5, "3", None, [200_000_000], [10**6, 10**6], True]
PATHS = ["../secret/labels.csv", "../secret", "/etc/passwd", "..", ".", "", "a/b.csv", "labels.csv\x00", "LABELS.CSV"]
LINKS = ["../secret/{}", "../secret/passwd", "../secret", "/etc/passwd", "{}", "/dev/zero", "."]
CELLS = ["", "nan", "inf", "-1", "x", "1e400", '"', "0.5", "99999999999999999999"]
HEADERS: dict[str, list[Any]] = {
    "shape": [[10**12], [2**40, 2**40], [], [0], [-1], [1, 1]],
    "dtype": ["F64", "I64", "BOOL", "F16", "X"],
    "data_offsets": [[0, 10**12], [8, 4], [0, 0], [0, 4]],
}


class Models(NamedTuple):
    """Model folders as they were saved, what they say, and files outside that nobody may touch."""

    place: Path
    expected: dict[str, str]
    x: Any
    texts: list[str]
    more: conal.Annotations


def make_models(place: Path) -> Models:
    """A network, an ensemble, a model of texts, and an aggregator."""
    data, more = (
        conal.datasets.synthetic(n_train=24, n_valid=0, n_test=0, n_classes=3, n_annotators=4, seed=seed)
        for seed in (0, 9)
    )
    texts = [f"word{task % 3} thing{task % 5} of number {task}" for task in range(24)]
    fast: dict[str, Any] = {"epochs": 1, "verbose": False}
    conal.make("conal", **fast).fit(data.x, data.annotations).save(place / "plain")
    conal.make("dl-mv", ensemble=2, **fast).fit(data.x, data.annotations).save(place / "ensemble")
    conal.make("conal", text_components=4, **fast).fit(texts, data.annotations).save(place / "text")
    aggregation.make("dawid-skene").fit(data.annotations).save(place / "crowd")
    secret = Path(shutil.copytree(place / "plain", place / "secret"))
    for path in secret.iterdir():
        path.write_bytes(path.read_bytes().replace(b"0", b"1"))
    (secret / "passwd").write_text("root:x:0:0\n", encoding="utf-8")
    models = Models(place, {}, data.x, texts, more.annotations)
    models.expected.update({name: _fingerprint(models, name, place / name) for name in MODELS})
    return models


MODELS = ("plain", "ensemble", "text", "crowd")


def check_folder(rng: random.Random, models: Models) -> str:
    """One or two changes to a folder, with or without new digests: "refused", "harmless" or "accepted"."""
    name, signed = rng.choice(MODELS), rng.random() < 0.6
    folder = models.place / "tampered"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(models.place / name, folder)
    changes = [tamper(folder, rng) for _ in range(rng.choice([1, 1, 2]))]
    if signed:
        _sign(folder)
    note(str([name, changes, "signed" if signed else "", folder]))
    secret, beside = _unread(models.place / "secret"), sorted(os.listdir(models.place))
    outcome = _use(models, name, folder, rng)
    assert outcome != "accepted" or signed, "another model, unnoticed"
    assert sorted(os.listdir(models.place)) == beside, "something is written beside the folder"
    states = {path: (path.stat(), path.read_bytes()) for path in secret}
    for path, (now, content) in states.items():
        assert content == secret[path], f"{path} is written"
        assert now.st_atime == 0 or outcome == "refused", f"{path} is read and accepted"
    return outcome


def _unread(secret: Path) -> dict[Path, bytes]:
    """The files and their content; their time of access is set back, so that reading one shows on most disks."""
    found = {path: path.read_bytes() for path in secret.iterdir()}
    for path in found:
        os.utime(path, (0, path.stat().st_mtime))
    return found


def _use(models: Models, name: str, folder: Path, rng: random.Random) -> str:
    """Load a folder; then draw its report, add labels to it, or replace it."""
    try:
        outcome = "harmless" if _fingerprint(models, name, folder) == models.expected[name] else "accepted"
    except ConalError:
        outcome = "refused"
    then = rng.choice(["report", "replace", "nothing"])
    try:
        if then == "replace" and name == "crowd":
            aggregation.load(models.place / "crowd").save(folder, overwrite=True)
        elif then == "replace":
            conal.load(models.place / "plain").save(folder, overwrite=True)
        elif then == "report" and name == "crowd":
            model = aggregation.load(folder)
            model.update(models.more)
            model.save(folder, overwrite=True)
        elif then == "report":
            write_report(folder)
    except ConalError:
        pass
    return outcome


def _fingerprint(models: Models, name: str, folder: Path) -> str:
    """Everything that a loaded model says."""
    model: Any = aggregation.load(folder) if name == "crowd" else conal.load(folder)
    told: list[Any] = [each.tolist() for each in (model.classes_, model.annotator_ids_, model.task_ids_, model.labels_)]
    if name == "crowd":
        crowd = model.annotations_
        told += [each.tolist() for each in (model.probas_, model.confusion_, model.skills_, crowd.tasks, crowd.labels)]
    else:
        told += [{name: table.to_pydict() for name, table in model.tables_.items()}, model.metrics_]
        told += [model.results_.report, model.predict_proba(models.texts if name == "text" else models.x).tolist()]
    text = json.dumps(told, default=str, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _sign(folder: Path) -> None:
    """Make all digests anew, as anybody can: they protect from accidents, not from people."""
    if not (folder / CONFIG).is_symlink():
        try:
            sign(folder)
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):
            return


# ---------------------------------------------------------------- what an attacker, or a bad disk, can do


def tamper(folder: Path, rng: random.Random) -> str:
    """Change one file of a folder; what was changed."""
    files = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    how, name = rng.choice(CHANGES), rng.choice(files)
    try:
        return f"{how.__name__} {how(folder, name, rng) or name}"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        return "nothing"  # because of the change before


def _flip(folder: Path, name: str, rng: random.Random) -> None:
    flip_bit(folder / name, rng.randrange((folder / name).stat().st_size), rng.randrange(8))


def _cut(folder: Path, name: str, rng: random.Random) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes((data * 2)[: int(rng.choice([0, 0.5, rng.random(), 2]) * len(data))])


def _exchange(folder: Path, name: str, rng: random.Random) -> None:
    other = rng.choice(sorted(path.name for path in folder.iterdir()))
    (folder / name).rename(folder / "aside")
    (folder / other).rename(folder / name)
    (folder / "aside").rename(folder / other)


def _remove(folder: Path, name: str, rng: random.Random) -> None:
    (folder / name).unlink()
    if rng.random() < 0.3:
        (folder / name).mkdir()


def _link(folder: Path, name: str, rng: random.Random) -> str:
    name = rng.choice([name, name, "report.html"])
    (folder / name).unlink(missing_ok=True)
    target = rng.choice(LINKS).format(name)
    (folder / name).symlink_to(target)
    return f"{name} to {target}"


def _edit(folder: Path, name: str, rng: random.Random) -> str:
    name = rng.choice(sorted(path.name for path in folder.glob("*.json") if not path.is_symlink()))
    _write(folder / name, break_json(_read(folder / name), rng))
    return name


def _parameter(folder: Path, name: str, rng: random.Random) -> str:
    """A value of the configuration that says how much to allocate, or how often to loop."""
    config = _read(folder / CONFIG)
    names = ["instance_shape", "n_tasks_trained_on", "classes", "annotator_ids", "feature_names"]
    if rng.random() < 0.7:
        name = rng.choice([*config["parameters"], *["hidden", "ensemble", "epochs", "batch_size"] * 3])
        config["parameters"][name] = rng.choice(SIZES)
    else:
        name = rng.choice(names)
        config[name] = rng.choice([*SIZES, [odd_name(rng) for _ in range(3)], list(range(300))])
    _write(folder / CONFIG, config)
    return name


def _listed(folder: Path, name: str, rng: random.Random) -> str:
    """A file name of the configuration that points elsewhere."""
    config, path = _read(folder / CONFIG), rng.choice(PATHS)
    config["files"][rng.randrange(len(config["files"]))] = path
    if rng.random() < 0.5:
        config["digests"][path] = "0" * 64
    _write(folder / CONFIG, config)
    return path


def _tensor(folder: Path, name: str, rng: random.Random) -> str:
    """A shape, a type, an offset or a name in the header of the weights, or its size."""
    data = (folder / WEIGHTS).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensor, what = (
        rng.choice([each for each in header if each != "__metadata__"]),
        rng.choice([*HEADERS, "name", "size"]),
    )
    if what == "size":
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", rng.choice([0, 2**31, 2**63, 1])) + data[8:])
        return what
    if what == "name":
        header[rng.choice(["x", "", "members.9.w", "text.components"])] = header.pop(tensor)
    else:
        header[tensor][what] = rng.choice(HEADERS[what])
    raw = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(raw)) + raw + data[8 + size :])
    return f"{what} of {tensor}"


def _cell(folder: Path, name: str, rng: random.Random) -> str:
    path = rng.choice(sorted(folder.glob("*.csv")))
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    row = rng.choice(rows)
    row[rng.randrange(len(row))] = rng.choice(CELLS)
    path.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    return path.name


CHANGES: list[Callable[[Path, str, random.Random], str | None]] = [
    *(_flip, _flip, _flip, _cut, _exchange, _remove, _link, _edit, _edit, _edit),
    *(_parameter, _parameter, _listed, _tensor, _cell),
]


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
