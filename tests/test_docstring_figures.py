"""Measured figures in docstrings and help texts are those of the committed tables; all other figures define something.

A sentence with a measured figure is made here from its table, and must be in the source. Figures that no table has are
said in words there; docs/decisions.md has those that were measured once.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conal import aggregation
from conal.aggregation.auto import NEVER
from conal.datasets.label_sets import JUDGES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "conal"
RESULTS = ROOT / "docs" / "results"
PERFORMANCE = ROOT / "docs" / "performance"

Row = dict[str, str]
Statement = Callable[[], list[str]]
STATEMENTS: dict[str, Statement] = {}
"""By the file, below src/conal, that says them: functions that make sentences from tables."""
WORDS = {
    **dict(
        zip(range(1, 11), ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), strict=True)
    ),
    12: "twelve",
    13: "thirteen",
    19: "nineteen",
    20: "twenty",
}
BASE, CERTAIN = "dawid-skene", ", labels certain and no more"
PARTS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 6: "a sixth"}


def says(path: str) -> Callable[[Statement], Statement]:
    """Register sentences of a file."""

    def register(make: Statement) -> Statement:
        assert path not in STATEMENTS
        STATEMENTS[path] = make
        return make

    return register


# ---------------------------------------------------------------- tables


@cache
def benchmark(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PERFORMANCE / f"{name}.json").read_text(encoding="utf-8"))
    return found


@cache
def table(name: str) -> list[Row]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def select(name: str, **at: object) -> list[Row]:
    """Rows of a table with these values, at least one."""
    found = [row for row in table(name) if all(row[key] == str(value) for key, value in at.items())]
    assert found, (name, at)
    return found


def mean(rows: Iterable[Row], column: str) -> float:
    return float(np.mean([float(row[column]) for row in rows]))


def crowds() -> list[str]:
    """The real crowds of the benchmark."""
    return list(benchmark("aggregators")["crowds"])


def people() -> list[str]:
    return [crowd for crowd in crowds() if crowd not in JUDGES]


def juries() -> list[str]:
    return [crowd for crowd in crowds() if crowd in JUDGES]


def shared() -> list[str]:
    """Simulated crowds with shared mistakes."""
    return [crowd for crowd in benchmark("aggregators")["models"]["dawid-skene"] if crowd.startswith("shared ")]


def right(name: str, *among: str) -> float:
    """Mean accuracy of an aggregator on crowds, all real ones by default, in percent."""
    found = benchmark("aggregators")["models"][name]
    return float(np.mean([found[crowd]["accuracy"] for crowd in among or crowds()]))


def behind(name: str, *among: str) -> float:
    """Points below ``dawid-skene``."""
    return right("dawid-skene", *among) - right(name, *among)


def single() -> list[str]:
    """Aggregators that are one model and use no true labels."""
    left_out = ("auto", "gold-majority-vote")
    return [name for name in benchmark("aggregators")["models"] if "," not in name and name not in left_out]


def best(crowd: str) -> set[str]:
    highest = max(right(name, crowd) for name in single())
    return {name for name in single() if right(name, crowd) == highest}


def best_on(name: str, *, ties: int = 1) -> list[str]:
    """Crowds on which an aggregator is the best, together with as many as are tied."""
    return [crowd for crowd in crowds() if name in best(crowd) and len(best(crowd)) == ties]


def regret(name: str, *among: str) -> float:
    """Points behind the best on the crowd where that is most."""
    return max(max(right(each, crowd) for each in single()) - right(name, crowd) for crowd in among or crowds())


def most_accurate_beside(name: str) -> str:
    """The other single model whose mean is as high as that of the most accurate one, which this model is, too."""
    rounded = {each: f"{right(each):.1f}" for each in single()}
    (other,) = {each for each in rounded if rounded[each] == max(rounded.values())} - {name}
    assert rounded[name] == rounded[other]
    return other


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# ---------------------------------------------------------------- aggregators


def regained(kind: str) -> float:
    """What `auto` regains of what Dawid-Skene loses to the best of each simulated crowd, in percent."""
    rows = select("simulated-labels", row=kind)
    lost = gained = 0.0
    for seed in {row["seed"] for row in rows}:
        each = {row["method"]: float(row["accuracy"]) for row in rows if row["seed"] == seed}
        lost += max(value for name, value in each.items() if name != "auto") - each["dawid-skene"]
        gained += each["auto"] - each["dawid-skene"]
    return 100 * gained / lost


@says("aggregation/auto.py")
def auto() -> list[str]:
    kinds = {"two or three labels per task", "classes nine to one", "one number per annotator", "three families"}
    assert {row["row"] for row in table("simulated-labels")} == kinds
    each = [regained(kind) for kind in kinds - {"three families"}]
    return [
        f"On {WORDS[len(crowds())]} crowds with known truth, the mean is right as often as Dawid-Skene "
        f"({right('auto'):.1f} against {right('dawid-skene'):.1f} %), and at worst {regret('auto'):.1f} points behind "
        f"the best single one (Dawid-Skene {regret('dawid-skene'):.1f}).",
        "On simulated crowds with few labels per task, rare classes or one number per annotator it regains "
        f"{min(each):.0f} to {max(each):.0f} % of what Dawid-Skene loses to the best of each crowd, on those with "
        f"families of annotators {regained('three families'):.0f} % (``conal reproduce simulated-labels``).",
        f"among {WORDS[len(aggregation.names()) - len(NEVER)]}, one is lucky.",
    ]


@says("aggregation/backoff.py")
def backoff() -> list[str]:
    gains = sorted(crowds(), key=lambda crowd: behind("backoff", crowd))[:2]
    return [
        f"on {WORDS[len(crowds())]} real crowds no other single model is more accurate on average "
        f"({right('backoff'):.1f} %, as ``{most_accurate_beside('backoff')}``), and it is never more than "
        f"{regret('backoff'):.1f} points below the best. It gains most over ``dawid-skene`` where annotators have few "
        f"labels of a class and err alike ({', '.join(sorted(gains))})."
    ]


@says("aggregation/bayes_dawid_skene.py")
def bayes_dawid_skene() -> list[str]:
    few = {"row": "two or three labels per task"}
    means = [mean(select("simulated-labels", **few, method=name), "accuracy") for name in ("bayes-dawid-skene", BASE)]
    return [
        f"on simulated crowds with two or three labels per task it is {100 * (means[0] - means[1]):.1f} points more "
        "accurate than ``dawid-skene`` (``conal reproduce simulated-labels``).",
        f"on a jury with seven classes (raop) it is {behind('bayes-dawid-skene', 'raop'):.0f} points behind.",
    ]


@says("aggregation/cbcc.py")
def cbcc() -> list[str]:
    above = {1: "a point"}[round(-behind("cbcc", "face"))]
    return [
        f"on face it is {above} above ``dawid-skene``, on {WORDS[len(shared())]} simulated crowds with shared mistakes "
        f"more than {int(-behind('cbcc', *shared()))}."
    ]


@says("aggregation/certainty.py")
def certainty() -> list[str]:
    above = {}
    for crowd in ("labelme", "music"):
        rows = select("calibration", dataset=crowd, method="xconal")
        above[crowd] = 100 * (mean(rows, "claimed") - mean(rows, "label_accuracy"))
    return [
        f"With it, ``xconal`` claims {above['labelme']:.1f} points more than the truth on LabelMe and "
        f"{above['music']:.1f} on Music"
    ]


@says("aggregation/common_confusion.py")
def common_confusion() -> list[str]:
    above = [-behind(name, *shared()) for name in ("common-confusion", "cbcc", "backoff")]
    each = [behind("common-confusion", crowd) for crowd in crowds()]
    return [
        f"on {WORDS[len(shared())]} simulated crowds of this kind it is right for "
        f"{right('common-confusion', *shared()):.1f} % of the tasks, together with ``cbcc`` and ``backoff`` "
        f"{min(above):.0f} to {max(above):.0f} points above ``dawid-skene``. On {WORDS[len(crowds())]} real crowds it "
        f"is {behind('common-confusion'):.1f} points below ``dawid-skene`` on average, and from {max(each):.1f} below "
        f"to {-min(each):.1f} above on single ones."
    ]


def by_fifty(crowd: str) -> float:
    """Points by which 50 true labels that count anew improve on those that are certain and no more."""
    rows = [select("little-gold", dataset=crowd, n=50, row=f"{BASE}{more}") for more in ("", CERTAIN)]
    return 100 * (mean(rows[0], "label_accuracy") - mean(rows[1], "label_accuracy"))


@says("aggregation/dawid_skene.py")
def dawid_skene() -> list[str]:
    others = [-by_fifty(crowd) for crowd in ("labelme", "music")]
    (worst,) = (crowd for crowd in crowds() if regret(BASE, crowd) == regret(BASE))
    means = {name: right(name, *juries()) for name in ("one-coin", BASE)}
    (second,) = (
        each for each in juries() if sum(right(name, each) > right("one-coin", each) for name in single()) == 1
    )
    return [
        f"With 50 random true labels, this makes the other labels of {WORDS[len(juries())]} juries of language models "
        f"{np.mean([by_fifty(crowd) for crowd in juries()]):.1f} points better in the mean, and those of LabelMe and "
        f"Music {others[0]:.1f} and {others[1]:.1f} points worse (``conal reproduce little-gold``).",
        f"on {WORDS[len(crowds())]} real crowds no other single model is more accurate on average ({right(BASE):.1f} "
        f"%, as ``{most_accurate_beside(BASE)}``), and it is the best on {listed(best_on(BASE))}.",
        f"It is {regret(BASE):.1f} points behind the best at worst ({worst}).",
        f"on juries of language models it is among the least accurate ({means['one-coin']:.1f} %, against "
        f"{means[BASE]:.1f} for ``dawid-skene``), although the best but one on one of them ({second}).",
    ]


@says("aggregation/ebcc.py")
def ebcc() -> list[str]:
    (where,) = best_on("ebcc", ties=2)
    (other,) = best(where) - {"ebcc"}
    assert best_on("ebcc") == []
    return [
        f"Of {WORDS[len(crowds())]} real crowds it is the most accurate on one, together with ``{other}`` ({where}, "
        f"{right('ebcc', where):.1f} %);"
    ]


@says("aggregation/fast_dawid_skene.py")
def fast_dawid_skene() -> list[str]:
    return [
        f"On {WORDS[len(people())]} crowds of people it is {behind('fast-dawid-skene', *people()):.1f} points less "
        f"accurate, on {WORDS[len(juries())]} juries of language models "
        f"{behind('fast-dawid-skene', *juries()):.1f} points."
    ]


@says("aggregation/glad.py")
def glad() -> list[str]:
    return [
        f"on dog and product it is {behind('glad', 'dog'):.1f} and {behind('glad', 'product'):.1f} points behind "
        "``dawid-skene``.",
        f"on juries of language models it is {behind('glad', *juries()):.0f} points behind,",
    ]


@says("aggregation/group_confusion.py")
def group_confusion() -> list[str]:
    def above(labels: int, method: str) -> float:
        given, other = (select("families", labels=labels, method=each) for each in ("families given", method))
        return 100 * (mean(given, "accuracy") - mean(other, "accuracy"))

    (common,) = {f"{above(labels, 'common + individual'):.0f}" for labels in (20, 50)}
    own = sorted(above(labels, "`backoff`") for labels in (20, 50))
    return [
        f"with 20 and 50 labels each, it is {common} points above ``common-confusion`` and {own[0]:.0f} to "
        f"{own[1]:.0f} above ``backoff`` if the families are given (``conal reproduce families``)."
    ]


@says("aggregation/kos.py")
def kos() -> list[str]:
    (percent,) = {f"{right(name):.0f} %" for name in ("kos", "majority-vote")}
    return [
        f"On {WORDS[len(crowds())]} real crowds it is as accurate as a majority vote on average ({percent}), and "
        f"``dawid-skene`` is {WORDS[round(behind('kos'))]} points better:"
    ]


@says("aggregation/mace.py")
def mace() -> list[str]:
    found = best_on("mace")
    assert sum(right(name, "product") < right("mace", "product") for name in single()) == 1
    share = round(8 * benchmark("aggregators")["crowds"]["product"]["largest_class"])
    return [
        f"of {WORDS[len(crowds())]} real crowds it is the best on {WORDS[len(found)]} ({listed(found)}), and the worst "
        f"but one where {WORDS[share]} tasks in eight are of one class (product)."
    ]


@says("aggregation/majority_vote.py")
def majority_vote() -> list[str]:
    return [
        f"on {WORDS[len(crowds())]} real crowds it is right for {right('majority-vote'):.1f} % of the tasks, "
        f"``dawid-skene`` for {right(BASE):.1f} %."
    ]


@says("aggregation/minimax_entropy.py")
def minimax_entropy() -> list[str]:
    found = benchmark("aggregators")["models"]
    seconds = {name: sum(found[name][crowd]["cpu"] for crowd in crowds()) for name in single()}
    assert max(seconds, key=lambda name: seconds[name]) == "minimax-entropy"
    return [
        f"of {WORDS[len(crowds())]} real crowds it is the best on {listed(best_on('minimax-entropy'))}, and one of the "
        f"two best on {listed(best_on('minimax-entropy', ties=2))}.",
        f"(product: {behind('minimax-entropy', 'product'):.0f} points behind ``dawid-skene``), and not in a hurry: it "
        "is the slowest one.",
    ]


@says("aggregation/multidimensional.py")
def multidimensional() -> list[str]:
    found = best_on("multidimensional")
    return [
        f"of {WORDS[len(crowds())]} real crowds it is the best on {WORDS[len(found)]} ({', '.join(found)}), and one of "
        f"the two best on {listed(best_on('multidimensional', ties=2))}.",
        f"(product: {behind('multidimensional', 'product'):.0f} points behind ``dawid-skene``)",
    ]


@says("aggregation/ordinal.py")
def ordinal() -> list[str]:
    def errors(labels: int) -> list[str]:
        at = {"row": "discrete", "levels": 5, "labels": labels}
        methods = ("ordinal", BASE, "median", "mean, rounded")
        return [f"{mean(select('ordinal', **at, method=method), 'error'):.2f}" for method in methods]

    (own, base, median, rounded), few, many = map(errors, (20, 5, 100))
    return [
        "On simulated crowds of 5 levels and five labels per task, its median misses the true level by "
        f"{own} in the mean with 20 labels per annotator (``dawid-skene`` {base}, the median of the labels {median}, "
        f"their rounded mean {rounded}), by {few[0]} with 5 ({', '.join(few[1:])}) and by {many[0]} with 100 "
        f"({', '.join(many[1:])});"
    ]


@says("aggregation/wawa.py")
def wawa() -> list[str]:
    return [
        f"on {WORDS[len(crowds())]} real crowds it is right for {right('wawa'):.1f} % of the tasks, a majority vote "
        f"for {right('majority-vote'):.1f} %.",
        f"a model of their mistakes (``dawid-skene``, {right(BASE):.1f} %) is more accurate.",
    ]


@says("aggregation/worker_clustering.py")
def worker_clustering() -> list[str]:
    (tied,) = best_on("worker-clustering", ties=2)
    (other,) = best(tied) - {"worker-clustering"}
    assert behind("worker-clustering", "face") < 0
    return [
        f"of {WORDS[len(crowds())]} real crowds it is the best on {listed(best_on('worker-clustering'))} and, together "
        f"with ``{other}``, on {tied}, and above ``dawid-skene`` on face.",
        f"on a jury with seven classes (raop) it is {behind('worker-clustering', 'raop'):.0f} points behind.",
    ]


@says("aggregation/zero_based_skill.py")
def zero_based_skill() -> list[str]:
    return [f"``wawa``, which is as accurate ({right('zero-based-skill'):.1f} against {right('wawa'):.1f} %)."]


# ---------------------------------------------------------------- elsewhere


@says("datasets/llm_jury.py")
def llm_jury() -> list[str]:
    facts = [benchmark("aggregators")["crowds"][jury] for jury in juries()]
    few, many = sorted({fact["annotators"] for fact in facts})
    tasks = [fact["tasks"] for fact in facts]
    return [
        f"Texts labelled by juries of {few} or {many} language models: {min(tasks)} to {max(tasks)} texts of each of "
        f"{WORDS[len(facts)]} kinds."
    ]


@says("metrics/co_direction.py")
def co_direction() -> list[str]:
    each = [float(row["true_value"]) for row in select("commonness", proportion=0.5)]
    return [
        "simulated crowds in which half of all labels come from a common confusion have "
        f"{min(each):.2f} to {max(each):.2f}."
    ]


@says("metrics/effective_number.py")
def effective_number() -> list[str]:
    def ends(method: str) -> str:
        rows = select("aggregators", method=method)
        each = [float(row["effective"]) for row in rows if row["row"] in juries()]
        assert len(each) == len(juries())
        return f"{min(each):.1f} to {max(each):.1f}"

    few, many = sorted({benchmark("aggregators")["crowds"][jury]["annotators"] for jury in juries()})
    return [
        f"On {WORDS[len(juries())]} juries of {few} or {many} language models, true labels give {ends('true labels')} "
        f"and labels by Dawid-Skene {ends(BASE)} (``conal reproduce aggregators``)."
    ]


@says("networks/dropout.py")
def dropout() -> list[str]:
    row = benchmark("components")["rows"]["dropout, 256 x 512"]
    return [f"Dropout that takes {PARTS[round(row['PyTorch'] / row['conal'])]} of the time on a CPU,"]


@says("../../benchmarks/update.py")
def update() -> list[str]:
    return [f"{benchmark('update')['memory']['labels'] / 1e6:g} million labels are fitted once,"]


# ---------------------------------------------------------------- what sources say

FIGURE = re.compile(
    r"(?<![\w.])[\d,]*\d\.\d+|(?<![\w.])\d+(?: (?:and|to|or) \d+)? %"
    rf"|(?<![\w.])(?:\d+|{'|'.join(WORDS.values())})(?: and a half)? (?:points|times)\b",
    flags=re.IGNORECASE,
)
LEVEL = re.compile(r"95 % (?:bootstrap )?intervals?|(?:p-values near|is below|p <) 0\.05\b")
"""Of intervals and tests."""
DEFINED = {
    "aggregation/auto.py": {"by more than 1.5 standard errors": "the rule"},
    "aggregation/base.py": {
        "a warning says when that is more than 0.5 %": "the rule",
        "with a probability of at least 95 %": "the level of the interval",
    },
    "aggregation/certainty.py": {"Half the 95 % point of chi-squared": "the level of the test"},
    "aggregation/minimax_entropy.py": {"(authors: 0.5)": "cited"},
    "cli/aggregate_options.py": {"such as prior=0.1,": "an example"},
    "cli/fit_options.py": {"dropout=0.3, batch_norm=true, lam=1e-4, holdout=0.2": "an example"},
    "datasets/simulated_texts.py": {"with spread 0.5 does": "the generator"},
    "datasets/synthetic.py": {"the Bayes-optimal accuracy is about 96 %": "tests/datasets/test_synthetic.py"},
    "experiments/attacks.py": {"at 10 to 40 % of the annotators": "the design"},
    "experiments/commonness.py": {"four times as many crowds": "the design"},
    "experiments/recovery.py": {"at strength 0.7 and proportion 0.5": "the design"},
    "experiments/sweeps.py": {
        "at proportion 0.5, proportion at strength 0.4": "the design",
        "The paper says 0.7": "cited",
    },
    "findings/label_value.py": {"a label that is 80 % sure": "an example"},
    "findings/promise.py": {"mostly between 0.6 and 2.2": "the distribution that is drawn from"},
    "io/excel_files.py": {"3 for 3.0": "a cell"},
    "io/platforms/label_studio.py": {"before version 1.0": "a version"},
    "io/platforms/wide.py": {
        "3.0 stays text": "a cell",
        "3.0 and no 3.5": "a cell",
        "as text, 3.0;": "a cell",
    },
    "methods/conal.py": {"keeps omega within [0.27, 0.73]": "sigmoid of -1 and 1"},
    "methods/judged_tasks.py": {"integers, three times": "how many arrays"},
    "methods/posterior_correction.py": {"to 4 points at best": "the standard error of a share among 50"},
    "metrics/calibration.py": {
        "is 80 % sure of, 80 % are right": "what calibrated means",
        "sum to 1 within 0.001": "the rule",
    },
    "metrics/effective_number.py": {"correlate by 0.3 or more": "the rule"},
    "metrics/label_change.py": {"by more than ten points": "the rule"},
    "metrics/likelihood.py": {"sum to 1 within 0.001": "the rule"},
    "metrics/recovery.py": {"sum to 1 within 0.001": "the rule"},
    "metrics/replacement.py": {"0.2 for experts, 0.15 for trained people, 0.1 for a crowd": "cited"},
    "metrics/suspicion/attention.py": {
        "0.6 times the upper quartile of the estimates, and from 0.25 to 0.5": "the rule"
    },
    "metrics/suspicion/population.py": {"is at most 0.25)": "the rule"},
    "metrics/suspicion/suspects.py": {"At most 5 % of those who are named": "the level of the procedure"},
    "metrics/suspicion/tails.py": {"with probability 0.0002": "a binomial probability, beside its example"},
    "networks/auxiliary.py": {"confines omega to [0.27, 0.73]": "sigmoid of -1 and 1"},
    "networks/backbones.py": {"50 % dropout": "the default"},
    "parameters/plan.py": {"are 20 times as many steps": "20,000 divided by 1,000"},
    "parameters/simulation.py": {
        '"individual noise strength 0.7"': "cited",
        "individual_strength, 0.3, reads this as an accuracy of 0.7; the other reading is 0.7": "the default",
    },
    "parameters/training.py": {'{"cat": 0.8, "dog": 0.2}': "an example"},
    "privacy/contributions.py": {'7, 7.0, "7" and "7.0 " are the same': "names"},
    "privacy/noise.py": {"1/10 for 0.1": "a number"},
    "text/style.py": {"the standard deviation 0.1": "the rule"},
    "theory/bayes.py": {"right four times in five": "an example"},
    "training/optimizer.py": {"0.999 to this power is 2e-9": "arithmetic"},
}
"""Figures that are not measured, by file, with the words around them and what they are."""


def texts_of(source: str) -> Iterator[str]:
    """Docstrings, also those of constants, and help texts, in one line each; without examples and formulas."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield plain(node.value.value)
        elif isinstance(node, ast.Call):
            for each in node.keywords:
                if each.arg == "help":
                    parts = [part.value for part in ast.walk(each.value) if isinstance(part, ast.Constant)]
                    yield plain("".join(part for part in parts if isinstance(part, str)))


def plain(text: str) -> str:
    text = re.sub(r"^ *>>> .*?(?=\n *\n|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\.\. math::.*?(?=\n *\n|\Z)", "", text, flags=re.DOTALL)
    return " ".join(text.split())


def read(path: str) -> list[str]:
    return list(texts_of((PACKAGE / path).read_text(encoding="utf-8")))


def left(text: str, explained: Iterable[str]) -> list[str]:
    """Figures of a text that nothing explains."""
    for words in explained:
        text = text.replace(words, " ")
    return FIGURE.findall(re.sub(r":math:`[^`]*`|``[^`]*``", " ", LEVEL.sub(" ", text)))


FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", STATEMENTS)
def test_measured_figures_are_those_of_the_tables(path: str) -> None:
    texts = read(path)
    for sentence in STATEMENTS[path]():
        assert sum(sentence in text for text in texts) == 1, sentence


def test_every_other_figure_defines_something() -> None:
    found = {}
    for path in FILES:
        made = STATEMENTS[path]() if path in STATEMENTS else []
        unexplained = [figure for text in read(path) for figure in left(text, [*made, *DEFINED.get(path, ())])]
        if unexplained:
            found[path] = unexplained
    assert found == {}


@pytest.mark.parametrize("path", DEFINED)
def test_no_exception_is_left_behind(path: str) -> None:
    texts = read(path)
    assert [words for words in DEFINED[path] if not any(words in text for text in texts)] == []


def test_figures_are_found_wherever_they_stand() -> None:
    source = '''
"""The module: 0.5 more."""

LIMIT = 3
"""Twelve times as good, or seven points, or 12 points and 3 times."""

class Some:
    r"""Right for 70.2 % of the tasks, 18 and 52 %, with :math:`0.1 x` and ``prior=0.2``.

    .. math:: x = 0.3

    >>> 0.4
    0.4

    It has a 95 % interval, 1,000 tasks, and is 1.4 points better.
    """

    def part(self) -> None:
        """About 63 %."""
        parameter(default=0.6, help=f"From {LIMIT} to 0.7, "
                  "or 8.")
        print("0.9")
'''
    found = [figure for text in texts_of(source) for figure in left(text, ["63 %"])]
    assert sorted(found) == sorted(
        ["0.5", "Twelve times", "seven points", "12 points", "3 times", "70.2", "18 and 52 %", "1.4", "0.7"]
    )
