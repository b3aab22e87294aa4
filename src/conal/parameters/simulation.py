"""Settings of simulated crowds, and of the synthetic dataset around one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from conal.errors import InputError
from conal.parameters.constraints import anything, number, one_of, several_of, share, whole
from conal.parameters.declaration import FrozenParameters, parameter

CommonType = Literal["asymmetric", "symmetric"]
GateKind = Literal["interaction", "effects"]
ADVERSARIES = ("spammers", "clickers", "ring", "copyists", "sleepers")
"""Kinds of annotators who mean harm."""
Pairs = Mapping[Any, Any] | Sequence[tuple[Any, Any]]


class CrowdSettings(FrozenParameters):
    """How a simulated crowd errs. The defaults are the paper's, where it states them.

    An instance gets 1 + Binomial(R - 1, p) labels with p = (labels_per_instance - 1) / (R - 1): the mean is exact,
    and every instance has a label. The paper fixes "individual noise strength 0.7" and calls its annotators "of high
    quality". The default individual_strength, 0.3, reads this as an accuracy of 0.7; the other reading is 0.7.
    Each step of the generator has its own random numbers: with the same seed, a different strength does not change
    which annotator labels which instance.
    """

    n_annotators: int = parameter(default=30, must_be=whole(1), help="Number of annotators, R.")
    labels_per_instance: float = parameter(
        default=3.0,
        must_be=number(at_least=1),
        help="Mean number of labels per training instance, at most the number of annotators.",
    )
    prolific_share: float = parameter(
        default=0.0,
        must_be=number(at_least=0, at_most=1),
        help="Share of the instances that the first annotator labels in addition to those that chance gives.",
    )
    common_strength: float = parameter(
        default=0.4,
        must_be=number(at_least=0, at_most=1),
        help="Probability of a mistake under the common confusion (off-diagonal mass of each corrupted row).",
    )
    common_type: CommonType = parameter(
        default="asymmetric",
        must_be=one_of("asymmetric", "symmetric"),
        help="Common confusion. asymmetric: each class is taken for one other class, chosen at random; symmetric: "
        "classes are paired at random and swapped, and a class without a partner stays uncorrupted.",
    )
    individual_strength: float = parameter(
        default=0.3,
        must_be=number(at_least=0, at_most=1),
        help="Probability of a mistake under an annotator's own, asymmetric confusion (off-diagonal mass).",
    )
    families: int = parameter(
        default=0,
        must_be=whole(0),
        help="Number of families of annotators, who share a part of their own confusion; with 0, there are none.",
    )
    family_share: float = parameter(
        default=0.7,
        must_be=number(at_least=0, at_most=1),
        help="Share of an annotator's own confusion that is the family's, which is asymmetric too.",
    )
    proportion: float = parameter(
        default=0.5,
        must_be=number(at_least=0, at_most=1),
        help="Mean of omega, the probability that a label comes from the common confusion; with 0, none does.",
    )
    gate: GateKind = parameter(
        default="interaction",
        must_be=one_of("interaction", "effects"),
        help="Where omega comes from. effects: the paper's Equation 3, with bias vectors, so that some instances are "
        "difficult for all and some annotators lean on common confusion everywhere; interaction: embeddings of unit "
        "length and one bias, so that nearly all of omega is particular to a pair of instance and annotator.",
    )
    gate_scale: float = parameter(
        default=4.0,
        must_be=number(at_least=0, at_most=1e6),
        help="How much omega varies between instances and annotators; 0 makes it constant. With the gate 'effects' it "
        "is the standard deviation of omega's log-odds.",
    )
    difficulty_share: float = parameter(
        default=0.35,
        must_be=number(at_least=0, at_most=1),
        help="Share of omega's variance that is between instances, with the gate 'effects'.",
    )
    expertise_share: float = parameter(
        default=0.2,
        must_be=number(at_least=0, at_most=1),
        help="Share of omega's variance that is between annotators, with the gate 'effects'; the rest is interaction.",
    )
    embedding_dim: int = parameter(
        default=20,
        must_be=whole(1),
        help="Dimension of the embeddings of instances and annotators, from which omega is computed.",
    )
    pairs: Pairs | None = parameter(
        default=None,
        must_be=anything(),
        help="Classes to confuse, by name, instead of random ones: {true: observed} for asymmetric, [(a, b), ...] for "
        "symmetric confusion. Classes that are not mentioned stay uncorrupted.",
    )
    adversaries: str = parameter(
        default="",
        must_be=several_of(*ADVERSARIES),
        help="Annotators who mean harm, one kind or several with commas. spammers: each says one class; clickers: "
        "any class at random; ring: all exchange the classes in the same way; copyists: each copies an honest "
        "annotator, whose tasks they take; sleepers: honest first, clickers after turn_after labels.",
    )
    adversary_share: float = parameter(
        default=0.2,
        must_be=share(),
        help="Share of the annotators who mean harm, if there are any, in equal parts of all kinds.",
    )
    copied_share: float = parameter(
        default=0.9,
        must_be=number(at_least=0, at_most=1),
        help="Share of the labels that copyists copy, on tasks of their source; the others are their own.",
    )
    turn_after: int = parameter(default=50, must_be=whole(0), help="Number of labels that sleepers give honestly.")
    seed: int = parameter(default=0, must_be=whole(0), help="Random seed; the same seed and data give the same crowd.")

    def __post_init__(self) -> None:
        super().__post_init__()
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


class SyntheticSettings(CrowdSettings):
    """The synthetic dataset: its instances, and the crowd that labels them."""

    n_train: int = parameter(
        default=8000, must_be=whole(1), help="Number of training instances, labelled by the crowd."
    )
    n_valid: int = parameter(default=1000, must_be=whole(0), help="Number of validation instances, with true labels.")
    n_test: int = parameter(default=1000, must_be=whole(0), help="Number of test instances, with true labels.")
    n_classes: int = parameter(default=6, must_be=whole(2), help="Number of classes.")
    n_features: int = parameter(default=20, must_be=whole(1), help="Number of features.")
    separation: float = parameter(
        default=0.85,
        must_be=number(at_least=0, at_most=1e6),
        help="Standard deviation of the class means; around its mean, a class has standard deviation 1.",
    )


class OrdinalSettings(FrozenParameters):
    """How a simulated crowd grades on a scale."""

    n_tasks: int = parameter(default=500, must_be=whole(1), help="Number of tasks.")
    n_levels: int = parameter(default=5, must_be=whole(2), help="Number of levels, C, called 1 to C.")
    labels_per_task: int = parameter(default=5, must_be=whole(1), help="Number of labels of every task.")
    labels_per_annotator: int = parameter(
        default=20,
        must_be=whole(1),
        help="Number of labels of every annotator; some have fewer where it does not divide the number of tasks.",
    )
    bias: float = parameter(
        default=0.5, must_be=number(at_least=0), help="Standard deviation of the annotators' biases, in levels."
    )
    slope: float = parameter(
        default=0.15, must_be=number(at_least=0), help="Standard deviation of the annotators' slopes around 1."
    )
    spread: float = parameter(
        default=1.0, must_be=number(above=0), help="Median of the annotators' spreads, in levels."
    )
    variation: float = parameter(
        default=0.5, must_be=number(at_least=0), help="Standard deviation of the logarithms of the spreads."
    )
    guesses: float = parameter(
        default=0.02, must_be=number(at_least=0, at_most=1), help="Share of the labels that are given at random."
    )
    fall_off: Literal["discrete", "rounded"] = parameter(
        default="discrete",
        must_be=one_of("discrete", "rounded"),
        help="How labels fall off with distance: a normal density at the levels, or a normal variable, rounded.",
    )
    seed: int = parameter(default=0, must_be=whole(0), help="Random seed.")
