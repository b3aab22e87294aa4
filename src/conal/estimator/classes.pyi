"""Made by tools/stubs.py from what the methods declare; do not edit."""

from collections.abc import Sequence
from typing import Literal

from conal.estimator.base import CrowdClassifier
from conal.networks.backbones import Backbone
from conal.networks.noise_adaptation import Layer, Mixing
from conal.parameters.training import ClassPrior, Scaling

__all__ = ["CoNAL", "CrossCoNAL"]

class CoNAL(CrowdClassifier):
    embedding_dim: int
    lam: float
    mixing: Mixing
    layer: Layer
    likelihood: Literal["annotation", "joint"]
    omega_scale: float | Literal["learn"]
    backbone: Backbone
    hidden: Sequence[int]
    dropout: float
    input_dropout: float
    batch_norm: bool
    scaling: Scaling
    selection: str
    holdout: float
    class_prior: ClassPrior
    ensemble: int
    text_components: int
    verbose: bool
    lr: float
    epochs: int
    batch_size: int
    warmup_epochs: int
    schedule: Literal["constant", "cosine"]
    patience: int | None
    max_restarts: int
    seed: int
    accelerator: str
    devices: int
    num_nodes: int
    precision: str
    def __init__(
        self,
        *,
        embedding_dim: int = ...,
        lam: float = ...,
        mixing: Mixing = ...,
        layer: Layer = ...,
        likelihood: Literal["annotation", "joint"] = ...,
        omega_scale: float | Literal["learn"] = ...,
        backbone: Backbone = ...,
        hidden: Sequence[int] = ...,
        dropout: float = ...,
        input_dropout: float = ...,
        batch_norm: bool = ...,
        scaling: Scaling = ...,
        selection: str = ...,
        holdout: float = ...,
        class_prior: ClassPrior = ...,
        ensemble: int = ...,
        text_components: int = ...,
        verbose: bool = ...,
        lr: float = ...,
        epochs: int = ...,
        batch_size: int = ...,
        warmup_epochs: int = ...,
        schedule: Literal["constant", "cosine"] = ...,
        patience: int | None = ...,
        max_restarts: int = ...,
        seed: int = ...,
        accelerator: str = ...,
        devices: int = ...,
        num_nodes: int = ...,
        precision: str = ...,
    ) -> None: ...

class CrossCoNAL(CrowdClassifier):
    folds: int
    vote_weight: float
    pooling: float
    start: float
    rounds: int
    averaging: float
    calibrate: bool
    confusion: Literal["both", "mixture", "pooled"]
    n_jobs: int
    backbone: Backbone
    hidden: Sequence[int]
    dropout: float
    input_dropout: float
    batch_norm: bool
    scaling: Scaling
    selection: str
    holdout: float
    class_prior: ClassPrior
    ensemble: int
    text_components: int
    verbose: bool
    lr: float
    epochs: int
    batch_size: int
    warmup_epochs: int
    schedule: Literal["constant", "cosine"]
    patience: int | None
    max_restarts: int
    seed: int
    accelerator: str
    devices: int
    num_nodes: int
    precision: str
    def __init__(
        self,
        *,
        folds: int = ...,
        vote_weight: float = ...,
        pooling: float = ...,
        start: float = ...,
        rounds: int = ...,
        averaging: float = ...,
        calibrate: bool = ...,
        confusion: Literal["both", "mixture", "pooled"] = ...,
        n_jobs: int = ...,
        backbone: Backbone = ...,
        hidden: Sequence[int] = ...,
        dropout: float = ...,
        input_dropout: float = ...,
        batch_norm: bool = ...,
        scaling: Scaling = ...,
        selection: str = ...,
        holdout: float = ...,
        class_prior: ClassPrior = ...,
        ensemble: int = ...,
        text_components: int = ...,
        verbose: bool = ...,
        lr: float = ...,
        epochs: int = ...,
        batch_size: int = ...,
        warmup_epochs: int = ...,
        schedule: Literal["constant", "cosine"] = ...,
        patience: int | None = ...,
        max_restarts: int = ...,
        seed: int = ...,
        accelerator: str = ...,
        devices: int = ...,
        num_nodes: int = ...,
        precision: str = ...,
    ) -> None: ...
