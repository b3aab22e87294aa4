"""Tampered model folders and checkpoints: refused or harmless, with nothing touched outside and nothing large made."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torture.batches import batch
from torture.children import Command, fork, run, wait
from torture.commands import STREAMS, make_stock
from torture.forge import apply, make_secret, random_changes, resign
from torture.intercept import is_loaded, watch
from torture.readers import signature
from torture.tally import Tally

__all__ = ["replay", "torture"]

BATCH = 100
CHECKPOINT, CROWD = "checkpoint", "crowd"
CHECKPOINTS = 0.05
"""Share of tampered checkpoints: a fit goes on from each of them, which takes time."""


class Place(NamedTuple):
    """Where everything is: model folders as they were saved, what they do, and files that nobody may touch."""

    folder: Path
    models: dict[str, Path]
    expected: dict[str, str]
    inputs: dict[str, Any]
    secret: Path


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Tamper with folders until the time is over."""
    deadline, first = time.monotonic() + seconds, 0
    place = make_place(folder)
    if not is_loaded():
        tally.skip("outside reads", "the library that watches files is not loaded; contents and times are compared")
    while time.monotonic() < deadline:
        make = partial(_case, place, seed, first)
        log = folder / "outcomes"
        for number, outcome, message in batch(partial(_check_number, make, place), BATCH, log):
            case = make(number)
            what = "tampered checkpoints" if case["model"] == CHECKPOINT else "tampered folders"
            tally.count(what, outcome)
            if outcome == "failed":
                tally.fail(f"folders: {message}", case)
        first += BATCH


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one folder; None if nothing is."""
    place = make_place(folder)
    ((_, outcome, message),) = batch(lambda _: check(case, place), 1, folder / "outcome")
    return message if outcome == "failed" else None


def _check_number(make: Callable[[int], dict[str, Any]], place: Place, number: int) -> tuple[str, str]:
    return check(make(number), place)


def _case(place: Place, seed: int, first: int, number: int) -> dict[str, Any]:
    rng = random.Random(f"{seed}/{first + number}")
    if rng.random() < CHECKPOINTS:
        size = place.models[CHECKPOINT].stat().st_size
        flips = [(rng.randrange(size), rng.randrange(8)) for _ in range(rng.choice([1, 1, 5]))]
        return {
            "part": "folders",
            "model": CHECKPOINT,
            "flips": flips,
            "cut": rng.random() if rng.random() < 0.1 else 1.0,
        }
    model = rng.choice([name for name in place.models if name != CHECKPOINT])
    changes = random_changes(place.models[model], rng)
    return {
        "part": "folders",
        "model": model,
        "changes": changes,
        "signed": rng.random() < 0.6,
        "then": rng.choice(["report", "page", "overwrite", "nothing"]),
    }


# ---------------------------------------------------------------- what must hold


def check(case: dict[str, Any], place: Place) -> tuple[str, str]:
    """What a tampered folder does: "refused", "harmless", "accepted" where it was signed anew, or "failed"."""
    if case["model"] == CHECKPOINT:
        return _check_checkpoint(case, place)
    folder, log = place.folder / "tampered", place.folder / "log"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(place.models[case["model"]], folder)
    apply(case["changes"], folder)
    if case["signed"]:
        resign(folder)
    before = _state(place)
    log.unlink(missing_ok=True)
    if is_loaded():
        watch(place.secret, log)
    outcome, message = _use(case, folder, place)
    is_read = log.exists() and log.stat().st_size > 0
    if _state(place) != before:
        return "failed", f"{case['changes'][0]['change']}: a file outside of the folder is written"
    if is_read and outcome != "refused":
        return "failed", f"{case['changes'][0]['change']}: a file outside of the folder is read and accepted"
    return outcome, message


def _state(place: Place) -> tuple[list[str], list[tuple[str, int, bytes]]]:
    """What is beside the folder and its page, and the files that nobody may touch."""
    beside = sorted(path.name for path in place.folder.iterdir() if path.name not in ("tampered", "out.html", "log"))
    return beside, sorted((path.name, path.stat().st_mtime_ns, path.read_bytes()) for path in place.secret.iterdir())


def _use(case: dict[str, Any], folder: Path, place: Place) -> tuple[str, str]:
    from conal.errors import ConalError

    outcome, message = "refused", ""
    try:
        found = _fingerprint_of(folder, case["model"], place.inputs[case["model"]])
        same = found == place.expected[case["model"]]
        outcome = "harmless" if same else "accepted"
        if not same and not case["signed"]:
            return "failed", f"{case['changes'][0]['change']} of {case['changes'][0]['file']}: another model, unnoticed"
    except ConalError as error:
        message = str(error)
    except BaseException as error:
        return "failed", f"load: {signature(error)}"
    try:
        _then(case, folder, place)
    except ConalError:
        pass
    except BaseException as error:
        return "failed", f"{case['then']}: {signature(error)}"
    return outcome, message


def _then(case: dict[str, Any], folder: Path, place: Place) -> None:
    """Make its report, add labels to it, or replace it."""
    from conal.estimator import load
    from conal.report.page import write_report

    if case["model"] == CROWD:
        _then_of_crowd(case, folder, place)
    elif case["then"] == "report":
        write_report(folder, place.folder / "out.html")
    elif case["then"] == "page":
        write_report(folder)
    elif case["then"] == "overwrite":
        load(place.models["plain"]).save(folder, overwrite=True)


def _then_of_crowd(case: dict[str, Any], folder: Path, place: Place) -> None:
    from conal import aggregation

    if case["then"] in ("report", "page"):
        model = aggregation.load(folder)
        model.update(place.inputs[CROWD])
        model.save(folder, overwrite=True)
    elif case["then"] == "overwrite":
        aggregation.load(place.models[CROWD]).save(folder, overwrite=True)


def _fingerprint_of(folder: Path, name: str, x: Any) -> str:
    from conal import aggregation
    from conal.estimator import load

    return _fingerprint_of_crowd(aggregation.load(folder)) if name == CROWD else _fingerprint(load(folder), x)


def _fingerprint_of_crowd(model: Any) -> str:
    """Everything that a loaded aggregator says."""
    names = [model.classes_, model.annotator_ids_, model.task_ids_, model.labels_]
    text = json.dumps([[each.tolist() for each in names], model.learned_from_], default=str, sort_keys=True)
    crowd = model.annotations_
    numbers = [model.probas_, model.confusion_, model.skills_, crowd.tasks, crowd.annotators, crowd.labels]
    data = b"".join(np.ascontiguousarray(each).tobytes() for each in numbers)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") + data).hexdigest()


def _fingerprint(model: Any, x: Any) -> str:
    """Everything that a loaded model says."""
    names = [model.classes_, model.annotator_ids_, model.task_ids_, model.labels_]
    tables = {name: table.to_pydict() for name, table in model.tables_.items()}
    told = [[each.tolist() for each in names], tables, model.metrics_, model.results_.report]
    text = json.dumps(told, default=str, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") + model.predict_proba(x).tobytes()).hexdigest()


# ---------------------------------------------------------------- checkpoints


def _fit(place: Path, x: Any, crowd: Any, *, resume: bool) -> str:
    from conal.estimator import make

    model = make("conal", epochs=3, seed=1, verbose=False, batch_size=16)
    model.fit(x, crowd, checkpoint=place, resume=resume)
    state = model.model_.state_dict()
    return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def _check_checkpoint(case: dict[str, Any], place: Place) -> tuple[str, str]:
    from conal.errors import ConalError

    path = place.folder / "tampered.checkpoint"
    data = bytearray(place.models[CHECKPOINT].read_bytes())
    for byte, bit in case["flips"]:
        data[byte % len(data)] ^= 1 << bit
    path.write_bytes(data[: int(case["cut"] * len(data))])
    try:
        found = _fit(path, *place.inputs[CHECKPOINT], resume=True)
    except ConalError as error:
        return "refused", str(error)
    except BaseException as error:
        return "failed", f"checkpoint: {signature(error)}"
    return (
        ("harmless", "") if found == place.expected[CHECKPOINT] else ("failed", "checkpoint: another model, unnoticed")
    )


# ---------------------------------------------------------------- before it starts


def make_place(folder: Path) -> Place:
    """Models of three kinds, an aggregator and a checkpoint, made in children; what they do if they are left alone."""
    stock = make_stock(folder / "stock")
    crowd_rows = [line.split(",") for line in (stock / "labels.csv").read_text(encoding="utf-8").splitlines()[1:]]
    tasks = sorted({int(row[0]) for row in crowd_rows})
    texts = [f"word{task % 3} thing{task % 5} of number {task}" for task in tasks]
    lines = [f"{task},{text}" for task, text in zip(tasks, texts, strict=True)]
    (stock / "texts.csv").write_text("\n".join(["task,text", *lines]) + "\n", encoding="utf-8")
    for line in (
        "fit labels.csv --features features.npy --out ensemble --epochs 1 --set ensemble=2 --quiet --no-report",
        "fit labels.csv --text texts.csv --out text --epochs 1 --quiet --no-report",
    ):
        ended = run(Command(line.split(), stock, stock / STREAMS))
        if ended.code:
            raise RuntimeError(f"{line}: {ended.code} {ended.err}")
    models = {"plain": stock / "stock-model", "ensemble": stock / "ensemble", "text": stock / "text"}
    models |= {CROWD: stock / "stock-crowd", CHECKPOINT: stock / "a.checkpoint"}
    x = np.load(stock / "features.npy")
    inputs: dict[str, Any] = {"plain": x, "ensemble": x, "text": texts, CROWD: _crowd(stock / "other.csv")}
    place = Place(folder, models, {}, inputs, make_secret(folder, models["plain"]))
    found = folder / "expected.json"
    if wait(fork(partial(_expect, place, stock, found)), 120):
        raise RuntimeError("the models that nobody tampered with cannot be used")
    inputs[CHECKPOINT] = (x, _crowd(stock / "labels.csv"))
    return place._replace(expected=json.loads(found.read_text(encoding="utf-8")))


def _crowd(path: Path) -> Any:
    from conal.io import read_annotations

    return read_annotations(path)


def _expect(place: Place, stock: Path, found: Path) -> int:
    crowd = _crowd(stock / "labels.csv")
    expected = {CHECKPOINT: _fit(place.models[CHECKPOINT], place.inputs["plain"], crowd, resume=False)}
    for name in ("plain", "ensemble", "text", CROWD):
        expected[name] = _fingerprint_of(place.models[name], name, place.inputs[name])
    found.write_text(json.dumps(expected), encoding="utf-8")
    return 0
