"""Cross-fitted CoNAL: common and individual confusion by EM, where no network votes on what it was trained on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from conal.aggregation.votes import Votes, vote_shares
from conal.data.annotations import Annotations
from conal.errors import DivergenceError
from conal.methods.base import Batch, CrowdMethod, Problem, register
from conal.methods.two_sources import TwoSources
from conal.networks.averaging import WeightAverage
from conal.networks.backbones import fresh_copy
from conal.networks.calibration import fit_temperature
from conal.networks.parallel import Part, mean_loss
from conal.parameters import flag, number, one_of, parameter, share, whole

__all__ = ["CrossCoNALMethod", "aligned_with_votes", "due_epochs"]

START_ROUNDS = 60
"""EM rounds on the annotations alone before the networks are trained."""


class Heard(NamedTuple):
    """What an E-step hears about the training instances.

    ``log_class`` (N, C) is the independent network's; ``instances`` (N,) says which they are; ``rows``, ``annotators``,
    ``labels`` (P,) are the annotations, and ``evidence`` (P, C) their log-probability given every class.
    """

    log_class: Tensor
    instances: Tensor
    rows: Tensor
    annotators: Tensor
    labels: Tensor
    evidence: Tensor


@register("xconal")
class CrossCoNALMethod(CrowdMethod):
    r"""Cross-fitted CoNAL: the paper's noise model, trained without a single true label.

    A network that was trained on an instance's inferred label repeats it, mistakes included, when it is asked about
    that instance again. Here K networks are trained, each without one fold of the instances, and the E-step asks the
    one that has not seen the instance. What the crowd said about it is then checked by an independent witness, and
    training needs no true labels to be stopped in time.

    .. math::
        q_i(c) \propto \tilde f^{(-k_i)}_c(x_i) \prod_r \bigl( \bar\pi^r_{c, y_i^r} \bigr)^\gamma
            (\rho^*_c / \bar\rho_c)^\kappa, \qquad
        \mathcal L = - \frac{1}{(K - 1) N} \sum_k \sum_{i : k_i \ne k} \sum_c q_i(c) \log f^{(k)}_c(x_i)

    :math:`\bar\pi^r` is the annotator's confusion, drawn to everybody's by a few pseudo-labels. The paper's two kinds
    of confusion and :math:`\omega_r` are fitted beside it: they infer the first q, which one matrix per annotator gets
    wrong where common mistakes are frequent, and :math:`\omega_r` says how common an annotator's labels are.

    The votes' weight :math:`\gamma < 1` allows for mistakes that annotators make together. :math:`\tilde f` is f at
    the temperature that fits q best: where features say little, networks that are sure all the same would outvote the
    crowd. The first q come from the two kinds of confusion on the annotations alone; networks are trained on them for a
    while, and then q is inferred again every few epochs. Predictions are the mean of the K networks, each with the
    moving average of its weights. Nothing decides which name a class has but the votes: after every E-step, names are
    given so that annotators are right as often as possible. A class prior :math:`\rho^*` counts only where the user
    states one.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI.
    Chernozhukov, Chetverikov, Demirer, Duflo, Hansen, Newey and Robins (2018). Double/debiased machine learning for
    treatment and structural parameters. The Econometrics Journal 21 (for cross-fitting).

    Example
    -------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=1)
    >>> clf = conal.CrossCoNAL(epochs=30).fit(data.x, data.annotations)
    >>> clf.metrics_["selection"], clf.predict(data.test.x).shape
    ('last', (1000,))
    """

    models_annotators = True
    separates_noise = True
    prior_in_e_step = True
    own_selection = "last"
    plans_epochs = True
    estimator_name = "CrossCoNAL"
    defaults: ClassVar[dict[str, Any]] = {"lr": 0.005, "scaling": "robust", "input_dropout": 0.3}

    posterior: Tensor
    epochs_done: Tensor
    fold_of: Tensor
    votes: Tensor
    temperature: Tensor

    folds: int = parameter(default=5, must_be=whole(2), help="K, the number of networks and folds.")
    vote_weight: float = parameter(
        default=0.7, must_be=number(above=0), help="Exponent gamma of the votes; below 1 it allows for shared mistakes."
    )
    pooling: float = parameter(
        default=1.0,
        must_be=number(above=0),
        help="Pseudo-labels by which an annotator's own confusion is drawn to the common one.",
    )
    start: float = parameter(default=0.2, must_be=share(), help="Share of the epochs on the first inferred labels.")
    rounds: int = parameter(
        default=17, must_be=whole(1), help="E-steps after that, evenly spaced; the last is at the end of training."
    )
    averaging: float = parameter(
        default=0.98,
        must_be=number(at_least=0, below=1),
        help="Decay of the moving average of the weights, per step; 0 for none.",
    )
    calibrate: bool = parameter(
        default=True, must_be=flag(), help="Whether the networks' temperature is fitted before each E-step."
    )
    noise_model: Literal["both", "mixture", "pooled"] = parameter(
        default="both",
        must_be=one_of("both", "mixture", "pooled"),
        help="Noise model of the E-step: 'mixture' of common and individual confusion with a learned omega per "
        "annotator; 'pooled', one matrix per annotator, drawn to the common one; 'both', the first for the first "
        "inferred labels and the second from then on.",
        alias="confusion",
    )
    n_jobs: int = parameter(
        default=1,
        must_be=whole(1),
        help="Networks that are trained at a time, in threads; with more than one, the same seed gives as good a "
        "model, but not the same bit for bit.",
    )

    def __init__(self, problem: Problem, backbone: nn.Module, **given: Any) -> None:
        super().__init__(problem, backbone, **given)
        self.due = due_epochs(problem.epochs, self.start, self.rounds)
        self.others = nn.ModuleList(fresh_copy(backbone) for _ in range(self.folds - 1))
        self.averages = WeightAverage(self.backbones, self.averaging)
        sizes = problem.n_annotators, problem.n_classes, self.pooling
        self.noise = TwoSources(*sizes, learn_omega=self.noise_model != "pooled")
        self.pooled_noise = TwoSources(*sizes, learn_omega=False) if self.noise_model == "both" else None
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("epochs_done", torch.zeros((), dtype=torch.int64), persistent=False)

    @torch.no_grad()
    def prepare(self, annotations: Annotations) -> None:
        """Draw the folds, and infer the labels from the annotations alone."""
        fold_of = torch.randperm(annotations.n_tasks) % self.folds
        self.register_buffer("fold_of", fold_of, persistent=False)
        self.register_buffer("votes", torch.from_numpy(annotations.votes()).float(), persistent=False)
        self.register_buffer("posterior", self._first_posterior(annotations), persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the networks of the cross-entropy to the inferred labels, each on what its fold leaves."""
        target, fold = self.posterior[batch.instances], self.fold_of[batch.instances]
        weight = batch.instance_weight * self.folds / (self.folds - 1)  # one over what a network sees of a batch
        parts: list[Part] = []
        for k, network in enumerate(self.backbones):
            seen = torch.nonzero(fold != k).squeeze(1)
            if len(seen) > 1:  # batch normalisation cannot take a single one
                parts.append((network, partial(_fit_loss, network, batch.x[seen], target[seen], weight)))
            else:  # no loss, but gradients: processes that share a batch wait for those of all networks
                parts.append((network, partial(_no_loss, network)))
        return mean_loss(parts, self.n_jobs)

    def end_step(self) -> None:
        """The average follows the weights."""
        self.averages.update(self.backbones)

    @torch.no_grad()
    def end_epoch(self, batches: Iterable[Batch]) -> None:
        """When it is due: ask the networks about what they have not seen, infer the labels, fit the confusion."""
        self.epochs_done += 1
        if int(self.epochs_done) in self.due:
            self.eval()
            self.em_round(batches)

    def em_round(self, batches: Iterable[Batch]) -> None:
        """One cross-fitted E-step and the closed forms of the M-step."""
        heard = self._hear(batches)
        before = self.posterior[heard.instances]
        if self.calibrate:
            self.temperature.copy_(fit_temperature(heard.log_class, before))
        self.meet_prior(before.mean(0))
        log_class = (heard.log_class * self.temperature + self.prior_shift).log_softmax(-1)
        q = log_class.index_add(0, heard.rows, self.vote_weight * heard.evidence).softmax(-1)
        if q.isnan().any():
            raise DivergenceError(
                "the inferred labels became nan; lower lr, or scale the features (scaling='standard')"
            )
        order = aligned_with_votes(q.T @ self.votes[heard.instances])
        q = q[:, order]
        self.noise.reorder(order)
        self.posterior[heard.instances] = q
        self._fit_noise(self._counts(q, heard))

    def class_logits(self, x: Tensor) -> Tensor:
        """(N, C) log of the networks' mean probabilities."""
        each = torch.stack([network(x).log_softmax(-1) for network in self._predictors()])
        return each.logsumexp(0) - math.log(len(each))

    def log_prob_given_class(self, batch: Batch) -> Tensor:
        """(P, C) log of the annotators' confusion at the observed labels, as the E-step hears them."""
        return self._heard.log_prob(batch.annotators, batch.labels, self.is_known(batch.annotators))

    @torch.no_grad()
    def infer(self, batch: Batch) -> Tensor:
        """(N, C) P(z | x, all labels): as in the E-step, but by all networks, for instances that none has seen."""
        scaled = self._scaled(batch)
        log_joint = (self.class_logits(scaled.x) * self.temperature + self.prior_shift).log_softmax(-1)
        evidence = self.vote_weight * self.log_prob_given_class(scaled)
        return log_joint.index_add(0, batch.rows, evidence).softmax(-1)

    @torch.no_grad()
    def common_noise_rate(self, batch: Batch) -> Tensor:
        """(P,) omega of the batch's annotators; 1 for annotators without training labels."""
        return self.noise.rate(batch.annotators, self.is_known(batch.annotators))

    def confusion(self) -> tuple[Tensor, Tensor]:
        """The crowd's confusion and the annotators', as they are heard; those without labels are given the crowd's.

        The pooled matrix of all is nearer to the common confusion of simulated crowds than that of the two sources: how
        mistakes divide between these is hardly identified, and most of them are taken for individual ones.
        """
        return self._heard.pi_g, self.known_or_common(self._heard.pi_g, self._heard.pi_r)

    def training_posterior(self) -> Tensor:
        """(N, C) the cross-fitted posterior of every training task; NaN for tasks without training labels."""
        return torch.where(self.votes.sum(1, keepdim=True) > 0, self.posterior, torch.nan)

    def working_state(self) -> dict[str, Tensor]:
        """The posterior, the folds, and where in a round training is."""
        return {"posterior": self.posterior, "fold_of": self.fold_of, "epochs_done": self.epochs_done}

    # ---------------------------------------------------------------- inside

    @property
    def backbones(self) -> list[nn.Module]:
        """The K networks, each trained without one fold."""
        return [self.backbone, *self.others]

    @property
    def _heard(self) -> TwoSources:
        """The model of the annotators that the E-step goes by."""
        return self.noise if self.pooled_noise is None else self.pooled_noise

    def _predictors(self) -> list[nn.Module]:
        return self.backbones if self.training else list(self.averages.networks)

    def _first_posterior(self, annotations: Annotations) -> Tensor:
        """EM of the two kinds of confusion on the annotations alone, from the vote shares."""
        votes = Votes(annotations)
        q = torch.from_numpy(vote_shares(annotations)).float()
        tasks, annotators, labels = (
            torch.from_numpy(column.astype("int64"))
            for column in (annotations.tasks, annotations.annotators, annotations.labels)
        )
        known = torch.ones_like(annotators, dtype=torch.bool)
        for _ in range(START_ROUNDS):
            self.noise.fit(torch.from_numpy(votes.counts(q.double().numpy()).copy()).float())
            log_shares = ((q.sum(0) + 1) / (len(q) + q.shape[1])).log()
            evidence = self.noise.log_prob(annotators, labels, known)
            q = log_shares.expand_as(q).index_add(0, tasks, evidence).softmax(-1)
        order = aligned_with_votes(q.T @ self.votes)
        self.noise.reorder(order)
        q = q[:, order]
        self._fit_noise(torch.from_numpy(votes.counts(q.double().numpy()).copy()).float())
        return q

    def _fit_noise(self, counts: Tensor) -> None:
        """Both models of the crowd, from expected counts (R, C, C)."""
        self.noise.fit(counts)
        if self.pooled_noise is not None:
            self.pooled_noise.fit(counts)

    def _hear(self, batches: Iterable[Batch]) -> Heard:
        """Ask about every training instance the network that was trained without it, and collect the votes."""
        parts, start = [], 0
        for batch in batches:
            x, fold = self.scaler(batch.x), self.fold_of[batch.instances]
            each = torch.stack([network(x).float().log_softmax(-1) for network in self.averages.networks])
            unseen = each[fold, torch.arange(len(x), device=fold.device)]
            evidence = self.log_prob_given_class(batch)
            parts.append(Heard(unseen, batch.instances, batch.rows + start, batch.annotators, batch.labels, evidence))
            start += len(x)
        return Heard(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _counts(self, q: Tensor, heard: Heard) -> Tensor:
        """(R, C, C) expected counts ``[r, true, observed]``."""
        R, C = self.problem.n_annotators, self.problem.n_classes
        cells = heard.annotators * C + heard.labels
        return q.new_zeros(R * C, C).index_add_(0, cells, q[heard.rows]).view(R, C, C).transpose(1, 2)


def _fit_loss(network: nn.Module, x: Tensor, target: Tensor, weight: float) -> Tensor:
    return cross_entropy(network(x), target, reduction="sum") * weight


def _no_loss(network: nn.Module) -> Tensor:
    return torch.stack([parameter.sum() * 0 for parameter in network.parameters()]).sum()


def due_epochs(epochs: int, start: float, rounds: int) -> set[int]:
    """After which epochs there is an E-step.

    >>> sorted(due_epochs(100, start=0.2, rounds=5))
    [20, 40, 60, 80, 100]
    """
    first = max(1, round(start * epochs))
    return {round(first + k * (epochs - first) / max(rounds - 1, 1)) for k in range(rounds)}


def aligned_with_votes(agreement: Tensor) -> Tensor:
    """(C,) which inferred class stands for each name, so that the diagonal of the confusion is largest.

    Mistakes and truth can change places without any change in the likelihood, two classes at a time or in a ring. That
    people are more often right than wrong in one particular way is what breaks the tie.

    Parameters
    ----------
    agreement : (C, C) tensor
        Expected votes ``[inferred class, observed label]``.

    Example
    -------
    >>> aligned_with_votes(torch.tensor([[1.0, 9.0], [8.0, 2.0]])).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    confusion = agreement.double() / agreement.double().sum(1, keepdim=True).clamp(min=1e-9)
    inferred, names = linear_sum_assignment(confusion.cpu().numpy(), maximize=True)
    order = torch.empty(len(names), dtype=torch.int64)
    order[torch.from_numpy(names)] = torch.from_numpy(inferred)
    return order.to(agreement.device)
