"""What reports and model folders show of tasks and annotators."""

from __future__ import annotations

from typing import Annotated

from conal.errors import InputError
from conal.parameters.constraints import number, whole
from conal.parameters.declaration import Doc, Option, parameters

# What a model folder says about the annotators.


@parameters
class PrivacyOptions:
    """Whether annotators have their own names in the output, and how much it tells about each.

    Examples
    --------
    >>> PrivacyOptions(anonymise=True).hide_below
    10
    """

    anonymise: Annotated[
        bool,
        Doc(
            "Replace the annotators' names by pseudonyms before anything is fitted, round figures about annotators, "
            "and put those with few labels together."
        ),
        Option("--anonymise"),
    ] = False
    hide_below: Annotated[
        int,
        whole(1),
        Doc("Annotators with fewer labels have no pseudonym of their own: they count together as a few common ones."),
    ] = 10
    pseudonym_key: Annotated[
        str | None,
        Doc(
            "File with a secret key; with the same key, annotators have the same pseudonyms in every model. It is "
            "created if it does not exist. By default the key is random and thrown away."
        ),
        Option(parse=str),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        for name in ("hide_below", "pseudonym_key"):
            if not self.anonymise and getattr(self, name) != getattr(PrivacyOptions, name):
                raise InputError(f"--set {name} needs --anonymise; add it, or leave out {name}")


@parameters
class ReleaseOptions:
    """What `conal aggregate` tells about single annotators: everything, less about those with few labels, or nothing.

    Examples
    --------
    >>> ReleaseOptions(private=0.5).max_labels
    10
    """

    private: Annotated[
        float | None,
        number(at_least=1e-9, at_most=100),
        Doc("Epsilon of a differentially private release; by default, results are not private."),
        Option("--private"),
    ] = None
    # Error by epsilon, people, classes and this bound: studies/results/0.2.0/privacy.csv.
    max_labels: Annotated[
        int,
        whole(1, below=10**6),
        Doc(
            "The largest weight of a person in a private release: more labels count as much as this many. The more, "
            "the more noise. Do not choose it by looking at the labels."
        ),
    ] = 10
    min_labels: Annotated[
        int | None,
        whole(1),
        Doc(
            "Leave annotators with fewer labels out of tables about annotators and of the report, and round the "
            "figures of the others, as hide_below does for anonymous models."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        if self.private is None and self.max_labels != type(self).max_labels:
            raise InputError("--set max_labels needs --private; add it, or leave out max_labels")
        if self.private is not None and self.min_labels is not None:
            raise InputError("--set min_labels: a private release has no tables about annotators; leave it out")


# What a report shows of tasks and annotators, beside the figures about them.


@parameters
class ReportOptions:
    """What every report can be told."""

    handicap: Annotated[
        float | None,
        number(at_least=0, below=1),
        Doc(
            "Handicap of people where the report says which models may replace them; it needs a table of annotators "
            "(--annotator-info). By default 0.2, which the test's authors take for experts; they take 0.15 for trained "
            "people and 0.1 for a crowd."
        ),
    ] = None


@parameters
class ShowOptions(ReportOptions):
    """Pictures and addresses of tasks, and names of annotators, for the report.

    Examples
    --------
    >>> ShowOptions(images="photos").images
    'photos'
    """

    images: Annotated[
        str | None,
        Doc("Folder of pictures, for the report. A file shows the task whose id is its name, with or without ending."),
        Option("--images", parse=str),
    ] = None
    link: Annotated[
        str | None,
        Doc(
            "Address of a task on its platform, for the report, with {task} in place of the id, such as "
            "https://host/projects/1/data?task={task}."
        ),
        Option(parse=str),
    ] = None
    names: Annotated[
        str | None,
        Doc("Table of the annotators' ids and their names or e-mail addresses, which the report then shows."),
        Option(parse=str),
    ] = None
