"""Parameters of every classifier, and defaults that follow the number of tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from conal.parameters import Doc, Option, number, one_of, parameters, share, whole, widths

# How to train: what the number of tasks says where the user says nothing.

USUAL_TASKS, USUAL_EPOCHS = 2_500, 100
"""The largest size that is trained for the usual number of epochs."""
FEWEST, MOST = 5, 100
WARMUP = 5
"""Epochs of warm-up for a stated number of epochs, and for the usual one."""
MANY = 4_000
"""Labelled tasks from which methods that model annotators keep the last epoch."""
LARGE = 16_000
"""Labelled tasks from which the learning rate decays. With fewer, CoNAL's gate needs the full rate to the end."""
USUAL_FOLDS, FOLDS_OF_LARGE = 5, 3


class Plan(NamedTuple):
    """The length of training, in epochs, and its learning rate; the warm-up can end within an epoch.

    The learning rate is ``lr_factor`` times the one that was set.
    """

    epochs: int
    warmup_epochs: float
    schedule: Literal["constant", "cosine"]
    lr_factor: float = 1.0


def plan(settings: Settings, n_tasks: int) -> Plan:
    """What ``settings`` mean for a number of labelled tasks.

    >>> from conal.parameters.training import Settings
    >>> plan(Settings(), 1_000)
    Plan(epochs=100, warmup_epochs=5.0, schedule='constant', lr_factor=1.0)
    >>> plan(Settings(), 20_000)
    Plan(epochs=12, warmup_epochs=0.6, schedule='cosine', lr_factor=1.0)
    >>> plan(Settings(), 200_000)
    Plan(epochs=5, warmup_epochs=0.25, schedule='cosine', lr_factor=0.5)
    >>> plan(Settings(epochs=50), 20_000)
    Plan(epochs=50, warmup_epochs=5.0, schedule='constant', lr_factor=1.0)
    """
    epochs = planned_epochs(settings.epochs, n_tasks)
    warmup: float = WARMUP
    if settings.warmup_epochs != "auto":
        warmup = settings.warmup_epochs
    elif settings.epochs == "auto":
        warmup = epochs * WARMUP / USUAL_EPOCHS
    schedule = settings.schedule
    if schedule == "auto":
        schedule = "cosine" if settings.epochs == "auto" and n_tasks >= LARGE else "constant"
    return Plan(epochs, float(warmup), schedule, _lr_factor(settings.epochs, n_tasks))


def _lr_factor(epochs: int | Literal["auto"], n_tasks: int) -> float:
    r"""By how much the learning rate is lowered where "auto" means more steps than usual: :math:`\sqrt{50000 / N}`.

    Up to 50,000 tasks the number of steps is the same. Beyond, there are at least five epochs, and with the usual rate
    a method with layers of noise drifts: its layers explain more and more of the labels, and its classifier less.
    """
    most = USUAL_TASKS * USUAL_EPOCHS / FEWEST
    return math.sqrt(most / n_tasks) if epochs == "auto" and n_tasks > most else 1.0


def planned_epochs(epochs: int | Literal["auto"], n_tasks: int) -> int:
    r"""The stated number of epochs; or, for "auto", a number that falls as the number N of labelled tasks grows.

    .. math:: E = 100 \cdot 2500 / N, \qquad 5 \le E \le 100

    Large data need as many steps, not as many passes: with 20,000 tasks, 100 epochs are 20 times as many steps as with
    1,000, and networks spend most of them on learning the mistakes of the crowd by heart.

    >>> [planned_epochs("auto", n) for n in (100, 1_000, 4_000, 20_000, 1_000_000)]
    [100, 100, 62, 12, 5]
    """
    if epochs != "auto":
        return epochs
    wanted: float = USUAL_EPOCHS * USUAL_TASKS / max(n_tasks, 1)
    return round(min(max(wanted, FEWEST), MOST))


def planned_rounds(rounds: int, epochs: int | Literal["auto"], planned: int) -> int:
    """The number of E-steps: as stated, but with "auto" at most one for every second of the ``planned`` epochs.

    An E-step goes through all tasks. On large data it takes as long as half an epoch, and twice as many gain
    nothing.

    >>> [planned_rounds(17, "auto", n) for n in (100, 12, 5)], planned_rounds(17, 12, 12)
    ([17, 6, 3], 17)
    """
    return min(rounds, -(-planned // 2)) if epochs == "auto" else rounds


def planned_folds(folds: int | Literal["auto"], n_tasks: int) -> int:
    """The stated number of folds; or, for "auto", 5, and 3 for large data.

    A network is trained on all folds but one. On large data, two thirds teach as much as four fifths, and five
    networks are more alike.

    >>> planned_folds("auto", 1_000), planned_folds("auto", 20_000), planned_folds(10, 20_000)
    (5, 3, 10)
    """
    if folds != "auto":
        return folds
    return FOLDS_OF_LARGE if n_tasks >= LARGE else USUAL_FOLDS


def planned_mixup(mixup: bool | Literal["auto"], n_tasks: int) -> bool:
    """As stated; or, for "auto", up to 2,500 tasks. More tasks need no others between them, and mixing takes time.

    >>> planned_mixup("auto", 1_000), planned_mixup("auto", 20_000), planned_mixup(True, 20_000)
    (True, False, True)
    """
    return n_tasks <= USUAL_TASKS if mixup == "auto" else mixup


def is_large(epochs: int | Literal["auto"], n_tasks: int) -> bool:
    """Whether "auto" means that the last epoch is kept: held-out labels would select one in which much is unlearned."""
    return epochs == "auto" and n_tasks >= MANY


# Parameters of every classifier: training, network, selection and output.

Backbone = str | Callable[..., Any]
"""A name, a torch module, or what makes one."""

ClassPrior = str | Mapping[Any, float] | Sequence[tuple[Any, float]]
""""estimate" (unknown), "balanced" (equal shares), or the share of every class by its name."""

Scaling = Literal["auto", "robust", "global", "standard", "none"]


@parameters
class Settings:
    """What the training loop itself reads; everything else belongs to `ClassifierParameters`."""

    lr: Annotated[
        float,
        number(above=0),
        Doc(
            "Learning rate of Adam. With epochs='auto' and more than 50,000 labelled tasks, N of them, it is "
            "multiplied by sqrt(50,000 / N)."
        ),
    ] = 0.01
    weight_decay: Annotated[
        float,
        number(at_least=0),
        Doc(
            "Weight decay, decoupled as in AdamW, of the weights of networks; biases, noise layers and embeddings of "
            "annotators are exempt."
        ),
    ] = 0.0
    epochs: Annotated[
        int | Literal["auto"],
        whole(1),
        Doc(
            "Number of passes over the data, or 'auto': 100 for up to 2,500 labelled tasks, and fewer for more (see "
            "conal.parameters.training)."
        ),
        Option("--epochs"),
    ] = "auto"
    batch_size: Annotated[int, whole(1), Doc("Number of instances in a batch.")] = 256
    warmup_epochs: Annotated[
        int | Literal["auto"],
        whole(0),
        Doc(
            "Epochs over which the learning rate rises from zero. 'auto' is 5 for a stated number of epochs, and a "
            "twentieth of them for epochs='auto'."
        ),
    ] = "auto"
    schedule: Annotated[
        Literal["auto", "constant", "cosine"],
        Doc(
            "Learning rate after the warm-up: constant, or a cosine decay to almost zero. 'auto' is 'cosine' for "
            "epochs='auto' and 16,000 labelled tasks or more, and otherwise 'constant'."
        ),
    ] = "auto"
    patience: Annotated[
        int | None, whole(1), Doc("Early stopping: stop after this many epochs without a better score.")
    ] = None
    max_restarts: Annotated[int, whole(0), Doc("Maximum number of restarts if a class is lost early in training.")] = 2
    seed: Annotated[
        int,
        whole(0, below=2**63, shown_below="2**63"),
        Doc(
            "Random seed. The same seed and data give the same model, bit for bit on one CPU thread, also if several "
            "fits run at once in threads of a program."
        ),
        Option("--seed"),
    ] = 0
    accelerator: Annotated[str, Doc('Hardware, for Lightning Fabric: "auto", "cpu" or "cuda".')] = "auto"
    devices: Annotated[
        int, whole(1), Doc("Number of processes per machine (one per GPU). Do not set it under torchrun.")
    ] = 1
    num_nodes: Annotated[int, whole(1), Doc("Number of machines. Do not set it under torchrun.")] = 1
    precision: Annotated[
        str, Doc('Floating-point precision, for Lightning Fabric: "32-true", "16-mixed" or "64-true".')
    ] = "32-true"


@parameters
class ClassifierParameters(Settings):
    """Parameters of every classifier."""

    backbone: Annotated[
        Backbone,
        Doc(
            "Network from features to class logits: 'mlp', 'linear' (no hidden layer), 'vgg16', a torch module, which "
            "is copied, or a callable that takes (feature shape, number of classes) and returns a module."
        ),
    ] = "mlp"
    hidden: Annotated[Sequence[int], widths(), Doc("Hidden units of the MLP, layer by layer.")] = (128,)
    dropout: Annotated[float, number(at_least=0, below=1), Doc("Probability of dropping a hidden unit of the MLP.")] = (
        0.5
    )
    input_dropout: Annotated[
        float, number(at_least=0, below=1), Doc("Probability of dropping an input feature of the MLP.")
    ] = 0.0
    batch_norm: Annotated[bool, Doc("Whether the MLP uses batch normalisation.")] = False
    scaling: Annotated[
        Scaling | None,
        Doc(
            "How features are scaled, as a part of the model: 'global' (one factor), 'standard' (per feature, of "
            "images per channel), 'robust', 'auto' or 'none' (see conal.training.scaling). None: a module or callable "
            "of your own as backbone gets what you pass to fit and predict, as float32; conal's networks have 'robust' "
            "for xconal and otherwise 'auto'."
        ),
    ] = None
    selection: Annotated[
        str,
        one_of("auto", "gold", "annotations", "last"),
        Doc(
            "Which epoch is kept: best accuracy on `validation` ('gold'), best likelihood of held-out annotations "
            "('annotations'), or the last. 'auto' is 'gold' if validation data are given; otherwise 'last' for xconal "
            "and, with epochs='auto' and 4,000 labelled tasks or more, for all methods that model annotators, and "
            "'annotations' for the others."
        ),
    ] = "auto"
    holdout: Annotated[
        float, share(), Doc("Share of the labelled tasks whose annotations are held out for selection='annotations'.")
    ] = 0.1
    class_prior: Annotated[
        ClassPrior,
        Doc(
            "Known class shares: 'estimate' (unknown), 'balanced' (equal shares), or the share of every class. "
            "Inferred labels are pushed towards them, which helps if they are right and does more harm if they are "
            "wrong."
        ),
    ] = "estimate"
    ensemble: Annotated[int, whole(1), Doc("Number of fits, from different seeds, to average.")] = 1
    refits: Annotated[
        int | Literal["auto"],
        whole(0),
        Doc(
            "With true labels: number of further fits, each without a part of them, that judge this part for the "
            "rates of the report. They are made when a report, a table with rates, or `save` asks for them, and use "
            "the data that were passed to `fit`. 'auto' is 5 for xconal and up to 20,000 labelled tasks, and "
            "otherwise 0. With 0, xconal judges true labels by networks that were not trained on them, which takes no "
            "time, but on small data makes labels look better than they are; other methods then have no rates."
        ),
    ] = "auto"
    text_components: Annotated[
        int, whole(1), Doc("If X is text: the maximum number of features per text (see conal.TextFeatures).")
    ] = 200
    verbose: Annotated[bool, Doc("Show progress in a terminal or notebook.")] = True
