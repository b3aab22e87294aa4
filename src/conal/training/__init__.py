"""The training loop and what it needs: batches of observed pairs, selection, checkpoints, progress."""

from conal.parameters.training import Settings
from conal.training.batches import CrowdBatches, Instances
from conal.training.checkpoint import WarmStart
from conal.training.loop import TrainingResult, train
from conal.training.scaling import fit_scaler
from conal.training.selection import AnnotationLikelihood, GoldAccuracy, LastEpoch, Selection, hold_out

__all__ = [
    "AnnotationLikelihood",
    "CrowdBatches",
    "GoldAccuracy",
    "Instances",
    "LastEpoch",
    "Selection",
    "Settings",
    "TrainingResult",
    "WarmStart",
    "fit_scaler",
    "hold_out",
    "train",
]
