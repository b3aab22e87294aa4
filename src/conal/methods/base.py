"""The base of all methods: a backbone, a loss over observed annotations, and the annotators' confusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from conal._registry import Registry
from conal.data.annotations import Annotations
from conal.data.encoding import Names
from conal.data.true_labels import labels_by_task
from conal.errors import InputError, examples
from conal.networks import FeatureScaler
from conal.networks.deployed import ClassProbabilities
from conal.networks.noise_layers import Present
from conal.parameters import check_parameters, is_number, parameters_of
from conal.parameters.training import ClassifierParameters, ClassPrior, Scaling

# The user's class prior: how it is read, and how it corrects inferred class probabilities.

PRIOR_STRENGTH = 2.0
"""kappa, how hard inferred shares are pushed to stated ones.

On LabelMe's validation set and on held-out Music songs, 2 is better than 1 for `xconal`. It is also better than meeting
the stated shares exactly, which would rely too much on a rough statement.
"""

TINY = 1e-3
TOLERANCE = 0.02


def prior_shift(stated: Tensor, found: Tensor) -> Tensor:
    r"""(C,) correction of log-probabilities, :math:`\kappa \log (\rho^*_c / \bar\rho_c)`.

    >>> prior_shift(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5])).tolist()
    [0.0, 0.0]
    """
    C = len(stated)
    return PRIOR_STRENGTH * ((C * stated + TINY).log() - (C * found + TINY).log())


def read_class_prior(prior: ClassPrior, classes: Names) -> Tensor | None:
    """(C,) the user's class shares in the order of the classes; None without a class prior.

    >>> read_class_prior({"cat": 0.75, "dog": 0.25}, np.array(["cat", "dog"], dtype=object)).tolist()
    [0.75, 0.25]
    """
    C = len(classes)
    if isinstance(prior, str):
        if prior not in ("estimate", "balanced"):
            raise InputError(f"class_prior must be 'estimate', 'balanced' or the share of every class, not {prior!r}")
        return None if prior == "estimate" else torch.full((C,), 1.0 / C)
    shares = _shares(prior)
    missing = [name for name in classes.tolist() if name not in shares]
    unknown = [name for name in shares if name not in set(classes.tolist())]
    if missing or unknown:
        problems = [f"has no share of {examples(missing)}"] if missing else []
        problems += [f"names {examples(unknown)}, which is no class"] if unknown else []
        raise InputError(f"class_prior {' and '.join(problems)}; the classes are {examples(classes, limit=10)}")
    values = np.array([shares[name] for name in classes.tolist()], dtype=float)
    if not (np.isfinite(values).all() and (values > 0).all()) or abs(values.sum() - 1) > TOLERANCE:
        raise InputError(f"class_prior: shares must be above 0 and sum to 1, these are {values.tolist()}")
    return torch.from_numpy(values / values.sum()).float()


def _shares(prior: Any) -> dict[Any, float]:
    try:
        shares = dict(prior)
    except (TypeError, ValueError):
        shares = {}
    if not shares or not all(is_number(value) for value in shares.values()):
        raise InputError(f"class_prior must be 'estimate', 'balanced' or the share of every class, not {prior!r}")
    return shares


# Inputs and outputs of methods, as tensors.

Array = TypeVar("Array")


class Batch(NamedTuple):
    """Instances with their observed annotations, without true labels.

    Attributes
    ----------
    x : (N, ...)
        Features of the batch's instances.
    instances : (N,) int64
        Position of each instance among the training tasks.
    rows, annotators, labels : (P,) int64
        The observed triples. ``rows`` points into ``x``; an annotator unknown to the model is -1.
    weights : (float, float), optional
        What an instance and a label count in the loss, where other processes have the rest of the batch; by default
        one over their number.
    """

    x: Tensor
    instances: Tensor
    rows: Tensor
    annotators: Tensor
    labels: Tensor
    weights: tuple[float, float] | None = None

    @property
    def instance_weight(self) -> float:
        """Factor that turns a sum over instances into a mean."""
        return 1 / max(len(self.x), 1) if self.weights is None else self.weights[0]

    @property
    def label_weight(self) -> float:
        """Factor that turns a sum over labels into a mean."""
        return 1 / max(len(self.labels), 1) if self.weights is None else self.weights[1]


class Problem(NamedTuple):
    """The sizes of the learning problem.

    Attributes
    ----------
    shape : tuple of int
        Shape of one instance.
    n_classes, n_annotators, n_tasks : int
        C, R, and N, the number of training tasks that have labels.
    labels_per_annotator : (R,) int64
        How many training labels each annotator gave.
    annotator_features : (R, F) tensor or None
    annotator_groups : (R,) int64 or None
        The group of every annotator, from 0, where it is known; only training needs it.
    class_prior : (C,) tensor or None
        Shares of the classes, where the user states them.
    n_true_labels : int
        How many tasks have a true label that the user supplied for training.
    """

    shape: tuple[int, ...]
    n_classes: int
    n_annotators: int
    n_tasks: int
    labels_per_annotator: Tensor
    annotator_features: Tensor | None = None
    annotator_groups: Tensor | None = None
    class_prior: Tensor | None = None
    n_true_labels: int = 0


class BatchPrediction(NamedTuple, Generic[Array]):
    """Predictions of a trained method for a batch, as tensors, or for all training tasks, as arrays.

    Attributes
    ----------
    class_proba : (N, C)
        P(true class | features).
    posterior : (N, C)
        P(true class | features and all labels of the instance).
    omega : (P,) or None
        How likely each label is to come from the common confusion, where the method separates the two kinds.
    """

    class_proba: Array
    posterior: Array
    omega: Array | None


# The base of all methods: a backbone, a loss over observed annotations, and the annotators' confusion.

methods: Registry[type[CrowdMethod]] = Registry("method", "conal.methods")
register = methods.register


class CrowdMethod(nn.Module):
    """Base of all methods.

    A method supplies :meth:`loss`. It may supply :meth:`log_prob_given_class`, its own model of the annotators, and the
    hooks :meth:`prepare` and :meth:`end_epoch`. For methods without a model of the annotators, every annotator's
    confusion matrix is estimated from the classifier's predictions, so that any method can score annotations and
    infer true labels.

    Parameters
    ----------
    problem : Problem
    backbone : nn.Module
        From features to (N, C) class logits.
    **given
        Hyper-parameters: those of a class of :func:`conal.parameters.parameters` from which the method inherits, and
        from which its estimator inherits too. They become attributes.
    """

    name: ClassVar[str]
    takes: str = "crowd"
    """What ``fit`` takes: "crowd" annotations, or "gold" labels."""
    models_annotators: bool = False
    """Whether the method learns confusion matrices."""
    separates_noise: bool = False
    """Whether the method tells common from individual confusion (:meth:`common_noise_rate`)."""
    common_meaning: str = "It is the confusion of all annotators' labels together."
    """What the common matrix of :meth:`confusion_matrices` is, in a sentence of the report."""
    prior_in_e_step: ClassVar[bool] = False
    """Whether a stated class prior enters while labels are inferred; if not, it corrects the trained classifier."""
    judges_true_labels: ClassVar[bool] = False
    """Whether true labels of some tasks are measured by, so that each needs a judgement that does not know it."""
    own_selection: ClassVar[str | None] = None
    """How the epoch is chosen where the user gives neither a rule nor true labels; None: by held-out annotations."""
    own_scaling: ClassVar[Scaling] = "auto"
    """How features are scaled for conal's own networks where the user says nothing."""
    divisible: ClassVar[bool] = True
    """Whether the loss of a batch is a sum over its tasks, so that several processes can share it."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Parameters of every classifier (:class:`conal.parameters.training.ClassifierParameters`) that the method reads
    itself, such as "epochs"; they become attributes, like its own."""
    truth_in_targets: ClassVar[bool] = False
    """Whether the method trains on inferred labels, of which :meth:`with_truth` makes known ones certain; if not, true
    labels are added to the loss as labels without noise."""

    known: Tensor | None
    """(N,) true classes of the training tasks, where the user supplied them for training, and -1 elsewhere; None
    without any. Set before :meth:`prepare`, and no part of the saved model."""
    labels_per_annotator: Tensor
    prior_shift: Tensor
    estimated_pi_g: Tensor
    estimated_pi_r: Tensor

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__()
        chosen = {name: declared.default for name, declared in parameters_of(self).items()}
        chosen |= {name: getattr(ClassifierParameters, name) for name in self.reads}
        if unknown := given.keys() - chosen.keys():
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {min(unknown)!r}")
        for name, value in (chosen | given).items():
            setattr(self, name, value)
        check_parameters(self)
        self.problem = problem
        self.backbone = backbone
        self.scaler = FeatureScaler()
        self.register_buffer("known", None, persistent=False)
        self.register_buffer("labels_per_annotator", problem.labels_per_annotator)
        self.register_buffer("prior_shift", torch.zeros(problem.n_classes))
        if not self.models_annotators:
            C = problem.n_classes
            self.register_buffer("estimated_pi_g", torch.full((C, C), 1.0 / C))
            self.register_buffer("estimated_pi_r", torch.full((problem.n_annotators, C, C), 1.0 / C))

    # ---------------------------------------------------------------- what a method supplies

    def loss(self, batch: Batch) -> Tensor:
        """The objective on one batch of scaled features: a mean over its annotations, or over its tasks."""
        raise NotImplementedError

    def prepare(self, annotations: Annotations) -> None:
        """Called once before training with the training annotations; two-stage methods aggregate here."""

    def load_previous(self, working: Mapping[str, Tensor], annotations: Annotations) -> None:
        """Called after :meth:`prepare` in an update, with the :meth:`working_state` of the fit before it.

        The annotations begin with the tasks of that fit, in the same order.
        """

    def trained_weights(self) -> set[str]:
        """Names of the tensors of networks, which an update draws back to where a training starts."""
        return {f"backbone.{name}" for name in self.backbone.state_dict()}

    def begin(self, batches: Iterable[Batch]) -> None:
        """Called before the first epoch of an update, with the training data in order."""

    def end_step(self) -> None:
        """Called after every step of the optimiser, for example to update averages of weights."""

    def end_epoch(self, batches: Iterable[Batch]) -> None:
        """Called after every epoch with the training data in order; methods with an E-step do it here."""

    def finish(self) -> None:
        """Called once after training, with the weights and the working state of the selected epoch."""

    def working_state(self) -> dict[str, Tensor]:
        """Tensors that an interrupted training needs to resume, although they are not part of the model."""
        return {}

    def restore_working_state(self, state: dict[str, Tensor]) -> None:
        """Restore the tensors of :meth:`working_state`."""
        for name, tensor in self.working_state().items():
            tensor.copy_(state[name])

    def unseen_posterior(self) -> tuple[Tensor, Tensor] | None:
        """Training tasks whose true label was supplied, and (n, C) what the fit says of them without that label.

        None for methods whose predictions of these tasks have seen their true labels.
        """
        return None

    @property
    def tempered(self) -> bool:
        """Whether left-out labels or true labels said how sure posteriors may be."""
        return False

    def training_posterior(self) -> Tensor | None:
        """(N, C) posterior of the training tasks, for a method that keeps a better one than :meth:`infer` gives.

        Rows are NaN for tasks that have none.
        """
        return None

    def training_class_proba(self) -> Tensor | None:
        """(N, C) class probabilities of the training tasks from features alone, by networks not trained on them.

        None for methods whose only network is trained on all tasks. Rows are NaN for tasks that have none.
        """
        return None

    def class_logits(self, x: Tensor) -> Tensor:
        """(N, C) unnormalised log-probabilities of the true class, from scaled features."""
        logits: Tensor = self.backbone(x)
        return logits

    def class_network(self) -> nn.Module:
        """:meth:`class_logits` of a trained method as a module of its own, without what is learned about annotators.

        A method that overrides :meth:`class_logits` should override this too; until then, all of the method is in it.
        """
        return self.backbone if type(self).class_logits is CrowdMethod.class_logits else _ClassLogits(self)

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log P(y | z = c, x) of each observed label for every class c, from scaled features.

        ``batch.annotators`` is -1 for unknown annotators, who follow the common confusion.
        """
        pi_g, pi_r = self.confusion_matrices()
        own = pi_r[batch.annotators.clamp(min=0), :, batch.labels]
        chosen = torch.where((batch.annotators >= 0)[:, None], own, pi_g[:, batch.labels].T)
        return chosen.clamp(min=torch.finfo(chosen.dtype).tiny).log()  # labels of probability zero must not give NaN

    def log_prob(self, batch: Batch) -> Tensor:
        """(P,) log P(y | x) of each observed label, from scaled features."""
        log_class_proba = self.log_class_proba(self.class_logits(batch.x))
        return torch.logsumexp(log_class_proba[batch.rows] + self.log_prob_given_class(batch), dim=-1)

    def posterior_given(self, class_logits: Tensor, batch: Batch) -> Tensor:
        """(N, C) P(z | x, all labels of the instance), from the instances' class logits and scaled features."""
        return self.joint_posterior(class_logits, batch.rows, self.log_prob_given_class(batch))

    def omega_of(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's pairs from scaled features; supplied where ``separates_noise``."""
        raise NotImplementedError

    def confusion_matrices(self) -> tuple[Tensor, Tensor]:
        """(C, C) common and (R, C, C) individual confusion, ``[..., c, l] = P(observe l | true c)``.

        Annotators without labels are given the common matrix. A method that models annotators overrides this; one
        without a common matrix can use :meth:`pooled`.
        """
        if self.models_annotators:
            raise NotImplementedError(f"{type(self).__name__} models annotators: it must override confusion()")
        return self.estimated_pi_g, self.estimated_pi_r

    def common_of_annotators(self) -> Tensor:
        """(C, C) the common confusion, or (R, C, C) everybody's, where groups of annotators have their own."""
        return self.confusion_matrices()[0]

    # ---------------------------------------------------------------- what it can build on

    def log_class_proba(self, class_logits: Tensor) -> Tensor:
        """(N, C) log-probabilities of the true class."""
        shifted = class_logits if self.prior_in_e_step else class_logits + self.prior_shift
        return shifted.log_softmax(-1)

    def joint_posterior(self, class_logits: Tensor, rows: Tensor, evidence: Tensor) -> Tensor:
        """(N, C) posterior: the classifier as prior, and (P, C) log P(y | z = c) of every label as evidence."""
        log_prior = (class_logits + self.prior_shift).log_softmax(-1)
        return log_prior.index_add(0, rows, evidence).softmax(-1)

    def adjust_to_class_prior(self, found: Tensor) -> None:
        """Shift the classes from the inferred shares (C,) towards the user's class prior, if there is one."""
        if self.problem.class_prior is not None:
            stated = self.problem.class_prior.to(found.device, torch.float64)
            shift = prior_shift(stated, found.double()).to(self.prior_shift)
            # The shares found depend on the last shift. Half a step at a time keeps them from oscillating.
            self.prior_shift.lerp_(shift, 0.5 if self.prior_in_e_step else 1.0)

    def with_truth(self, posterior: Tensor, instances: Tensor | None = None) -> Tensor:
        """(N, C) probabilities of training tasks, by default of all, in which known true labels are certain."""
        if self.known is None:
            return posterior
        known = self.known if instances is None else self.known[instances]
        certain = one_hot(known.clamp(min=0), self.problem.n_classes).to(posterior)
        return torch.where((known >= 0)[:, None], certain, posterior)

    def true_labels(self, annotations: Annotations) -> dict[Any, Any] | None:
        """The true labels of training tasks, by the names that aggregators take; None without any."""
        return None if self.known is None else labels_by_task(annotations, self.known.cpu().numpy())

    def truth_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the classifier to the batch's true labels: each counts as one more label, without noise."""
        known = (
            batch.instances.new_full(batch.instances.shape, -1) if self.known is None else self.known[batch.instances]
        )
        at = torch.nonzero(known >= 0).squeeze(1)
        if not len(at):
            return self.prior_shift.new_zeros(())
        logits = self.class_logits(batch.x)[at]  # of the whole batch, over which a network may normalise
        return cross_entropy(logits, known[at], reduction="sum") * batch.label_weight

    def known_or_common(self, pi_g: Tensor, pi_r: Tensor) -> Tensor:
        """(R, C, C) the annotators' matrices, with the common one for those who gave no training labels."""
        return torch.where((self.labels_per_annotator > 0)[:, None, None], pi_r, pi_g)

    def pooled(self, pi_r: Tensor) -> Tensor:
        """(C, C) mean of the annotators' matrices, weighted by the labels they gave."""
        weights = self.labels_per_annotator / self.labels_per_annotator.sum().clamp(min=1)
        return torch.einsum("r,rcl->cl", weights.to(pi_r.dtype), pi_r)

    def is_known(self, annotators: Tensor) -> Tensor:
        """(P,) whether each of these annotators gave training labels; -1 is an unknown annotator."""
        return (annotators >= 0) & (self.labels_per_annotator.index_select(0, annotators.clamp(min=0)) > 0)

    def present(self, batch: Batch) -> Present:
        """The rows of annotator tables that a batch needs: all of a short table, only its own of a long one."""
        return Present.of(batch.annotators, self.problem.n_annotators)

    def presence(self, batch: Batch, present: Present) -> Tensor:
        """(A,) weights that make a sum over a batch's annotators an unbiased estimate of the sum over all.

        Each of annotator r's n_r labels is in a batch of B of the N tasks with probability B / N, so weighting a
        label by N / (B n_r) makes the expected weight of every annotator 1.
        """
        given = present.take(self.labels_per_annotator)
        counts = torch.bincount(present.place, minlength=len(given)).to(self.prior_shift.dtype)
        return counts / given.clamp(min=1) * (self.problem.n_tasks * batch.instance_weight)

    # -------------------------------------------------------------- public interface; on raw features, but for the loss

    def forward(self, batch: Batch) -> Tensor:
        """The loss of a batch of scaled features, true labels included."""
        loss = self.loss(batch)
        return loss if self.known is None or self.truth_in_targets else loss + self.truth_loss(batch)

    @torch.no_grad()
    def predict_batch(self, batch: Batch, class_logits: Tensor | None = None) -> BatchPrediction[Tensor]:
        """Classifier, posterior and omega of a batch of raw features, by one pass of the network.

        ``class_logits`` are those of the batch's instances, where they are known already.
        """
        scaled = self.scaled(batch)
        logits = self.class_logits(scaled.x) if class_logits is None else class_logits
        return BatchPrediction(
            self.log_class_proba(logits).exp(),
            self.posterior_given(logits, scaled),
            self.omega_of(scaled) if self.separates_noise else None,
        )

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """(N, C) probabilities of the true class, from raw features."""
        return self.log_class_proba(self.class_logits(self.scaler(x))).exp()

    def predictor(self) -> nn.Module:
        """:meth:`predict_proba` of a trained method as a module of its own; it shares tensors with this one."""
        shift = torch.zeros_like(self.prior_shift) if self.prior_in_e_step else self.prior_shift
        return ClassProbabilities(self.scaler, self.class_network(), shift)

    @torch.no_grad()
    def score_annotations(self, batch: Batch) -> Tensor:
        """(P,) log P(y | x) of observed labels, from raw features."""
        return self.log_prob(self.scaled(batch))

    @torch.no_grad()
    def infer(self, batch: Batch) -> Tensor:
        """(N, C) P(z | x, all labels of the instance), from raw features."""
        scaled = self.scaled(batch)
        return self.posterior_given(self.class_logits(scaled.x), scaled)

    @torch.no_grad()
    def common_noise_rate(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's pairs from raw features, where ``separates_noise``."""
        return self.omega_of(self.scaled(batch))

    def scaled(self, batch: Batch) -> Batch:
        """The batch with scaled features."""
        return batch._replace(x=self.scaler(batch.x))


class _ClassLogits(nn.Module):
    """The class logits of a method."""

    def __init__(self, method: CrowdMethod) -> None:
        super().__init__()
        self.method = method

    def forward(self, x: Tensor) -> Tensor:
        return self.method.class_logits(x)
