"""Small networks are trained by one thread, torch's own number comes back, and fits in threads are those of a seed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import conal
from conal.training.loop import SMALL_STEP, threads_for


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def threads_during(network: nn.Module, batch_size: int = 256) -> int:
    with threads_for(network, batch_size):
        return torch.get_num_threads()


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(512, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 8)), 1),
        (nn.Linear(SMALL_STEP // 256 // 8 + 1, 8), 2),
        (nn.Conv2d(1, 1, 3), 2),
        (nn.LSTM(4, 4), 2),
    ],
)
def test_by_the_work_of_a_step(network: nn.Module, expected: int) -> None:
    assert threads_during(network) == expected
    assert torch.get_num_threads() == 2


def test_the_number_comes_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), threads_for(nn.Linear(2, 2), 1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2


class Watched(nn.Module):
    """A linear classifier that notes how many threads it is trained by."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(20, 3)
        self.seen: set[int] = set()

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.seen.add(torch.get_num_threads())
        return self.layer(x)  # type: ignore[no-any-return]


def test_a_fit_uses_one() -> None:
    data = conal.datasets.synthetic(n_train=60, n_valid=10, n_test=10, n_classes=3, n_annotators=4, seed=0)
    clf = conal.CoNAL(backbone=Watched(), epochs=1, selection="last", verbose=False).fit(data.x, data.annotations)
    assert clf.model_.backbone.seen == {1}
    assert torch.get_num_threads() == 2


def test_of_fits_in_threads_the_last_restores_the_number() -> None:
    small = nn.Linear(2, 2)
    first, second = threads_for(small, 1), threads_for(small, 1)
    for each in (first, second):
        each.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_num_threads() == 1
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 2


def with_dropout(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A network of a user's own, whose weights and dropout torch draws."""
    return nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, n_classes))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("conal", {}),
        ("xconal", {}),
        ("doctor-net", {}),
        ("conal", {"ensemble": 2, "batch_norm": True}),
        ("conal", {"backbone": with_dropout}),
        ("xconal", {"backbone": with_dropout}),
    ],
    ids=["conal", "xconal", "heads", "ensemble", "own network", "own networks"],
)
def test_a_seed_gives_the_same_model_in_threads(method: str, options: dict[str, Any]) -> None:
    data = conal.datasets.synthetic(n_train=200, n_valid=10, n_test=10, n_classes=3, n_annotators=6, seed=0)

    def fitted(seed: int) -> dict[str, Tensor]:
        made = conal.make(method, epochs=5, seed=seed, verbose=False, **options).fit(data.x, data.annotations)
        return made.model_.state_dict()

    alone, state = [fitted(seed) for seed in (0, 1)], torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fitted, (0, 1, 0, 1)))
    for found, expected in zip(together, alone * 2, strict=True):
        assert found.keys() == expected.keys()
        assert all(found[name].equal(tensor) for name, tensor in expected.items())
    assert not all(alone[0][name].equal(tensor) for name, tensor in alone[1].items())
    assert torch.get_rng_state().equal(state)  # the user's own draws go on as they would have
