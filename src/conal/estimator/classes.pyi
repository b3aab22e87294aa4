"""Made by tools/stubs.py from what the methods declare; do not edit."""

from collections.abc import Sequence
from typing import Literal

from conal.estimator.classifier import CrowdClassifier
from conal.networks.backbones import Backbone
from conal.networks.noise_layers import Layer, Mixing
from conal.parameters.training import ClassPrior, Scaling

__all__ = ["CoNAL", "CrossCoNAL"]

class CoNAL(CrowdClassifier):
    embedding_dim: int
    lam: float
    mixing: Mixing
    layer: Layer
    likelihood: Literal["annotation", "joint"]
    start: float
    omega_scale: float | Literal["learn"]
    backbone: Backbone
    hidden: Sequence[int]
    dropout: float
    input_dropout: float
    batch_norm: bool
    scaling: Scaling | None
    selection: str
    holdout: float
    class_prior: ClassPrior
    ensemble: int
    refits: int | Literal["auto"]
    text_components: int
    encoder: str | None
    verbose: bool
    lr: float
    weight_decay: float
    epochs: int | Literal["auto"]
    batch_size: int
    warmup_epochs: int | Literal["auto"]
    schedule: Literal["auto", "constant", "cosine"]
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
        embedding_dim: int = 20,
        lam: float = 1e-05,
        mixing: Mixing = "probability",
        layer: Layer = "softmax",
        likelihood: Literal["annotation", "joint"] = "annotation",
        start: float = 2.0,
        omega_scale: float | Literal["learn"] = "learn",
        backbone: Backbone = "mlp",
        hidden: Sequence[int] = (128,),
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
        scaling: Scaling | None = None,
        selection: str = "auto",
        holdout: float = 0.1,
        class_prior: ClassPrior = "estimate",
        ensemble: int = 1,
        refits: int | Literal["auto"] = "auto",
        text_components: int = 200,
        encoder: str | None = None,
        verbose: bool = True,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int = 256,
        warmup_epochs: int | Literal["auto"] = "auto",
        schedule: Literal["auto", "constant", "cosine"] = "auto",
        patience: int | None = None,
        max_restarts: int = 2,
        seed: int = 0,
        accelerator: str = "auto",
        devices: int = 1,
        num_nodes: int = 1,
        precision: str = "32-true",
    ) -> None: ...

class CrossCoNAL(CrowdClassifier):
    vote_weight: float
    pooling: float
    start: float
    rounds: int
    confusion: Literal["both", "mixture", "pooled"]
    confidence: Literal["held-out", "model"]
    folds: int | Literal["auto"]
    averaging: float
    calibrate: bool
    second_classifier: Literal["lda", "none"]
    backbone: Backbone
    hidden: Sequence[int]
    dropout: float
    input_dropout: float
    batch_norm: bool
    scaling: Scaling | None
    selection: str
    holdout: float
    class_prior: ClassPrior
    ensemble: int
    refits: int | Literal["auto"]
    text_components: int
    encoder: str | None
    verbose: bool
    lr: float
    weight_decay: float
    epochs: int | Literal["auto"]
    batch_size: int
    warmup_epochs: int | Literal["auto"]
    schedule: Literal["auto", "constant", "cosine"]
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
        vote_weight: float = 0.7,
        pooling: float = 1.0,
        start: float = 0.2,
        rounds: int = 17,
        confusion: Literal["both", "mixture", "pooled"] = "both",
        confidence: Literal["held-out", "model"] = "held-out",
        folds: int | Literal["auto"] = "auto",
        averaging: float = 0.98,
        calibrate: bool = True,
        second_classifier: Literal["lda", "none"] = "lda",
        backbone: Backbone = "mlp",
        hidden: Sequence[int] = (128,),
        dropout: float = 0.5,
        input_dropout: float = 0.3,
        batch_norm: bool = False,
        scaling: Scaling | None = None,
        selection: str = "auto",
        holdout: float = 0.1,
        class_prior: ClassPrior = "estimate",
        ensemble: int = 1,
        refits: int | Literal["auto"] = "auto",
        text_components: int = 200,
        encoder: str | None = None,
        verbose: bool = True,
        lr: float = 0.005,
        weight_decay: float = 0.0,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int = 256,
        warmup_epochs: int | Literal["auto"] = "auto",
        schedule: Literal["auto", "constant", "cosine"] = "auto",
        patience: int | None = None,
        max_restarts: int = 2,
        seed: int = 0,
        accelerator: str = "auto",
        devices: int = 1,
        num_nodes: int = 1,
        precision: str = "32-true",
    ) -> None: ...
