"""The line about a long training: when there is one, what it says, and who hears it."""

from __future__ import annotations

import re

import pytest

from conal._system import peak_memory
from conal.training.loop import forecast


@pytest.mark.parametrize(
    ("epochs", "seconds", "expected"),
    [
        (5, 14.9, None),  # less than a minute
        (5, 15.0, "2,000 tasks, 5 epochs: about 1 min left; 1.5 GB of memory so far"),
        (101, 71.0, "2,000 tasks, 101 epochs: about 118 min left; 1.5 GB of memory so far"),
        (101, 360.0, "2,000 tasks, 101 epochs: about 10.0 hours left; 1.5 GB of memory so far"),
        (1, 1e6, None),  # that was it
    ],
)
def test_the_rest_takes_as_long_as_the_first_epoch_for_every_other(
    epochs: int, seconds: float, expected: str | None
) -> None:
    assert forecast(2_000, epochs, seconds, memory=1_500_000_000) == expected


def test_the_memory_is_that_of_this_process() -> None:
    before = peak_memory()
    assert before is not None
    held = bytearray(200_000_000)
    held[:: 2**12] = b"x" * len(held[:: 2**12])  # every page is written to
    after = peak_memory()
    assert after is not None
    assert after >= before
    assert after > 200_000_000
    line = forecast(1, 2, 60.0)
    assert line is not None
    said = re.search(r"([\d.]+) GB", line)
    assert said is not None
    assert float(said[1]) == pytest.approx(after / 1e9, abs=0.2)
