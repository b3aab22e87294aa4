"""Figures of the guides are those of the tables: small tables with known means give these numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import generated
import guide_statements
from conal.experiments.attacks import KEYS
from conal.experiments.gold_free import TITLES
from conal.experiments.gold_rates import REPLAYED, WHOLE
from conal.experiments.juries import ALL, ORACLE
from conal.experiments.little_gold import BASE, PLANNED
from conal.experiments.outputs import CODE, REDUCED
from conal.io import write_table
from guide_statements import GUIDE_STATEMENTS

Rows = list[dict[str, Any]]
EXPERIMENTS = {
    "poor_features": "small",
    "time_of_xconal": "gold-free",
    "jury_texts": "juries",
    "little_gold": "little-gold",
    "claimed": "little-gold",
    "gold_rates": "gold-rates",
    "updates": "updates",
    "plans": "plans",
    "attacks": "attacks",
    "defence": "attacks",
    "privacy": "privacy",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the statements look for tables."""
    monkeypatch.setattr(guide_statements, "RESULTS", tmp_path)
    monkeypatch.setattr(guide_statements, "UPDATES", tmp_path / "update.json")
    monkeypatch.setattr(guide_statements, "FITS", tmp_path / "fit.json")
    return tmp_path


def store(folder: Path, name: str, rows: Rows, **more: Any) -> None:
    """A table as `conal reproduce` writes it."""
    write_table(pa.Table.from_pylist([{**row, CODE: "0123", **more} for row in rows]), folder / f"{name}.csv")


def figures(rows: Rows, **values: list[float]) -> Rows:
    """Rows with the seeds 0, 1, ... that differ in some figures."""
    each = zip(*values.values(), strict=True)
    made = [dict(zip(values, figures, strict=True)) | {"seed": seed} for seed, figures in enumerate(each)]
    return [row | figure for row in rows for figure in made]


# ---------------------------------------------------------------- tables that are missing


@pytest.mark.parametrize(("name", "experiment"), EXPERIMENTS.items())
def test_without_a_table_the_command_is_named(name: str, experiment: str, folder: Path) -> None:
    text = " ".join(GUIDE_STATEMENTS[name]().split())
    assert text.endswith(f" has not been measured by this version: `conal reproduce {experiment}` measures it.")
    assert text.count(". ") == 0


@pytest.mark.parametrize(("name", "experiment"), EXPERIMENTS.items())
def test_a_table_of_reduced_size_does_not_count(name: str, experiment: str, folder: Path) -> None:
    missing = GUIDE_STATEMENTS[name]()
    store(folder, experiment, [{"seed": 0}], **{REDUCED: True})
    assert GUIDE_STATEMENTS[name]() == missing


def test_without_a_benchmark_the_target_is_named(folder: Path) -> None:
    text = GUIDE_STATEMENTS["update_benchmark"]()
    assert text.endswith(" has not been measured by this version: `make bench-update` measures it.")


def test_every_statement_is_on_one_page() -> None:
    pages = [page.read_text(encoding="utf-8") for page in generated.PAGES]
    for name in GUIDE_STATEMENTS:
        assert sum(page.count(f"<!-- made: {name} -->") for page in pages) == 1, name


def test_words() -> None:
    assert guide_statements._range([0.91, 0.5, 0.7], ".1f") == "0.5 to 0.9"
    assert guide_statements._range([2.1, 2.2], ".0f") == "2"
    assert guide_statements._listed("abc") == "a, b and c"
    assert guide_statements._listed("a") == "a"


# ---------------------------------------------------------------- choosing a method, and juries


def test_poor_features(folder: Path) -> None:
    at = {"row": guide_statements.POOR, "test_accuracy": 0.5}
    rows = figures([at | {"tasks": 100}], label_accuracy=[0.98, 1.0], **{"dawid-skene label_accuracy": [0.9, 0.95]})
    rows += figures([at | {"tasks": 50}], label_accuracy=[0.75, 0.75], **{"dawid-skene label_accuracy": [0.5, 0.5]})
    rows += [row | {"row": "LabelMe", "label_accuracy": 0.1} for row in rows]  # not shown
    store(folder, "small", rows)
    text = guide_statements.poor_features()
    assert "means over 2 simulated juries: 50 tasks 75.0 and 50.0; 100 tasks 99.0 and 92.5 (*Small crowds*" in text


def test_time_of_xconal(folder: Path) -> None:
    rows = []
    for k, crowd in enumerate(TITLES):
        for row, seconds in (("conal", 2.0), ("xconal", 3.0 + k), ("dl-mv", 9.0)):
            at = {"dataset": crowd, "row": row, "prior": "estimate", "protocol": "own", "seed": 0, "seconds": seconds}
            rows += [at, at | {"seconds": 100.0, "protocol": "gold"}, at | {"seconds": 50.0, "prior": "balanced"}]
    store(folder, "gold-free", rows)
    text = guide_statements.time_of_xconal()
    assert ": LabelMe 1.5; Music 2.0; Digits, simulated crowd 2.5; CIFAR-10 features, simulated crowd 3.0 (*" in text
    assert "whole fits" not in text
    fits = {
        "1000": {"conal": {"cpu": 2.0}, "xconal": {"cpu": 1.0}},
        "500": {"conal": {"cpu": 2.0}, "xconal": {"cpu": 3.0}},
    }
    (folder / "fit.json").write_text(json.dumps({"sizes": fits}), encoding="utf-8")
    text = guide_statements.time_of_xconal()
    assert "; whole fits of 500 to 1,000 tasks, from files to a model folder, 0.5 to 1.5 (" in text


def test_jury_texts(folder: Path) -> None:
    rows = []
    for jury, ours, best in (("a", [0.5, 0.6], 0.5), ("b", [0.7, 0.7], 0.8), ("c", [0.5, 0.5], 0.5)):
        at = {"row": jury, "gap": None}
        rows += figures([at | {"method": guide_statements.TEXTS}], accuracy=ours)
        rows += figures([at | {"method": ORACLE}], accuracy=[best])
        rows += figures([at | {"method": "`dawid-skene`"}], accuracy=[0.1])
    rows += [{"row": ALL, "gap": 0.1, "method": guide_statements.TEXTS, "seed": 0, "accuracy": None}]
    store(folder, "juries", rows)
    text = guide_statements.jury_texts()
    assert ", in points: a +5.0, b -10.0, c +0.0; in the mean -1.7. It is above that judge on 1 of 3 juries (" in text


# ---------------------------------------------------------------- fifty gold labels


def gold(crowd: str, row: str, n: int, *accuracies: float) -> Rows:
    return figures([{"dataset": crowd, "row": row, "n": n}], test_accuracy=list(accuracies))


def test_little_gold(folder: Path) -> None:
    rows = gold("labelme", BASE, 0, 0.80, 0.90) + gold("labelme", BASE, 50, 0.85, 0.95)
    rows += gold("labelme", PLANNED, 50, 0.86, 0.98)[::-1]  # seeds are paired, whatever their order
    rows += gold("music", BASE, 0, 0.5, 0.5) + gold("music", BASE, 50, 0.625, 0.625)
    rows += gold("music", PLANNED, 50, 0.75, 0.75)
    rows += gold("labelme", BASE, 100, 0.1, 0.1) + gold("cifar10", BASE, 50, 0.1, 0.1)  # not shown
    store(folder, "little-gold", rows)
    text = guide_statements.little_gold()
    assert "with 50 random ones and with 50 planned ones, in percent, means over 2 seeds: " in text
    assert "LabelMe 85.0, 90.0 and 92.0; Music 50.0, 62.5 and 75.0." in text
    # Differences of 1 and 3 points: a standard error of 1, times Student's 12.706.
    assert "LabelMe +2.0 (-10.7 to +14.7), level; Music +12.5 (+12.5 to +12.5), above " in text


def test_claimed(folder: Path) -> None:
    rows = []
    for crowd, n, said, true, held in (
        ("labelme", 0, (0.95, 0.93), (0.90, 0.89), (30, 34)),
        ("music", 0, (0.875, 0.875), (0.8, 0.8), (18, 18)),
        ("labelme", 50, (0.9, 0.9), (0.91, 0.92), (40, 40)),
        ("music", 50, (0.8, 0.8), (0.8, 0.79), (20, 20)),
    ):
        judged = [44.0 if crowd == "labelme" else 20.0] * 2
        counts = {"annotators_annotators": judged, "annotators_held": list(map(float, held))}
        at = {"dataset": crowd, "row": BASE, "n": n}
        rows += figures([at], claimed=list(said), label_accuracy=list(true), **counts)
    rows += [row | {"row": PLANNED, "claimed": 0.1, "annotators_held": 0} for row in rows]
    store(folder, "little-gold", rows)
    text = guide_statements.claimed()
    assert (
        "in percent, means over 2 seeds, without true labels: LabelMe 94.0 and 89.5; Music 87.5 and 80.0, with" in text
    )
    assert "with 50 true labels: LabelMe 90.0 and 91.5; Music 80.0 and 79.5. The 95 % intervals of" in text
    # 100 of 128 and 120 of 128 intervals
    assert "for 78 % of them, and with 50 true labels for 94 % (" in text


def rate(kind: str, crowd: str, way: str, *numbers: float, design: str = "random") -> dict[str, Any]:
    at = {"dataset": crowd, "design": design, "way": way, "kind": kind, "seed": 0}
    return at | dict(zip(("n", "held", "width", "alone"), numbers, strict=True))


def test_gold_rates(folder: Path) -> None:
    rows = [
        rate("classes", "labelme", REPLAYED, 100, 96, 10.0, 20.0),
        rate("cleaned", "labelme", REPLAYED, 10, 10, 2.0, 2.1),
        rate("annotators", "labelme", REPLAYED, 0, 0, 0.0, 0.0),  # nobody with labels enough
        rate("classes", "emotion", REPLAYED, 100, 90, 20.0, 30.0),
        rate("cleaned", "emotion", REPLAYED, 10, 10, 1.0, 1.2),
        rate("classes", "labelme", REPLAYED, 100, 1, 90.0, 90.0, design="planned"),
        rate("classes", "labelme", WHOLE, 10, 9, 1.0, 1.0),
        rate("classes", "emotion", WHOLE, 10, 10, 1.0, 1.0) | {"seed": 1},
        rate("cleaned", "emotion", WHOLE, 10, 8, 1.0, 1.0) | {"seed": 1},
    ]
    store(folder, "gold-rates", rows)
    text = guide_statements.gold_rates()
    assert "by 50 random true labels held the truth on LabelMe and Jury: emotion, by kind of rate: " in text
    assert "93 % (share of a class) to 100 % (cleaned labels that are right) in 200 draws " in text
    assert "80 % (cleaned labels that are right) to 95 % (share of a class) where `xconal` was trained" in text
    assert "with them, 2 fits per crowd." in text
    assert "share of a class 15.0 instead of 25.0; cleaned labels that are right 15.0 instead of 16.5 (" in text
    assert "annotator" not in text


# ---------------------------------------------------------------- a crowd that lives


def part(number: int, update: list[float], fit: list[float], share: list[float]) -> Rows:
    return figures([{"row": "parts", "part": number}], update=update, fit=fit, share=share)


def heard(name: str, *scores: float) -> Rows:
    return figures([{"row": "unseen", "part": None, "heard": name}], log_likelihood=list(scores))


def filled(rows: Rows, columns: Iterable[str] = ()) -> Rows:
    """All rows with all columns: those that they have, and others."""
    keys = dict.fromkeys([key for row in rows for key in row] + list(columns))
    return [{key: row.get(key) for key in keys} for row in rows]


def test_updates(folder: Path) -> None:
    rows = part(1, [0.8, 0.9], [0.8, 0.9], [1.0, 1.0])
    rows += part(2, [0.86, 0.86], [0.85, 0.85], [0.2, 0.3])
    rows += part(3, [0.86, 0.88], [0.87, 0.91], [0.1, 0.3])
    rows += heard("common", -0.5, -1.0, -0.75) + heard("majority", -1.0, -1.5, -1.25) + heard("uniform", -2, -2, -2)
    store(folder, "updates", filled(rows))
    text = guide_statements.updates()
    assert "came in 3 random parts, with 2 seeds." in text
    assert "update minus fit, are -2.0 to +1.0 points. The largest is -2.0 (-14.7 to +10.7), level after" in text
    assert "after part 3." in text
    assert "takes 20 to 25 % of the CPU time of the fit" in text
    assert "the labels of 10 random annotators were held out, 3 times." in text
    assert "is -0.75; by the votes of the others on the task -1.25, and by equal chances -2.00." in text


def test_update_benchmark(folder: Path) -> None:
    points: Rows = [
        {
            "n": 1,
            "cpu": 0.2,
            "refit_cpu": 2.0,
            "refit_of_annotations_cpu": 0.7,
            "equal": 0.99975,
            "stale": 0.0002,
            "differ": 0.0003,
        },
        {"n": 2, "cpu": 0.1},
        {"n": 3, "cpu": 0.9},
        {
            "n": 100,
            "cpu": 0.2,
            "refit_cpu": 3.0,
            "refit_of_annotations_cpu": 0.9,
            "equal": 0.9966,
            "stale": 0.0024,
            "differ": 0.0025,
        },
    ]
    commands = {"save": 3.0, "update": 1.6, "refit": 3.5, "refit_and_save": 4.0, "folder_mb": 40.0}
    found = {"memory": {"labels": 1_720_000, "updates": points}, "commands": commands}
    (folder / "update.json").write_text(json.dumps(found), encoding="utf-8")
    text = guide_statements.update_benchmark()
    assert "The first fit is to 1,720,000 labels." in text
    assert "99.975 % of the labels equal those of a refit after 1 update, and 99.660 % after 100." in text
    assert "stale were 0.020 and 0.240 %; 0.030 and 0.250 % differ from a full E-step." in text
    # The median, 0.2, of the means, 2.5 and 0.8.
    assert (
        "An update in memory takes 8 % of the CPU time of a refit that reads all labels from a frame, and 25 %" in text
    )
    assert "As a command it takes 1.6 s: 12 % of that is the update itself," in text
    assert text.endswith("`conal aggregate --save` of both files takes 4.0 s.")


# ---------------------------------------------------------------- whom to ask what next


def replayed(strategy: str, seed: int, *accuracies: float, promise: float | None = None) -> Rows:
    rows: Rows = []
    for k, accuracy in enumerate(accuracies):
        told = None if promise is None or k == 0 else promise
        ends = (told, told and told - 0.125, told and told + 0.125)
        row = {"dataset": "LabelMe", "seed": seed, "strategy": strategy, "round": k, "label_accuracy": accuracy}
        rows.append(row | dict(zip(("promised_accuracy", "promised_low", "promised_high"), ends, strict=True)))
    return rows


def replays() -> Rows:
    rows = replayed("random", 0, 0.1, 0.5, 0.7) + replayed("random", 1, 0.1, 0.6, 0.8)
    rows += replayed("plan", 1, 0.1, 0.69, 0.77, promise=0.75) + replayed("plan", 0, 0.1, 0.6, 0.62, promise=0.75)
    return [row | {"dataset": crowd} for crowd in ("LabelMe", "Music") for row in rows]


def test_plans(folder: Path) -> None:
    rows = replays()
    for row in rows:
        if row["dataset"] == "Music" and row["strategy"] == "plan" and row["round"]:
            row["promised_low"], row["promised_accuracy"] = 0.25, 0.5
    store(folder, "plans", rows)
    text = guide_statements.plans()
    assert text.startswith("2 batches of as many labels")
    assert "in percent, 2 replays;" in text
    assert "ActiveLab is missing" in text
    assert "| crowd | random | plan | plan - random |\n" in text
    # Areas by seed: 60 and 70 at random, 61 and 73 as planned.
    assert "\n| LabelMe | 65.0 | 67.0 | +2.0 (-10.7 to +14.7) |\n" in text
    assert "\n| Music | 65.0 | 67.0 | +2.0 (-10.7 to +14.7) |\n" in text
    # LabelMe was promised 62.5 to 87.5: of 69, 77, 60 and 62, two are inside; Music 25 to 87.5, and all are.
    assert "Of 8 promises, 75 % held" in text
    assert "wide, 25 to 62 points in the mean by crowd" in text
    assert "in the mean: LabelMe +8.0; Music -17.0." in text


def test_plans_beside_another_strategy(folder: Path) -> None:
    other = replayed("ActiveLab", 0, 0.1, 0.5, 0.6) + replayed("ActiveLab", 1, 0.1, 0.6, 0.7)
    store(folder, "plans", [row for row in replays() if row["dataset"] == "LabelMe"] + other)
    text = guide_statements.plans()
    assert "is missing" not in text
    assert "| crowd | random | plan | ActiveLab | plan - random | plan - ActiveLab |\n" in text
    assert "\n| LabelMe | 65.0 | 67.0 | 60.0 | +2.0 (-10.7 to +14.7) | +7.0 (-5.7 to +19.7) |\n" in text


# ---------------------------------------------------------------- people who mean harm


def harm(row: str, kind: str, share: float | None, **values: list[float]) -> Rows:
    return figures([{"row": row, "kind": kind, "share": share}], **values)


def test_who_is_found(folder: Path) -> None:
    rows = harm("detection", "ring", 0.2, harmful=[10, 10], found=[9, 8], named=[10, 10], false=[1, 0])
    rows += harm("few", "ring", 0.2, harmful=[10, 10], found=[6, 7], named=[8, 12], false=[0, 0])
    rows += harm("detection", "clickers", 0.2, harmful=[10, 10], found=[0, 0], named=[0, 0], false=[0, 0])
    rows += harm("few", "clickers", 0.2, harmful=[12, 12], found=[6, 6], named=[8, 8], false=[1, 1])
    rows += harm("detection", "ring", 0.4, harmful=[10, 10], found=[1, 1], named=[8, 8], false=[1, 2])
    store(folder, "attacks", filled(rows, KEYS))
    text = guide_statements.attacks()
    assert "crowds of 60 annotators, 6 classes and 4 labels per task, 20 % of whom mean harm: 2 crowds" in text
    assert "seeds 0 to 1 " in text
    assert "|  | 100 labels each: found, false | 46 labels each: found, false |" in text
    assert "| ring | 85 %, 5.0 % | 65 %, 0.0 % |" in text
    assert "| clickers | 0 %, 0.0 % | 50 %, 12.5 % |" in text
    assert "shares, 20 to 40 % of the annotators, with the more labels: 0 % found (clickers, 20 %), and 18.8 %" in text
    assert text.endswith(" 18.8 % false (ring, 40 %).")


def defended(row: str, kind: str, share: float | None, method: str, plain: float, made: float) -> Rows:
    """Two seeds around these accuracies."""
    found: Rows = []
    for defend, mean in ((False, plain), (True, made)):
        values = harm(row, kind, share, accuracy=[mean - 0.01, mean + 0.01])
        found += [each | {"method": method, "defended": defend} for each in values]
    return found


def test_defence(folder: Path) -> None:
    rows = defended("accuracy", "ring", 0.2, "dawid-skene", 0.9, 0.85)
    rows += defended("accuracy", "copyists", 0.2, "dawid-skene", 0.9, 0.91)
    rows += defended("accuracy", "ring", 0.2, "majority-vote", 0.5, 0.75)
    rows += defended("accuracy", "ring", 0.4, "majority-vote", 0.5, 0.1)  # not shown
    rows += defended("real", "emotion", None, "dawid-skene", 0.7, 0.68)
    rows += defended("real", "flute", None, "dawid-skene", 0.7, 0.7)
    rows += defended("real", "emotion", None, "majority-vote", 0.7, 0.705)
    rows += defended("real", "flute", None, "majority-vote", 0.7, 0.715)
    rows += defended("real", "labelme", None, "dawid-skene", 0.7, 0.1)  # no jury
    store(folder, "attacks", filled(rows, KEYS))
    text = guide_statements.defence()
    assert "where 20 % of the annotators mean harm: " in text
    assert "`dawid-skene` ring -5.0 and copyists +1.0; `majority-vote` ring +25.0. " in text
    assert "On 2 juries of language models" in text
    assert "`dawid-skene` -2.0 to +0.0, fewer on 1; `majority-vote` +0.5 to +1.5, fewer on 0 (" in text


# ---------------------------------------------------------------- private releases


def released(crowd: str, bound: int, epsilon: float, *errors: float, held: float) -> Rows:
    at = {"crowd": crowd, "classes": 8, "max_labels": bound, "epsilon": epsilon, "held": held}
    return figures([at], error=list(errors))


def test_privacy(folder: Path) -> None:
    rows = released("1,000 people", 10, 0.5, 0.25, 0.5, held=1.0) + released("1,000 people", 10, 10, 0, 0.125, held=0.5)
    rows += released("LabelMe", 1, 0.5, 0.75, 1.0, held=0.75) + released("LabelMe", 1, 10, 0.5, 0.5, held=0.75)
    store(folder, "privacy", rows)
    text = guide_statements.privacy()
    assert "mean over rows and 2 releases, in percent" in text
    assert "| crowd | classes | `--max-labels` | ε = 0.5 | ε = 10 | intervals hold |\n" in text
    assert "\n| 1,000 people | 8 | 10 | 37.5 | 6.2 | 75.0 |\n" in text
    assert text.endswith("\n| LabelMe | 8 | 1 | 87.5 | 50.0 | 75.0 |")


def test_tables_are_not_wrapped(folder: Path) -> None:
    store(folder, "privacy", released("a crowd with a name " * 10, 10, 0.5, 0.25, held=1.0))
    prose, table = GUIDE_STATEMENTS["privacy"]().split("\n\n")
    assert max(map(len, prose.splitlines())) <= 120
    assert [line[0] + line[-1] for line in table.splitlines()] == ["||"] * 3
