"""What reports and model folders show of tasks and annotators."""

from __future__ import annotations

from conal.errors import InputError
from conal.parameters.constraints import anything, flag, number, optional, whole
from conal.parameters.declaration import Parameterised, parameter

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
        help="Replace the annotators' names by pseudonyms before anything is fitted, round figures about annotators, "
        "and put those with few labels together.",
        flag="--anonymise",
    )
    hide_below: int = parameter(
        default=10,
        must_be=whole(1),
        help="Annotators with fewer labels have no pseudonym of their own: they count together as a few common ones.",
    )
    pseudonym_key: str | None = parameter(
        default=None,
        must_be=anything(),
        help="File with a secret key; with the same key, annotators have the same pseudonyms in every model. It is "
        "created if it does not exist. By default the key is random and thrown away.",
        parse=str,
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        for name in ("hide_below", "pseudonym_key"):
            if not self.anonymise and getattr(self, name) != self.declared[name].default:
                raise InputError(f"--set {name} needs --anonymise; add it, or leave out {name}")


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
        flag="--private",
    )
    # Error by epsilon, people, classes and this bound: studies/results/0.2.0/privacy.csv.
    max_labels: int = parameter(
        default=10,
        must_be=whole(1, below=10**6),
        help="The largest weight of a person in a private release: more labels count as much as this many. The more, "
        "the more noise. Do not choose it by looking at the labels.",
    )
    min_labels: int | None = parameter(
        default=None,
        must_be=optional(whole(1)),
        help="Leave annotators with fewer labels out of tables about annotators and of the report, and round the "
        "figures of the others, as hide_below does for anonymous models.",
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        if self.private is None and self.max_labels != type(self).max_labels:
            raise InputError("--set max_labels needs --private; add it, or leave out max_labels")
        if self.private is not None and self.min_labels is not None:
            raise InputError("--set min_labels: a private release has no tables about annotators; leave it out")


# What a report shows of tasks and annotators, beside the figures about them.


class ReportOptions(Parameterised):
    """What every report can be told."""

    handicap: float | None = parameter(
        default=None,
        must_be=optional(number(at_least=0, below=1)),
        help="Handicap of people where the report says which models may replace them; it needs a table of annotators "
        "(--annotator-info). By default 0.2, which the test's authors take for experts; they take 0.15 for trained "
        "people and 0.1 for a crowd.",
    )


class ShowOptions(ReportOptions):
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
        flag="--images",
        parse=str,
    )
    link: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Address of a task on its platform, for the report, with {task} in place of the id, such as "
        "https://host/projects/1/data?task={task}.",
        parse=str,
    )
    names: str | None = parameter(
        default=None,
        must_be=anything(),
        help="Table of the annotators' ids and their names or e-mail addresses, which the report then shows.",
        parse=str,
    )
