"""What the report of a fitted estimator shows of the tasks: features that are pictures are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from conal.data.encoding import Names
from conal.io.images import Drawing, Source, drawing_of
from conal.report.evidence import plain_names
from conal.report.exhibits import Exhibits
from conal.training import Instances

__all__ = ["DrawnInstances", "drawn"]

SAMPLE = 100
"""Instances that are looked at to see whether they are pictures."""


class DrawnInstances:
    """Pictures of tasks, drawn from the features when they are asked for.

    The features stay where they are. A pickled estimator does not contain them, and so has no pictures.
    """

    def __init__(self, instances: Instances | None, task_ids: Names, drawing: Drawing) -> None:
        self.instances, self.task_ids, self.drawing = instances, task_ids, drawing
        self._places: dict[Any, int] | None = None

    def of(self, task: Any) -> Source | None:
        """The picture of a training task."""
        if self.instances is None:
            return None
        if self._places is None:
            self._places = {name: k for k, name in enumerate(plain_names(self.task_ids))}
        place = self._places.get(task)
        return None if place is None else self.drawing.draw(self.instances.take(np.array([place]))[0].numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawnInstances, (None, self.task_ids[:0], self.drawing)


def drawn(instances: Instances, task_ids: Names) -> Exhibits:
    """The instances as pictures, if they look like such."""
    step = max(1, len(instances) // SAMPLE)
    sample = instances.take(np.arange(0, len(instances), step)[:SAMPLE]).numpy()
    drawing = drawing_of(sample)
    return Exhibits() if drawing is None else Exhibits(pictures=(DrawnInstances(instances, task_ids, drawing),))
