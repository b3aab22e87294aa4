"""The training loop: fit -> epoch -> step; keeps the best epoch, can be resumed, and detects lost classes."""

from __future__ import annotations

import math
import operator
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from conal._progress import Progress
from conal._system import peak_memory
from conal.aggregation import counts as votes
from conal.distributed import OneCpu, average_tables, guarded, make_fabric, setup
from conal.errors import DivergenceError, EarlyEpochWarning, InputError, VanishedClassWarning, examples, warn
from conal.methods.base import Batch, CrowdMethod
from conal.networks.draws import drawing_from, restored_global_state
from conal.parameters.training import Plan, Settings, plan
from conal.training.batches import CrowdBatches
from conal.training.checkpoint import (
    Checkpoint,
    State,
    WarmStart,
    generator_state,
    restore_generator,
)
from conal.training.optimizer import make_optimizers, optimizer_tensors, restore_optimizer
from conal.training.selection import GoldAccuracy, Selection, class_logits, estimate_confusion, predict_proba, to_device

if TYPE_CHECKING:
    from lightning_fabric import Fabric


# The training history: one row of figures per epoch.

Row = dict[str, float]
"""One line of the history: epoch, loss, learning rate, seconds and the selection score."""


def figures(row: Row) -> str:
    """The figures of an epoch as text.

    >>> figures({"epoch": 3, "loss": 1.25, "seconds": 0.1, "validation_accuracy": 0.875})
    'loss 1.2500  validation accuracy 87.5 %'
    """
    text = f"loss {row['loss']:.4f}"
    if "validation_accuracy" in row:
        text += f"  validation accuracy {100 * row['validation_accuracy']:.1f} %"
    if "holdout_log_likelihood" in row:
        text += f"  held-out log-likelihood {row['holdout_log_likelihood']:.4f}"
    return text


# What a long training will take: one line after its first epoch.

LONG = 60.0
"""Seconds of training that are worth a line."""
HOUR = 3600.0
GIGABYTE = 1e9


def forecast(n_tasks: int, epochs: int, seconds: float, memory: int | None = None) -> str | None:
    """A line about the rest of a training whose first epoch took ``seconds``; None if it will soon be over.

    Parameters
    ----------
    n_tasks, epochs : int
        Tasks that are trained on, and planned epochs.
    memory : int, optional
        Bytes used so far; by default what this process has used at most.

    Examples
    --------
    >>> forecast(1_000_000, epochs=5, seconds=45.0, memory=2_345_000_000)
    '1,000,000 tasks, 5 epochs: about 3 min left; 2.3 GB of memory so far'
    >>> forecast(1_000, epochs=100, seconds=0.1) is None
    True
    """
    left = seconds * (epochs - 1)
    if left < LONG:
        return None
    used = peak_memory() if memory is None else memory
    so_far = "" if used is None else f"; {used / GIGABYTE:.1f} GB of memory so far"
    time = f"{left / 60:.0f} min" if left < 2 * HOUR else f"{left / HOUR:.1f} hours"
    return f"{n_tasks:,} tasks, {epochs} epochs: about {time} left{so_far}"


# The learning rate: a linear warm-up, then constant or along half a cosine.

LAST = 0.02
"""What the cosine leaves of the learning rate at the end."""


def make_scheduler(optimizer: Optimizer, lr: float, plan: Plan, n_batches: int, epochs_done: int = 0) -> LambdaLR:
    r"""A scheduler that is stepped after every batch.

    .. math:: \eta_t = \eta \, \phi \min(1, t / T_w) \, [\tfrac12 (1 + \cos(\pi e / E)) + 0.02]

    in step t of epoch e; :math:`\phi` is the plan's factor, and the cosine is there only where the user asks for it and
    on large data. Adam's first step has the size of the learning rate in every weight, however small the gradient is.
    With non-negative features these steps add up over hundreds of inputs, and a class's logit can fall so far that its
    gradient vanishes and the class is never predicted again. Small first steps prevent that.

    Parameters
    ----------
    plan : Plan
        The number of epochs, of those of the warm-up, what follows it, and a factor of the learning rate.
    n_batches : int
        Batches in an epoch.
    epochs_done : int
        Epochs before an interruption.
    """
    warmup = plan.warmup_epochs * n_batches

    def factor(step: int) -> float:
        decay = 1.0
        if plan.schedule == "cosine":
            decay = 0.5 * (1 + math.cos(math.pi * (step // n_batches) / plan.epochs)) + LAST
        return plan.lr_factor * decay * (min(1.0, (step + 1) / warmup) if warmup else 1.0)

    for group in optimizer.param_groups:
        group["initial_lr"] = lr
    return LambdaLR(optimizer, factor, last_epoch=epochs_done * n_batches - 1)


# The number of threads for training.

_lock = threading.Lock()
_before: list[int] = []
"""The number of threads that each fit in progress found, the first one first."""
SMALL_STEP = 200_000_000
"""Multiplications in the layers of a step below which one thread is as fast as several."""


@contextmanager
def threads_for(network: nn.Module, batch_size: int) -> Iterator[None]:
    """Train a small network by one thread.

    Steps of about ten milliseconds gain nothing from several threads, and if other programs use the processors too,
    threads that wait for each other make them several times as long. Networks that use a weight more than once per
    instance (convolutions, recurrent layers) keep torch's own number.

    >>> with threads_for(nn.Linear(20, 5), batch_size=256):
    ...     torch.get_num_threads()
    1
    """
    if _work(network) * batch_size >= SMALL_STEP:
        yield
        return
    with _lock:
        _before.append(torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:  # the number is that of the process, and sums depend on it: the last of several fits restores it
            if len(_before) == 1:
                torch.set_num_threads(_before[0])
                _before.clear()
            else:
                _before.pop()


def _work(network: nn.Module) -> float:
    """Multiplications per instance; infinite if the weights do not determine them."""
    layers = [module for module in network.modules() if next(module.parameters(recurse=False), None) is not None]
    if not all(isinstance(layer, nn.Linear | nn.BatchNorm1d) for layer in layers):
        return float("inf")
    return sum(layer.weight.numel() for layer in layers if isinstance(layer, nn.Linear))


# The training loop: fit -> epoch -> step; keeps the best epoch, can be resumed, and detects lost classes.

RESTART_CHECK = 5
"""Epochs after the warm-up at which a lost class leads to a restart."""


@dataclass
class TrainingResult:
    """The trained method (weights of the selected epoch, on the CPU) and the course of its training."""

    method: CrowdMethod
    class_logits: Tensor
    """(N, C) of the training instances, labelled or not; of an ensemble (N, M, C)."""
    history: list[Row]
    best_epoch: int
    best_score: float | None
    restarts: int
    lost_classes: list[int] = field(default_factory=list)
    members: dict[str, Any] = field(default_factory=dict)
    """Of an ensemble: how many there are, and their epochs."""


def train(
    build: Callable[[], CrowdMethod],
    data: CrowdBatches,
    selection: Selection,
    settings: Settings,
    *,
    monitors: Mapping[str, GoldAccuracy] | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    warm: WarmStart | None = None,
    own_network: bool = False,
) -> TrainingResult:
    """Train a method and return it with the weights of its best epoch.

    Parameters
    ----------
    build : callable
        Makes the method; called under the seed, once more at every restart.
    data : CrowdBatches
        The training annotations and their instances.
    selection : Selection
        Scores epochs; the best is kept.
    monitors : mapping of str to GoldAccuracy, optional
        Accuracies to note in the history after every epoch, under their names; they influence nothing.
    warm : WarmStart, optional
        What an earlier training on fewer labels has learned, from which this one goes on.
    own_network : bool
        Whether the network is a user's. It may draw from torch's global generator, as a torch Dataset may, which is
        then seeded too and restored afterwards.
    """
    fabric = make_fabric(settings.accelerator, settings.precision, settings.devices, settings.num_nodes)
    devices = [fabric.device] if fabric.device.type == "cuda" else []
    foreign = own_network or data.instances.is_dataset
    is_global = foreign or bool(devices)  # of a GPU, for dropout
    restored = restored_global_state(devices) if is_global else nullcontext()
    draws = Draws(is_global=is_global, foreign=foreign)
    with restored, progress or Progress() as shown:
        trainer = _Trainer(fabric, build, data, selection, settings, monitors or {}, shown, checkpoint, warm, draws)
        with guarded(fabric.world_size > 1), draws.in_use():
            return trainer.fit()


def lost_classes(method: CrowdMethod, data: CrowdBatches) -> list[int]:
    """Classes that win votes but have (almost) no probability anywhere on the training instances.

    A class that is not predicted *yet*, because learning is slow, still has a fair share of the probability.
    """
    return _lost(predict_proba(method, data.instances), data)


def _lost(class_proba: Tensor, data: CrowdBatches) -> list[int]:
    """:func:`lost_classes`, by the (N, C) class probabilities of all training instances."""
    probas = class_proba.numpy()[data.labelled]
    predicted = np.bincount(probas.argmax(1), minlength=probas.shape[1])
    lost: list[int] = votes.lost_classes(data.annotations, np.maximum(predicted, probas.sum(0))).tolist()
    return lost


def _seed(seed: int, *numbers: int) -> int:
    """Another seed for every further number."""
    return int(np.random.SeedSequence(seed, spawn_key=numbers).generate_state(1)[0])


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@dataclass
class _Placed:
    """The training data in order, on the device; can be gone through several times."""

    fabric: OneCpu | Fabric
    data: CrowdBatches

    def __iter__(self) -> Iterator[Batch]:
        return (to_device(batch, self.fabric.device) for batch in self.data.labelled_in_order())


@dataclass
class Draws:
    """What random numbers are drawn from: a generator of this training and, if it must be, torch's global one."""

    is_global: bool
    foreign: bool
    """Whether a user's network or Dataset draws too; from the generator, as far as torch allows it."""
    generator: torch.Generator = field(default_factory=torch.Generator)

    def in_use(self) -> AbstractContextManager[None]:
        """Draw from the generator."""
        return drawing_from(self.generator, torch_too=self.foreign)

    def seed(self, seed: int) -> None:
        """Start again."""
        self.generator.manual_seed(int(seed))  # which may be a NumPy integer
        if self.is_global:
            torch.manual_seed(int(seed))

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {"torch": self.generator.get_state(), **({"global": torch.get_rng_state()} if self.is_global else {})}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """From a checkpoint."""
        self.generator.set_state(state["torch"])
        if self.is_global:
            torch.set_rng_state(state["global"])


@dataclass
class _Trainer:
    fabric: OneCpu | Fabric
    build: Callable[[], CrowdMethod]
    data: CrowdBatches
    selection: Selection
    settings: Settings
    monitors: Mapping[str, GoldAccuracy]
    progress: Progress
    checkpoint: Checkpoint | None
    warm: WarmStart | None
    draws: Draws
    epoch: int = 0
    best_epoch: int = 0
    restarts: int = 0
    best_score: float | None = None
    best: dict[str, Tensor] = field(default_factory=dict)
    best_working: dict[str, Tensor] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = plan(self.settings, len(self.data.labelled))
        self.is_several = self.fabric.world_size > 1
        self.module: nn.Module
        self.optimizers: list[Any]

    def fit(self) -> TrainingResult:
        if not self._resume():
            self._start(restarts=0)
        with threads_for(self.method.backbone, self.data.batch_size):
            if self.warm is not None and self.epoch == 0:
                self.method.begin(_Placed(self.fabric, self.data))
            while self.epoch < self.plan.epochs and not self._out_of_patience():
                self.run_epoch()
                if self._must_restart():
                    self._start(self.restarts + 1)
                elif self._writes_checkpoint():
                    self.checkpoint.write(self._state())  # type: ignore[union-attr]
        return self._result()

    def _writes_checkpoint(self) -> bool:
        if self.checkpoint is None or self.fabric.global_rank > 0:
            return False
        return self.checkpoint.due() or self.epoch == self.plan.epochs

    def run_epoch(self) -> None:
        began = time.perf_counter()
        self.module.train()
        total = torch.zeros((), device=self.fabric.device)
        if self.is_several:  # a seed per epoch and process, so that going on from a checkpoint needs no other state
            self.draws.seed(_seed(self.settings.seed, self.restarts, self.epoch, self.fabric.global_rank))
        for batch in self.data.shuffled(self.rng, self.fabric.global_rank, self.fabric.world_size):
            total += self.train_step(batch) * (1 / batch.label_weight)
            lr = float(self.schedulers[0].get_last_lr()[0])
            for scheduler in self.schedulers:
                scheduler.step()
        self.epoch += 1
        loss = float(self._over_all(total)) / self.data.annotations.n_annotations
        if not np.isfinite(loss):
            raise DivergenceError(
                f"the loss became {loss} in epoch {self.epoch}; lower lr, scale the features (scaling='standard'), "
                "or compute in a higher precision"
            )
        self.method.end_epoch(_Placed(self.fabric, self.data))
        row: Row = {"epoch": self.epoch, "loss": loss, "lr": lr}
        self._select(row)
        row |= {name: monitor.score(self.method) for name, monitor in self.monitors.items()}
        row["seconds"] = time.perf_counter() - began
        self.history.append(row)
        self.progress.update(self.epoch, self.plan.epochs, figures(row))
        if self.epoch == 1 and (line := forecast(len(self.data.labelled), self.plan.epochs, row["seconds"])):
            self.progress.say(line)

    def _over_all(self, total: Tensor) -> Tensor:
        """The sum over all processes."""
        return self.fabric.all_reduce(total, reduce_op="sum")  # type: ignore[return-value]

    def train_step(self, batch: Batch) -> Tensor:
        # Scaled before Fabric sees the features: in mixed precision it makes halves of what a module gets.
        loss: Tensor = self.module(self.method.scaled(to_device(batch, self.fabric.device)))
        for parameter in self.learned:
            parameter.grad = None
        self.fabric.backward(loss)
        if self.is_several:
            average_tables(self.learned)
        for optimizer in self.optimizers:
            optimizer.step()
        self.method.end_step()
        return loss.detach()

    def _select(self, row: Row) -> None:
        score = self.selection.score(self.method)
        if score is not None and np.isnan(score):
            raise DivergenceError(f"the {self.selection.name} became nan in epoch {self.epoch}; lower lr")
        if score is None:  # the last epoch is kept, and its weights are those of the method
            self.best_epoch = self.epoch
            return
        row[self.selection.name] = score
        if self.best_score is None or score > self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best, self.best_working = _copied(self.method.state_dict()), _copied(self.method.working_state())

    def _out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.epoch - self.best_epoch >= patience

    def _must_restart(self) -> bool:
        if self.epoch != ceil(self.plan.warmup_epochs) + RESTART_CHECK or self.restarts >= self.settings.max_restarts:
            return False
        lost = lost_classes(self.method, self.data)
        if lost:
            warn(
                f"after {self.epoch} epochs {self._name(lost)} no longer predicted; training restarts",
                VanishedClassWarning,
            )
        return bool(lost)

    def _warn_of_early_epoch(self) -> None:
        """On few gold labels an epoch of the warm-up can score best by chance, while confusion is hardly learned."""
        learns_confusion = self.method.models_annotators and self.method.takes == "crowd"
        by_gold = self.selection.name == GoldAccuracy.name
        warmup = ceil(self.plan.warmup_epochs)
        if learns_confusion and by_gold and self.best_epoch <= warmup < self.epoch:
            warn(
                f"epoch {self.best_epoch} was selected, within the warm-up of {warmup}: confusion "
                "matrices and cleaned labels are hardly learned by then. Is the validation set too small? "
                "Without it, held-out annotations select the epoch",
                EarlyEpochWarning,
            )

    def _name(self, codes: list[int]) -> str:
        names = examples(self.data.annotations.classes[codes], limit=10)
        return f"class {names} is" if len(codes) == 1 else f"classes {names} are"

    def _start(self, restarts: int) -> None:
        self.restarts = restarts
        seed = _seed(self.settings.seed, restarts)
        self.draws.seed(self.settings.seed if restarts == 0 else seed)
        self.rng = np.random.default_rng(self.settings.seed if restarts == 0 else seed)
        self.epoch, self.best_epoch, self.best_score = 0, 0, None
        self.history, self.best, self.best_working = [], {}, {}
        self._build()

    def _build(self) -> None:
        with drawing_from(self.draws.generator, torch_too=True):
            self.method = self.build()
            self._check_device()
            self.method.prepare(self.data.annotations)
            if self.warm is not None:
                self.warm.load(self.method, self.data.annotations)
            lr, n_batches = self.settings.lr, self.data.n_batches
            optimizers = make_optimizers(self.method, lr, self.settings.weight_decay)
            self.schedulers = [make_scheduler(each, lr, self.plan, n_batches, self.epoch) for each in optimizers]
            self.module, self.optimizers = setup(self.fabric, self.method, optimizers)
            self.learned = [each for each in self.method.parameters() if each.requires_grad]

    def _check_device(self) -> None:
        if self.is_several and not self.method.divisible:
            raise InputError(
                f"{self.method.name} compares all instances of a batch, which cannot be split between processes; "
                "train it with one process"
            )
        if self.fabric.device.type == "mps" and self.method.scaler.dtype == torch.float64:
            raise InputError(
                "these features differ by less than single precision resolves, and this device has no other; subtract "
                "their means and divide by their deviations first, or train with accelerator='cpu'"
            )

    def _state(self) -> State:
        groups = {
            "method": self.method.state_dict(),
            "working": self.method.working_state(),
            "best": self.best,
            "best_working": self.best_working,
            **{f"optimizer{k}": optimizer_tensors(each) for k, each in enumerate(self.optimizers)},
            "random": self.draws.state(),
        }
        if self.fabric.device.type == "cuda":
            groups["random"]["cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        tensors = {f"{group}/{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        values = {name: getattr(self, name) for name in ("epoch", "restarts", "history", "best_epoch", "best_score")}
        return State(tensors, {**values, "rng": generator_state(self.rng)})

    def _resume(self) -> bool:
        state = self.checkpoint.read() if self.checkpoint is not None else None
        if self.checkpoint is None or state is None:
            return False
        with self.checkpoint.usable():
            self._restore_course(state.values)
        self._build()
        with self.checkpoint.usable():
            self._restore_tensors(state)
        return True

    def _restore_course(self, values: Mapping[str, Any]) -> None:
        for name in ("epoch", "restarts", "best_epoch"):
            setattr(self, name, operator.index(values[name]))
        self.history, self.best_score = list(values["history"]), values["best_score"]
        self.rng = restore_generator(values["rng"])

    def _restore_tensors(self, state: State) -> None:
        self.best, self.best_working = state.group("best"), state.group("best_working")
        self._load_best()  # an unusable best epoch is told of now, and not at the end of training
        self.method.load_state_dict(state.group("method"))
        self.method.restore_working_state(state.group("working"))
        for k, optimizer in enumerate(self.optimizers):
            restore_optimizer(optimizer, state.group(f"optimizer{k}"))
        random = state.group("random")
        self.draws.restore(random)
        if "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self.fabric.device)

    def _load_best(self) -> None:
        """The state of the selected epoch, if that was not the last."""
        if self.best:
            self.method.load_state_dict(self.best)
            self.method.restore_working_state(self.best_working)

    def _result(self) -> TrainingResult:
        self._load_best()
        self.method.finish()
        method = self.method.float()  # whatever precision it was trained in, a model is single precision
        # The one pass over the training instances. The prior and the estimated confusion change what is made of the
        # logits, not the logits, so that they, the check below and the estimator can all start from these.
        logits = class_logits(method, self.data.instances)
        method.cpu()
        if not method.prior_in_e_step:
            method.adjust_to_class_prior(method.log_class_proba(logits).exp()[self.data.labelled].mean(0))
        probas = method.log_class_proba(logits).exp()
        if not method.models_annotators:
            estimate_confusion(method, self.data, probas)
        self._warn_of_early_epoch()
        lost = _lost(probas, self.data)
        if lost:
            warn(
                f"{self._name(lost)} (almost) never predicted, despite the crowd's votes; "
                "try another seed, a longer warm-up, another scaling, or a lower lr with more epochs",
                VanishedClassWarning,
            )
        return TrainingResult(method, logits, self.history, self.best_epoch, self.best_score, self.restarts, lost)
