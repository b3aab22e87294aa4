"""Shared fixtures: one thread, so that results are the same everywhere, and small random crowds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from conal.data.annotations import Annotations
from helpers.crowds import ragged_crowd

# Machines that run tests are shared: how long an example takes says nothing about it. Continuous integration tries the
# same examples every time; new ones are for developers, and for make fuzz.
settings.register_profile(
    "shared", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("shared")

# From the beginning: a fork of a process whose threads have worked waits for them for ever.
torch.set_num_threads(1)

# torch.export notes its steps for whoever listens, and pytest listens to every logger, which doubles the time.
logging.getLogger("torch.__trace").setLevel(logging.WARNING)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Large tests are left out unless ``-m large`` asks for them.

    Files with slow tests come first: a worker that starts a long file last keeps the others waiting.
    """
    if "large" not in config.option.markexpr:
        items[:] = [item for item in items if not item.get_closest_marker("large")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)


@pytest.fixture(params=range(5))
def crowd(request: pytest.FixtureRequest) -> Annotations:
    """Five ragged crowds."""
    return ragged_crowd(request.param)
