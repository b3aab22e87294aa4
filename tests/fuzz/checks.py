"""Run checks on random examples; the check of broken files."""

from __future__ import annotations

import random
import signal
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

from conal.errors import ConalError
from fuzz.breaking import break_file
from fuzz.files import FILES

__all__ = ["check_file", "run"]

SECONDS = 20
"""CPU seconds that reading one small file may take."""


def run(check: Callable[[random.Random], str], key: str, count: int) -> dict[str, int]:
    """How often a check ended how; the same key gives the same examples.

    Hypothesis draws the state of a generator, not each number: that would be slow, and the shares not those meant.
    """
    outcomes: Counter[str] = Counter()

    def test(rng: random.Random) -> None:
        outcomes[check(rng)] += 1

    often = settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    seed(key)(often(given(st.randoms(use_true_random=True))(test)))()
    return dict(outcomes)


def check_file(rng: random.Random, folder: Path) -> str:
    """A file of any kind, valid or broken, is read, or refused with a message, in little time."""
    kind = rng.choice([kind for kind, (*_, weight) in FILES.items() for _ in range(weight)])
    make, read, _ = FILES[kind]
    path, options = make(rng, folder)
    path = break_file(path, rng)
    note(f"{kind}: {path} {options} {path.read_bytes()[:500]!r}")
    before = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path, options)
    except ConalError:
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return "read"


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"takes more than {SECONDS} s")
