"""Settings of simulated crowds, and of the synthetic dataset around one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from conal.errors import InputError
from conal.parameters import Doc, check_parameters, fraction, frozen_parameters, number, several_of, share, whole

CommonType = Literal["asymmetric", "symmetric"]
FamilyConfusion = Literal["individual", "common"]
GateKind = Literal["interaction", "effects"]
GATE_SCALES = {"paper": 1.0, "wide": 4.0}
ADVERSARIES = ("spammers", "clickers", "ring", "followers", "copyists", "sleepers")
"""Kinds of annotators who mean harm."""
Pairs = Mapping[Any, Any] | Sequence[tuple[Any, Any]]


@frozen_parameters
class CrowdSettings:
    """How a simulated crowd errs. The defaults are the paper's, where it states them.

    An instance gets 1 + Binomial(R - 1, p) labels with p = (labels_per_instance - 1) / (R - 1): the mean is exact,
    and every instance has a label. The paper fixes "individual noise strength 0.7" and calls its annotators "of high
    quality". The default individual_strength, 0.3, reads this as an accuracy of 0.7; the other reading is 0.7.
    Each step of the generator has its own random numbers: with the same seed, a different strength does not change
    which annotator labels which instance.
    """

    n_annotators: Annotated[int, whole(1), Doc("Number of annotators, R.")] = 30
    labels_per_instance: Annotated[
        float, number(at_least=1), Doc("Mean number of labels per training instance, at most the number of annotators.")
    ] = 3.0
    common_strength: Annotated[
        float,
        fraction(),
        Doc("Probability of a mistake under the common confusion (off-diagonal mass of each corrupted row)."),
    ] = 0.4
    common_type: Annotated[
        CommonType,
        Doc(
            "Common confusion. asymmetric: each class is taken for one other class, chosen at random; symmetric: "
            "classes are paired at random and swapped, and a class without a partner stays uncorrupted."
        ),
    ] = "asymmetric"
    individual_strength: Annotated[
        float,
        fraction(),
        Doc("Probability of a mistake under an annotator's own, asymmetric confusion (off-diagonal mass)."),
    ] = 0.3
    families: Annotated[
        int,
        whole(0),
        Doc("Number of families of annotators, who share a part of their own confusion; with 0, there are none."),
    ] = 0
    family_share: Annotated[
        float, fraction(), Doc("Share of an annotator's own confusion that is the family's, which is asymmetric too.")
    ] = 0.7
    families_share: Annotated[
        FamilyConfusion,
        Doc(
            "What a family shares. individual: family_share of its members' own confusion; common: a common confusion "
            "of the family, in the place of the crowd's."
        ),
    ] = "individual"
    proportion: Annotated[
        float,
        fraction(),
        Doc("Mean of omega, the probability that a label comes from the common confusion; with 0, none does."),
    ] = 0.5
    gate: Annotated[
        GateKind,
        Doc(
            "Where omega comes from. effects: the paper's Equation 3, with bias vectors, so that some instances are "
            "difficult for all and some annotators lean on common confusion everywhere; interaction: one bias, so "
            "that nearly all of omega is particular to a pair of instance and annotator."
        ),
    ] = "effects"
    gate_scale: Annotated[
        float | Literal["paper", "wide"],
        number(at_least=0, at_most=1e6),
        Doc(
            "Range of omega. paper: from 0.27 to 0.73 where the proportion is one half, as embeddings of length 1 "
            "have it, and elsewhere its log-odds within 1 of their middle; wide: nearly from 0 to 1. A number is the "
            "standard deviation of its log-odds, or with the gate 'interaction' their range to either side; 'wide' is "
            "4, and 0 makes omega constant."
        ),
    ] = "paper"
    difficulty_share: Annotated[
        float, fraction(), Doc("Share of omega's variance that is between instances, with the gate 'effects'.")
    ] = 0.35
    expertise_share: Annotated[
        float,
        fraction(),
        Doc("Share of omega's variance that is between annotators, with the gate 'effects'; the rest is interaction."),
    ] = 0.2
    embedding_dim: Annotated[
        int, whole(1), Doc("Dimension of the embeddings of instances and annotators, from which omega is computed.")
    ] = 20
    pairs: Annotated[
        Pairs | None,
        Doc(
            "Classes to confuse, by name, instead of random ones: {true: observed} for asymmetric, [(a, b), ...] for "
            "symmetric confusion. Classes that are not mentioned stay uncorrupted."
        ),
    ] = None
    adversaries: Annotated[
        str,
        several_of(*ADVERSARIES),
        Doc(
            "Annotators who mean harm, one kind or several with commas. spammers: each says one class; clickers: "
            "any class at random; ring: all exchange the classes in the same way; followers: make the common mistake "
            "about every task of a class that has one, and no other; copyists: each copies an honest annotator, whose "
            "tasks they take; sleepers: honest first, clickers after turn_after labels."
        ),
    ] = ""
    adversary_share: Annotated[
        float, share(), Doc("Share of the annotators who mean harm, if there are any, in equal parts of all kinds.")
    ] = 0.2
    copied_share: Annotated[
        float,
        fraction(),
        Doc("Share of the labels that copyists copy, on tasks of their source; the others are their own."),
    ] = 0.9
    turn_after: Annotated[int, whole(0), Doc("Number of labels that sleepers give honestly.")] = 50
    seed: Annotated[int, whole(0), Doc("Random seed; the same seed and data give the same crowd.")] = 0

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.labels_per_instance > self.n_annotators:
            raise InputError(
                f"labels_per_instance must be at most n_annotators, {self.n_annotators}, "
                f"not {self.labels_per_instance!r}"
            )
        if self.families > self.n_annotators:
            raise InputError(f"families must be at most n_annotators, {self.n_annotators}, not {self.families}")
        if self.difficulty_share + self.expertise_share > 1:
            raise InputError(
                "difficulty_share and expertise_share must be at most 1 together, not "
                f"{self.difficulty_share + self.expertise_share:g}"
            )


@frozen_parameters
class SyntheticSettings(CrowdSettings):
    """The synthetic dataset: its instances, and the crowd that labels them."""

    n_train: Annotated[int, whole(1), Doc("Number of training instances, labelled by the crowd.")] = 8000
    n_valid: Annotated[int, whole(0), Doc("Number of validation instances, with true labels.")] = 1000
    n_test: Annotated[int, whole(0), Doc("Number of test instances, with true labels.")] = 1000
    n_classes: Annotated[int, whole(2), Doc("Number of classes.")] = 6
    n_features: Annotated[int, whole(1), Doc("Number of features.")] = 20
    separation: Annotated[
        float,
        number(at_least=0, at_most=1e6),
        Doc("Standard deviation of the class means; around its mean, a class has standard deviation 1."),
    ] = 0.85
