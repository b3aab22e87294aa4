"""``conal.CoNAL``: the paper's method as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from conal.estimator.base import CrowdClassifier
from conal.methods.class_prior import ClassPrior
from conal.networks.backbones import Backbone
from conal.networks.noise_adaptation import Layer, Mixing
from conal.training.scaling import Scaling

__all__ = ["CoNAL"]


class CoNAL(CrowdClassifier):
    r"""Learning from crowds with common noise adaptation layers.

    Crowd labels are wrong in two ways: mistakes that everybody shares and mistakes of each annotator. CoNAL trains a
    classifier :math:`f` through two kinds of confusion at once and decides for every (instance, annotator) which of
    the two was at work:

    .. math::
        p(y_i^r) = \omega_i^r \, p_{W^g}(y_i^r \mid f(x_i)) + (1 - \omega_i^r) \, p_{W^r}(y_i^r \mid f(x_i)), \quad
        \omega_i^r = \sigma(u_r^\top v_i)

    Parameters
    ----------
    embedding_dim : int
        Dimension of the annotator and instance embeddings behind omega.
    lam : float
        Weight of the term that pushes individual layers away from the common one.
    mixing : {"probability", "logit"}
        Mix the two distributions, as the paper does, or the two logit vectors, as published code does.
    layer : {"softmax", "row-stochastic"}
        A layer computes softmax(f W), or f times a true confusion matrix. The first is the default: on LabelMe's
        validation set it is 0.8 points better (88.2 against 87.4, eight seeds), on held-out Music songs they are
        equal.
    likelihood : {"annotation", "joint"}
        Whether annotations marginalise the true label one by one (the paper's loss) or jointly.
    omega_scale : float or "learn"
        Factor on the inner product behind omega; the paper's 1 keeps omega within [0.27, 0.73].
    backbone, hidden, dropout, input_dropout, batch_norm, scaling, lr, epochs, batch_size, warmup_epochs, schedule, \
selection, holdout, patience, max_restarts, class_prior, ensemble, text_components, accelerator, devices, num_nodes, \
precision, seed, verbose
        As for every method: see :class:`CrowdClassifier`.

    References
    ----------
    Chu, Ma and Wang (2021). Learning from crowds by modeling common confusions. AAAI.

    Example
    -------
    >>> import conal
    >>> data = conal.datasets.synthetic(n_train=300, n_classes=3, seed=1)
    >>> clf = conal.CoNAL(epochs=20, batch_size=32).fit(data.x, data.annotations)
    >>> clf.predict(data.test.x).shape, clf.common_confusion_.shape
    ((1000,), (3, 3))
    """

    method = "conal"

    def __init__(
        self,
        *,
        embedding_dim: int = 20,
        lam: float = 1e-5,
        mixing: Mixing = "probability",
        layer: Layer = "softmax",
        likelihood: Literal["annotation", "joint"] = "annotation",
        omega_scale: float | Literal["learn"] = 1.0,
        backbone: Backbone = "mlp",
        hidden: Sequence[int] = (128,),
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
        scaling: Scaling = "auto",
        lr: float = 0.01,
        epochs: int = 100,
        batch_size: int = 256,
        warmup_epochs: int = 5,
        schedule: Literal["constant", "cosine"] = "constant",
        selection: str = "auto",
        holdout: float = 0.1,
        patience: int | None = None,
        max_restarts: int = 2,
        class_prior: ClassPrior = "estimate",
        ensemble: int = 1,
        text_components: int = 200,
        accelerator: str = "auto",
        devices: int = 1,
        num_nodes: int = 1,
        precision: str = "32-true",
        seed: int = 0,
        verbose: bool = True,
    ) -> None:
        super().__init__(
            backbone=backbone,
            hidden=hidden,
            dropout=dropout,
            input_dropout=input_dropout,
            batch_norm=batch_norm,
            scaling=scaling,
            lr=lr,
            epochs=epochs,
            batch_size=batch_size,
            warmup_epochs=warmup_epochs,
            schedule=schedule,
            selection=selection,
            holdout=holdout,
            patience=patience,
            max_restarts=max_restarts,
            class_prior=class_prior,
            ensemble=ensemble,
            text_components=text_components,
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            precision=precision,
            seed=seed,
            verbose=verbose,
        )
        self.embedding_dim = embedding_dim
        self.lam = lam
        self.mixing = mixing
        self.layer = layer
        self.likelihood = likelihood
        self.omega_scale = omega_scale
