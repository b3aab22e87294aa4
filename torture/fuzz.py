"""Broken files for every reader: each is read, or refused with a message; nothing else happens."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torture.batches import batch
from torture.commands import make_stock
from torture.documents import Document, document
from torture.minimise import smaller
from torture.mutate import break_json, broken
from torture.readers import attempt
from torture.tally import Tally

__all__ = ["guarded", "replay", "torture"]

BATCH = 500
"""Documents of one child: each is slow at first, because what it needs is loaded and copied."""
MOST_BYTES = 20_000
MOST_KEPT = 600
"""Documents that met a new message, from which others are made."""


def torture(folder: Path, seed: int, seconds: float, tally: Tally) -> None:
    """Feed documents to the readers until the time is over."""
    stock = _seeds(folder)
    deadline = time.monotonic() + seconds  # a busy machine may take long to make the seeds
    kept: list[Document] = list(stock)
    messages: set[str] = set()
    number = 0
    while time.monotonic() < deadline:
        generate = partial(_generate, seed=seed, first=number, kept=tuple(kept), stock=stock)
        for index, outcome, message in batch(partial(_attempt, generate, folder), BATCH, folder / "outcomes"):
            tally.count("fuzzed files", outcome)
            if outcome == "failed":
                _keep_failure(generate(index), message, folder, tally)
            elif (known := _normal(message)) not in messages:
                messages.add(known)
                found = generate(index)
                kept += [found] if len(found.content) < MOST_BYTES else []
        number += BATCH
        if len(kept) > MOST_KEPT:
            kept = [*stock, *random.Random(number).sample(kept, MOST_KEPT // 2)]
    tally.most("fuzzing", "distinct messages met", len(messages))


def replay(case: dict[str, Any], folder: Path) -> str | None:
    """What is wrong with one file; None if nothing is."""
    outcome, message = guarded(_document(case), folder)
    return message if outcome == "failed" else None


def guarded(found: Document, folder: Path) -> tuple[str, str]:
    """How a reader takes a document, in a child with limits."""
    ((_, outcome, message),) = batch(lambda _: attempt(found, folder), 1, folder / "outcome")
    return outcome, message


def _attempt(generate: Callable[[int], Document], folder: Path, index: int) -> tuple[str, str]:
    return attempt(generate(index), folder)


def _generate(
    index: int, *, seed: int, first: int, kept: tuple[Document, ...], stock: tuple[Document, ...]
) -> Document:
    """The same document for the same numbers."""
    rng = random.Random(f"{seed}/{first + index}")
    which = rng.random()
    if which < 0.05:
        return _from_stock(rng.choice(stock), rng)
    base = rng.choice(kept) if which < 0.35 else document(rng)
    return broken(base, rng, rng.choice(kept) if kept else base)


def _from_stock(found: Document, rng: random.Random) -> Document:
    """Reports are JSON whose values are broken, three at most; checkpoints are bytes."""
    if found.reader != "report":
        return broken(found, rng, found)
    value = json.loads(found.content)
    for _ in range(rng.randint(1, 3)):
        value = break_json(value, rng)
    return Document("report", "report.json", json.dumps(value).encode())


def _seeds(folder: Path) -> tuple[Document, ...]:
    """Documents that only conal writes: a report and a checkpoint."""
    import torch

    from conal.training.checkpoint import Checkpoint, State

    stock = make_stock(folder / "stock")
    report = (stock / "stock-model" / "report.json").read_bytes()
    path = folder / "a.checkpoint"
    Checkpoint(path).write(
        State({"model/w": torch.zeros(2, 3), "best/w": torch.ones(3)}, {"epoch": 2, "history": [{"a": 1.5}]})
    )
    return Document("report", "report.json", report), Document("checkpoint", "a.checkpoint", path.read_bytes())


def _keep_failure(found: Document, message: str, folder: Path, tally: Tally) -> None:
    signature = f"fuzz: {found.reader}: {message}"
    if tally.fail(signature, _case(found)):
        least = smaller(found, message, lambda shorter: guarded(shorter, folder))
        tally.failures[signature] = _case(least)


def _case(found: Document) -> dict[str, Any]:
    content = base64.b64encode(found.content).decode()
    return {"part": "fuzz", "reader": found.reader, "name": found.name, "options": found.options, "base64": content}


def _document(case: dict[str, Any]) -> Document:
    return Document(case["reader"], case["name"], base64.b64decode(case["base64"]), case["options"])


def _normal(message: str) -> str:
    """A message without what comes from the file."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "#", message)[:120]
