"""What reports and model folders show of tasks and annotators."""

from __future__ import annotations

from conal.errors import InputError
from conal.parameters.constraints import anything, flag, number, optional, whole
from conal.parameters.declaration import Option, Parameterised, parameter

__all__ = ["PrivacyOptions", "ReleaseOptions", "ShowOptions"]


# What a model folder says about the annotators.


class PrivacyOptions(Parameterised):
    """Whether annotators have their own names in the output, and how much it tells about each.

    Examples
    --------
    >>> PrivacyOptions(anonymise=True).hide_below
    10
    """

    anonymise: bool = parameter(
        default=False,
        must_be=flag(),
        help="Replace the annotators' names by pseudonyms in all output, round figures about annotators, and hide "
        "those with few labels.",
        option=Option(),
    )
    hide_below: int = parameter(
        default=10,
        must_be=whole(1),
        help="Annotators with fewer labels are in no table and not in the model, where they count as unknown ones.",
        option=Option(help="With --anonymise: leave annotators with fewer labels out of all tables and of the model."),
    )
    pseudonym_key: str | None = parameter(
        default=None,
        must_be=anything(),
        help="File with a secret key; with the same key, annotators have the same pseudonyms in every model. It is "
        "created if it does not exist. By default the key is random and thrown away.",
        option=Option(
            help="With --anonymise: file with a secret key, created if it does not exist. The same key gives the same "
            "pseudonyms (default: a random key that is thrown away)."
        ),
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        for name in ("hide_below", "pseudonym_key"):
            found = self.declared[name]
            if not self.anonymise and getattr(self, name) != found.default:
                raise InputError(f"{found.flag} needs --anonymise; add it, or remove {found.flag}")


class ReleaseOptions(Parameterised):
    """What `conal aggregate` tells about single annotators: everything, less about those with few labels, or nothing.

    Examples
    --------
    >>> ReleaseOptions(private=0.5).max_labels
    10
    """

    private: float | None = parameter(
        default=None,
        must_be=optional(number(at_least=1e-9, at_most=100)),  # with less, counts are nothing but noise
        help="Epsilon of a differentially private release; by default, results are not private.",
        option=Option(
            metavar="EPSILON",
            help="Write only a differentially private release into the folder --out: the common confusion, that of "
            "groups, and class shares, counted beside --true-labels, with noise that hides each annotator's whole "
            "contribution. The smaller, the more noise; 1 is usual.",
        ),
    )
    # Error by epsilon, people, classes and this bound: studies/results/0.2.0/privacy.csv.
    max_labels: int = parameter(
        default=10,
        must_be=whole(1, below=10**6),
        help="The largest weight of a person in a private release: more labels count as much as this many.",
        option=Option(
            help="With --private: labels of an annotator who gave more weigh as much as this many. The more, the more "
            "noise. Do not choose it by looking at the labels."
        ),
    )
    min_labels: int | None = parameter(
        default=None,
        must_be=optional(whole(1)),
        help="Leave annotators with fewer labels out of tables about annotators and of the report, and round the "
        "figures of the others, as hide_below does for anonymous models.",
        option=Option(
            help="Leave annotators with fewer labels out of --annotators, --confusion and --report, and round the "
            "figures of the others."
        ),
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        if self.private is None and self.max_labels != type(self).max_labels:
            raise InputError("--max-labels needs --private; add it, or remove --max-labels")
        if self.private is not None and self.min_labels is not None:
            raise InputError("--min-labels: a private release has no tables about annotators; remove --min-labels")


# What a report shows of tasks and annotators, beside the figures about them.


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
