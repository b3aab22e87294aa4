"""The loop: warm-up, selection, patience, restarts, checkpoints, and reproducibility."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from conal import methods
from conal._progress import Progress
from conal.data.annotations import Annotations
from conal.errors import EarlyEpochWarning, InputError, TrainingError, VanishedClassWarning
from conal.methods import CrowdMethod, Problem
from conal.methods.conal import CoNALMethod
from conal.networks import MLP
from conal.parameters.training import Settings
from conal.training.batches import CrowdBatches, Instances
from conal.training.checkpoint import Checkpoint
from conal.training.loop import lost_classes, train
from conal.training.selection import GoldAccuracy, LastEpoch
from helpers.progress import Listener

N, R, C, D = 60, 4, 3, 5
TRUTH = np.arange(N) % C
X = (3 * np.eye(D)[TRUTH] + np.random.default_rng(0).normal(size=(N, D))).astype(np.float32)
VOTES = np.where(np.random.default_rng(1).random((N, R)) < 0.8, TRUTH[:, None], (TRUTH[:, None] + 1) % C)
DATA = CrowdBatches(Instances(X), Annotations.from_matrix(VOTES), 16)


def build() -> CrowdMethod:
    counts = torch.tensor(DATA.annotations.labels_per_annotator())
    return CoNALMethod(Problem((D,), C, R, N, counts), MLP(D, C, hidden=(16,)))


class Scripted:
    """A selection rule that gives the scores it was told to."""

    def __init__(self, scores: list[float], name: str = "scripted") -> None:
        self.name = name
        self.scores = iter(scores)
        self.seen: list[torch.Tensor] = []

    def score(self, method: CrowdMethod) -> float:
        self.seen.append(next(method.parameters()).detach().clone())
        return next(self.scores)


def weights(method: CrowdMethod) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in method.state_dict().items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_the_best_epoch_is_kept() -> None:
    selection = Scripted([0.1, 0.7, 0.3, 0.7])
    result = train(build, DATA, selection, Settings(epochs=4, warmup_epochs=0))
    assert (result.best_epoch, result.best_score) == (2, 0.7)
    assert torch.equal(next(result.method.parameters()), selection.seen[1])
    assert [row["scripted"] for row in result.history] == [0.1, 0.7, 0.3, 0.7]


def test_an_epoch_of_the_warm_up_is_kept_with_a_warning() -> None:
    scores = Scripted([0.9, 0.8, 0.3], GoldAccuracy.name)
    with pytest.warns(EarlyEpochWarning, match="epoch 1 was selected, within the warm-up of 2"):
        result = train(build, DATA, scores, Settings(epochs=3, warmup_epochs=2))
    assert result.best_epoch == 1
    late = Scripted([0.1, 0.8, 0.9], GoldAccuracy.name)
    assert train(build, DATA, late, Settings(epochs=3, warmup_epochs=2)).best_epoch == 3


def test_a_schedule_shorter_than_the_warm_up_is_no_reason_to_warn() -> None:
    result = train(build, DATA, Scripted([0.1, 0.8, 0.3], GoldAccuracy.name), Settings(epochs=3, warmup_epochs=5))
    assert result.best_epoch == 2


def test_a_score_that_is_no_number_is_a_failure() -> None:
    with pytest.raises(TrainingError, match="scripted became nan in epoch 2"):
        train(build, DATA, Scripted([0.1, float("nan"), 0.3]), Settings(epochs=3))


def test_the_loss_of_an_epoch_is_a_mean_over_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of tasks with three labels and one of tasks with a single label; nothing is learned meanwhile."""
    halves = (np.arange(10), np.arange(10, 20))
    monkeypatch.setattr(CrowdBatches, "shuffled", lambda self, rng, *_: map(self.cut, halves))
    votes = np.where(np.arange(20)[:, None] < 10, VOTES[:20, :3], [[1, -1, -1]])
    data = CrowdBatches(Instances(X[:20]), Annotations.from_matrix(votes, classes=range(C)), 10)

    def still() -> CrowdMethod:
        counts = torch.tensor(data.annotations.labels_per_annotator())
        return CoNALMethod(Problem((D,), C, 3, 20, counts), MLP(D, C, dropout=0.0), lam=0.0)

    result = train(still, data, LastEpoch(), Settings(epochs=1, lr=1e-12))
    everything = data.cut(np.arange(20))
    assert result.history[0]["loss"] == pytest.approx(float(result.method(everything).detach()), rel=1e-5)


def test_patience_stops_early() -> None:
    scores = Scripted([0.5, 0.4, 0.3, 0.2, 0.9])
    result = train(build, DATA, scores, Settings(epochs=5, patience=3, warmup_epochs=0))
    assert len(result.history) == 4
    assert result.best_epoch == 1


def test_the_last_epoch_is_kept_without_scores() -> None:
    result = train(build, DATA, LastEpoch(), Settings(epochs=3))
    assert (result.best_epoch, result.best_score) == (3, None)


def test_warm_up_rises_linearly_and_then_stays() -> None:
    result = train(build, DATA, LastEpoch(), Settings(epochs=4, lr=0.02, warmup_epochs=2))
    assert [row["lr"] for row in result.history] == pytest.approx([0.01, 0.02, 0.02, 0.02])


def test_the_first_step_is_small() -> None:
    """Adam's first step has the size of the learning rate; with a warm-up over 2 x 4 steps it is an eighth of it."""
    one = CrowdBatches(DATA.instances, DATA.annotations, 1000)
    torch.manual_seed(0)
    before = build().noise.raw_pi_g.detach().clone()  # type: ignore[union-attr, operator]
    after = train(build, one, LastEpoch(), Settings(epochs=1, lr=0.08, warmup_epochs=8)).method
    moved = (after.noise.raw_pi_g - before).abs().max()  # type: ignore[union-attr, operator]
    assert float(moved.detach()) == pytest.approx(0.01, rel=1e-3)


def test_training_learns() -> None:
    result = train(build, DATA, LastEpoch(), Settings(epochs=60))
    assert result.history[-1]["loss"] < 0.8 * result.history[0]["loss"]
    predicted = result.method.predict_proba(torch.from_numpy(X)).argmax(-1).numpy()
    assert (predicted == TRUTH).mean() > 0.95
    assert result.lost_classes == []


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_same_seed_same_result_bit_for_bit() -> None:
    one, same, other = (train(build, DATA, LastEpoch(), Settings(epochs=3, seed=seed)).method for seed in (5, 5, 6))
    assert_same(weights(one), weights(same))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_the_callers_random_numbers_are_left_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    train(build, DATA, LastEpoch(), Settings(epochs=1))
    assert torch.equal(torch.rand(3), expected)


class PlugError(Exception):
    """What the plug raises."""


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch, after: int, settings: Settings) -> None:
    """Train with a checkpoint after every epoch, and die in the middle of an epoch."""
    calls = iter(range(10_000))
    original = CrowdBatches.cut

    def cut(self: CrowdBatches, index: Any) -> Any:
        if next(calls) == after * DATA.n_batches + 2:
            raise PlugError
        return original(self, index)

    with monkeypatch.context() as patched:
        patched.setattr(CrowdBatches, "cut", cut)
        patched.setattr(Checkpoint, "due", lambda self: True)
        with pytest.raises(PlugError):
            train(build, DATA, LastEpoch(), settings, checkpoint=Checkpoint(path, {"lr": "0.01"}))


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(epochs=6)
    path = tmp_path / "fit.checkpoint"
    interrupted(path, monkeypatch, 3, settings)
    resumed = train(build, DATA, LastEpoch(), settings, checkpoint=Checkpoint(path, {"lr": "0.01"}, resume=True))
    straight = train(build, DATA, LastEpoch(), settings)
    assert_same(weights(resumed.method), weights(straight.method))
    assert [row["epoch"] for row in resumed.history] == [1, 2, 3, 4, 5, 6]
    assert [row["loss"] for row in resumed.history] == [row["loss"] for row in straight.history]


class Plug(Progress):
    """Pulled when an epoch has ended, before its checkpoint is written."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def update(self, completed: int, total: int, figures: str) -> None:
        if completed == self.epoch:
            raise PlugError


CROWD_METHODS = [name for name in methods.names() if methods.get(name).takes == "crowd"]


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in CROWD_METHODS]
    + [("aggnet", {"epochs_per_round": 2}), ("conal-em", {"omega": "annotation"})],
)
def test_every_method_resumes_where_it_stopped(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the middle of a round of EM, whose posterior is no part of the model."""

    def build_it() -> CrowdMethod:
        problem = Problem((D,), C, R, N, torch.tensor(DATA.annotations.labels_per_annotator()))
        return methods.get(name)(problem, MLP(D, C), **options)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    path, settings = tmp_path / "c", Settings(epochs=6)
    with pytest.raises(PlugError):
        train(build_it, DATA, LastEpoch(), settings, progress=Plug(4), checkpoint=Checkpoint(path))
    resumed = train(build_it, DATA, LastEpoch(), settings, checkpoint=Checkpoint(path, resume=True))
    straight = train(build_it, DATA, LastEpoch(), settings)
    assert_same(weights(resumed.method), weights(straight.method))
    assert [row["loss"] for row in resumed.history] == [row["loss"] for row in straight.history]


def test_the_best_epoch_survives_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "c"
    first = Scripted([0.2, 0.9])
    train(build, DATA, first, Settings(epochs=2, warmup_epochs=0), checkpoint=Checkpoint(path))
    longer, saved = Settings(epochs=4, warmup_epochs=0), Checkpoint(path, resume=True)
    result = train(build, DATA, Scripted([0.3, 0.4]), longer, checkpoint=saved)
    assert result.best_epoch == 2
    assert torch.equal(next(result.method.parameters()), first.seen[1])


def test_a_checkpoint_with_other_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    interrupted(path, monkeypatch, 1, Settings(epochs=3))
    with pytest.raises(InputError, match="different lr"):
        train(build, DATA, LastEpoch(), Settings(epochs=3), checkpoint=Checkpoint(path, {"lr": "0.5"}, resume=True))
    assert path.exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="not a usable checkpoint"):
        train(build, DATA, LastEpoch(), Settings(epochs=3), checkpoint=Checkpoint(path, resume=True))


def test_a_checkpoint_is_plain_tensors_and_json(tmp_path: Path) -> None:
    path = tmp_path / "c"
    train(build, DATA, LastEpoch(), Settings(epochs=2), checkpoint=Checkpoint(path))
    names = load_file(path)
    assert "method/noise.raw_pi_g" in names
    assert any(name.startswith("optimizer0/0/exp_avg") for name in names)
    with safe_open(path, framework="pt") as file:
        state = json.loads(file.metadata()["state"])
    assert state["epoch"] == 2
    assert len(state["history"]) == 2


def test_checkpoints_take_little_of_the_time(tmp_path: Path) -> None:
    saver = Checkpoint(tmp_path / "c")
    assert saver.due()
    train(build, DATA, LastEpoch(), Settings(epochs=1), checkpoint=saver)
    assert not saver.due()


def test_progress_hears_of_every_epoch() -> None:
    heard = Listener()
    result = train(build, DATA, LastEpoch(), Settings(epochs=3), progress=heard)
    assert heard.told == [(k, 3, f"loss {result.history[k - 1]['loss']:.4f}") for k in (1, 2, 3)]
    assert all({"loss", "lr", "seconds"} <= row.keys() for row in result.history)


def test_a_long_training_is_foretold_once(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = Listener(), Listener()
    train(build, DATA, LastEpoch(), Settings(epochs=3), progress=short)
    monkeypatch.setattr("conal.training.loop.LONG", 0.0)
    train(build, DATA, LastEpoch(), Settings(epochs=3), progress=long)
    assert short.said == []
    (line,) = long.said
    assert line.startswith(f"{len(DATA.labelled)} tasks, 3 epochs: about 0 min left")


def one_eyed() -> CrowdMethod:
    """A method whose classifier cannot say the last class."""
    method = build()

    class Blind(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.inner(x)
            return logits + torch.tensor([0.0, 0.0, -1e4])

    method.backbone = Blind(method.backbone)
    return method


def test_a_lost_class_is_noticed() -> None:
    assert lost_classes(one_eyed(), DATA) == [2]


def test_a_lost_class_leads_to_restarts_and_a_warning() -> None:
    with pytest.warns(VanishedClassWarning) as caught:
        result = train(one_eyed, DATA, LastEpoch(), Settings(epochs=3, warmup_epochs=0, max_restarts=2))
    assert result.restarts == 0  # too short to judge, so only the final word
    assert result.lost_classes == [2]
    assert "class 2 is (almost) never predicted" in str(caught[0].message)
    with pytest.warns(VanishedClassWarning) as caught:
        result = train(one_eyed, DATA, LastEpoch(), Settings(epochs=6, warmup_epochs=0, max_restarts=2))
    assert result.restarts == 2
    assert [("restarts" in str(w.message)) for w in caught] == [True, True, False]
    assert [row["epoch"] for row in result.history] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("epochs", [5, 6, 7, 13])
@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_restarts_survive_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int) -> None:
    """Killed after so many epochs; a restart is decided after the 6th and the 12th. The end is the same."""
    settings = Settings(epochs=9, warmup_epochs=1, max_restarts=2)
    straight = train(one_eyed, DATA, LastEpoch(), settings)
    assert straight.restarts == 2
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    path, calls, original = tmp_path / "c", iter(range(1000)), CrowdBatches.shuffled

    def shuffled(self: CrowdBatches, rng: Any, *_: int) -> Any:
        if next(calls) == epochs:
            raise PlugError
        return original(self, rng)

    with monkeypatch.context() as patched:
        patched.setattr(CrowdBatches, "shuffled", shuffled)
        with pytest.raises(PlugError):
            train(one_eyed, DATA, LastEpoch(), settings, checkpoint=Checkpoint(path))
    resumed = train(one_eyed, DATA, LastEpoch(), settings, checkpoint=Checkpoint(path, resume=True))
    assert resumed.restarts == 2
    assert_same(weights(resumed.method), weights(straight.method))


@pytest.mark.filterwarnings("ignore::conal.errors.VanishedClassWarning")
def test_a_restart_begins_elsewhere() -> None:
    starts = []

    def recorded() -> CrowdMethod:
        method = one_eyed()
        starts.append(next(method.parameters()).detach().clone())
        return method

    train(recorded, DATA, LastEpoch(), Settings(epochs=6, warmup_epochs=0, max_restarts=1))
    assert len(starts) == 2
    assert not torch.equal(starts[0], starts[1])


def test_the_check_for_lost_classes_waits_for_the_warm_up() -> None:
    with pytest.warns(VanishedClassWarning) as caught:
        train(one_eyed, DATA, LastEpoch(), Settings(epochs=8, warmup_epochs=3, max_restarts=1))
    assert "after 8 epochs class 2 is no longer predicted" in str(caught[0].message)


def test_a_class_that_is_only_slow_to_come_is_not_lost() -> None:
    """Not predicted yet, but with a fair share of the probability."""
    method = build()
    with torch.no_grad():
        for parameter in method.backbone.parameters():
            parameter.zero_()
        list(method.backbone.parameters())[-1].copy_(torch.tensor([0.1, 0.1, 0.0]))
    assert lost_classes(method, DATA) == []


def test_a_restart_can_succeed() -> None:
    attempts = iter([one_eyed, build])
    with pytest.warns(VanishedClassWarning, match="restarts"):
        result = train(lambda: next(attempts)(), DATA, LastEpoch(), Settings(epochs=30, warmup_epochs=0))
    assert result.restarts == 1
    assert result.lost_classes == []


def test_a_loss_that_is_no_number_is_a_failure() -> None:
    def broken() -> CrowdMethod:
        method = build()
        with torch.no_grad():
            next(method.parameters()).fill_(torch.nan)
        return method

    with pytest.raises(TrainingError, match="the loss became nan in epoch 1"):
        train(broken, DATA, LastEpoch(), Settings(epochs=1))
