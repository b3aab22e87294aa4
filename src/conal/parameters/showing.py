"""What a report shows of tasks and annotators, beside the figures about them."""

from __future__ import annotations

from conal.parameters.constraints import anything
from conal.parameters.declaration import Option, Parameterised, parameter

__all__ = ["ShowOptions"]


class ShowOptions(Parameterised):
    """Pictures and addresses of tasks, and names of annotators, for the report.

    Examples
    --------
    >>> ShowOptions(images="photos").images
    'photos'
    """

    images: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Folder of pictures, for the report. A file shows the task whose id is its name, with or without ending.",
        option=Option(),
    )
    link: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Address of a task on its platform, for the report, in which {task} stands for the task's id.",
        option=Option(
            help="Address of a task on its platform, for the report, with {task} in place of the id, such as "
            "https://host/projects/1/data?task={task}."
        ),
    )
    names: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Table of the annotators' ids and their names or e-mail addresses, which the report then shows.",
        option=Option(),
    )
