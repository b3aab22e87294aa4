"""Interrupted fits: the checkpoint stays, and going on gives what an uninterrupted fit gives."""

from __future__ import annotations

import json
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pv
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from conal.errors import InputError
from conal.training.checkpoint import Checkpoint
from helpers.folders import flip_bit
from helpers.processes import Started

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

Start = Callable[..., Started]

ENDLESS = 1_000_000


def checkpointed_epoch(path: Path) -> int:
    """The epoch that a checkpoint contains, from the header of the safetensors file; 0 if there is none."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        state = json.loads(json.loads(file.read(size))["__metadata__"]["state"])
    return int(state["epoch"])


def wait_for_checkpoint(process: Started, path: Path, epoch: int) -> None:
    end = time.monotonic() + 300
    while checkpointed_epoch(path) < epoch:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no checkpoint within five minutes"
        time.sleep(0.02)


def fit(crowd: Crowd, out: Path, *options: object) -> tuple[Any, ...]:
    files = ("fit", crowd.labels, "--features", crowd.features, "--out", out)
    return (*files, "--method", "conal", "--set", "lr=0.003", *options)


def epochs_of(folder: Path) -> list[int]:
    epochs: list[int] = pv.read_csv(folder / "history.csv")["epoch"].to_pylist()
    return epochs


def test_a_killed_fit_goes_on_as_if_nothing_had_happened(
    conal: Run, start: Start, shared_crowd: Crowd, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    process = start(*fit(shared_crowd, out, "--epochs", ENDLESS))
    wait_for_checkpoint(process, checkpoint, epoch=20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    reached = checkpointed_epoch(checkpoint)
    assert reached >= 20

    kept = checkpoint.read_bytes()
    refused = conal(*fit(shared_crowd, out, "--epochs", reached + 5, "--set", "lr=0.004", "--resume"))
    assert "m.checkpoint: was written with different lr; resume with the same settings" in refused.refusal()
    assert checkpoint.read_bytes() == kept

    resumed = conal(*fit(shared_crowd, out, "--epochs", reached + 5, "--resume"))
    assert resumed.code == 0, resumed.err
    whole = tmp_path / "whole"
    assert conal(*fit(shared_crowd, whole, "--epochs", reached + 5)).code == 0
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert epochs_of(out) == epochs_of(whole) == list(range(1, reached + 6))
    for name in ("labels.csv", "annotators.csv", "common_confusion.csv"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".conal-")}  # of what was killed
    assert left == {"m", "whole"}


def test_an_interrupted_fit_says_how_to_go_on(start: Start, shared_crowd: Crowd, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    process = start(*fit(shared_crowd, out, "--epochs", ENDLESS))
    wait_for_checkpoint(process, checkpoint, epoch=1)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate()
    assert process.returncode == 130
    assert printed == ""
    assert f"interrupted; the checkpoint is {checkpoint}: continue with --resume" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]
    assert checkpointed_epoch(checkpoint) >= 1


@pytest.fixture
def interrupted(conal: Run, shared_crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint of a fit of CoNAL that Control-C ended in its fifth epoch."""
    return interrupt(conal, shared_crowd, tmp_path, monkeypatch)


def interrupt(conal: Run, crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: object) -> Path:
    """Control-C in the fifth of eight epochs; the checkpoint."""
    from conal.training.loop import _Trainer

    whole_epoch = _Trainer.run_epoch

    def run_epoch(self: _Trainer) -> None:
        if self.epoch == 4:
            raise KeyboardInterrupt
        whole_epoch(self)

    with monkeypatch.context() as patch:
        patch.setattr(_Trainer, "run_epoch", run_epoch)
        patch.setattr("conal.training.checkpoint.Checkpoint.due", lambda self: True)
        run = conal(*fit(crowd, tmp_path / "m", "--epochs", 8, *options))
    assert run.code == 130
    checkpoint = tmp_path / "m.checkpoint"
    assert checkpointed_epoch(checkpoint) == 4
    return checkpoint


def test_a_method_that_plans_its_epochs_goes_on_with_the_same_plan(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--method", "xconal", "--set", "rounds=4")
    checkpoint = interrupt(conal, shared_crowd, tmp_path, monkeypatch, *options)
    refused = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 9, "--resume", *options)).refusal()
    assert "was written with different epochs" in refused
    assert checkpointed_epoch(checkpoint) == 4
    assert conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume", *options)).code == 0
    assert conal(*fit(shared_crowd, tmp_path / "whole", "--epochs", 8, *options)).code == 0
    for name in ("model.safetensors", "labels.csv", "annotators.csv", "common_confusion.csv"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--set", "lr=0.5"), "lr"),
        (("--seed", 1), "seed"),
        (("--set", "batch_size=16"), "batch_size"),
        (("--set", "layer=row-stochastic"), "layer"),
        (("--set", "hidden=[64]"), "hidden"),
        (("--set", "scaling=none"), "scaling"),
        (("--method", "dl-mv"), "method"),
    ],
)
def test_other_settings_are_not_resumed(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path, options: tuple[object, ...], name: str
) -> None:
    before = interrupted.read_bytes()
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume", *options)).refusal()
    changed = message.partition("was written with different ")[2].partition(";")[0].split(", ")
    assert name in changed
    assert name == "method" or changed == [name]
    assert interrupted.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]


def test_other_data_are_not_resumed(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path, write: Callable[..., Path]
) -> None:
    labels = write(tmp_path / "labels.csv", ("task", "worker", "label"), shared_crowd.rows[:-1])
    message = conal(*fit(replace(shared_crowd, labels=labels), tmp_path / "m", "--epochs", 8, "--resume")).refusal()
    assert "m.checkpoint: was written with different annotations;" in message
    assert interrupted.exists()


def test_another_way_to_select_the_epoch_is_not_resumed(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path, write: Callable[..., Path]
) -> None:
    labels = write(tmp_path / "vy.csv", ("task", "label"), list(enumerate(shared_crowd.z)))
    valid = ("--valid", shared_crowd.features, "--valid-labels", labels)
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume", *valid)).refusal()
    assert "m.checkpoint: was written with different " in message
    assert interrupted.exists()


def test_other_classes_are_not_resumed(conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path) -> None:
    classes = ("--classes", "cat,dog,fish,whale")
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume", *classes)).refusal()
    assert "m.checkpoint: was written with different " in message
    assert interrupted.exists()


def test_a_resumed_fit_is_the_whole_fit_and_cleans_up(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path
) -> None:
    resumed = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume", "--json"))
    assert resumed.json()["epochs"] == 8
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert conal(*fit(shared_crowd, tmp_path / "whole", "--epochs", 8)).code == 0
    ours, theirs = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("m", "whole"))
    assert ours == theirs
    assert epochs_of(tmp_path / "m") == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_fit_without_resume_starts_from_the_beginning(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path
) -> None:
    assert conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 3)).code == 0
    assert epochs_of(tmp_path / "m") == [1, 2, 3]
    assert not interrupted.exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "header"])
def test_a_corrupt_checkpoint_is_refused(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path, damage: str
) -> None:
    content = interrupted.read_bytes()
    changed = {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "text": b"this is not a checkpoint",
        "header": content[:20] + b"\xff" * 20 + content[40:],
    }
    interrupted.write_bytes(changed[damage])
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume")).refusal()
    assert "m.checkpoint: is not a usable checkpoint" in message
    assert "without --resume" in message
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]


def test_one_flipped_bit_anywhere_in_a_checkpoint_is_refused(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path
) -> None:
    """Weights, moments of the optimiser, random state, history: none of it is continued if it has changed."""
    content = interrupted.read_bytes()
    checkpoint = Checkpoint(interrupted, resume=True)
    for k in range(40):
        interrupted.write_bytes(content)
        flip_bit(interrupted, 8 + k * (len(content) - 8) // 40, bit=k % 8)
        with pytest.raises(InputError, match=r"m\.checkpoint: is not a usable checkpoint .*; start without --resume"):
            checkpoint.read()
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume")).refusal()
    assert "has changed since it was written" in message
    assert "start without --resume, which replaces it" in message
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]
    assert conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 3)).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("change", [{"epoch": "four"}, {"rng": {}}, {"history": 3}, {"restarts": None}])
def test_a_checkpoint_of_unexpected_content_is_refused(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, interrupted: Path, change: dict[str, Any]
) -> None:
    with safe_open(interrupted, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        state = json.loads(file.metadata()["state"]) | change
    save_file(tensors, interrupted, metadata={"state": json.dumps(state)})
    message = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 8, "--resume")).refusal()
    assert "m.checkpoint: is not a usable checkpoint" in message


def test_resume_without_a_checkpoint_starts_and_says_so(conal: Run, shared_crowd: Crowd, tmp_path: Path) -> None:
    run = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 2, "--resume"))
    assert run.code == 0
    assert f"no checkpoint at {tmp_path / 'm.checkpoint'}: starting from the beginning" in run.err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_an_interruption_before_the_first_checkpoint_promises_nothing(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conal.training.loop._Trainer.run_epoch", interrupt)
    run = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 2))
    assert (run.code, run.out) == (130, "")
    assert "checkpoint" not in run.err
    assert list(tmp_path.iterdir()) == []


def test_the_checkpoint_stays_until_the_model_is_saved(
    conal: Run, shared_crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("conal.io.model_folder.atomic_folder", fail)
        run = conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 2))
    assert (run.code, run.out) == (1, "")
    assert "No space left on device" in run.err
    assert [path.name for path in tmp_path.iterdir()] == ["m.checkpoint"]
    assert conal(*fit(shared_crowd, tmp_path / "m", "--epochs", 2, "--resume")).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
