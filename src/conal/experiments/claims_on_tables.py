"""The paper's claims about LabelMe and Music, judged by tables of this library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from conal.experiments.classes import PAPERS_CLASSES, PAPERS_ENTROPIES
from conal.experiments.comparisons import Difference, Published, beyond_published, corrected, paired_difference
from conal.experiments.fair_trial import DEFAULTS, PAPERS_GAP, PUBLISHED, UNEQUAL, trial_gaps
from conal.experiments.figure_1 import PAPER as PAPERS_SHARES
from conal.experiments.learned_noise import omega_gaps
from conal.experiments.real_tables import (
    PAPER_FIGURES,
    PAPER_LAMBDA,
    PROTOCOLS_OF,
    TITLES,
    chosen_rows,
    gaps_to,
    seed_gap,
)
from conal.experiments.rulings import BASELINES, OURS, Claim, Tables, beside_paper, counts, ruled
from conal.experiments.runs import PROTOCOLS, Protocol
from conal.experiments.tables import Row, column, group_by

__all__ = [
    "entropies",
    "lambda_helps",
    "more_parameters",
    "most_accurate",
    "omega_by_class",
    "on_equal_terms",
    "open_country",
    "shared_mistakes",
]

PAPERS_LAMBDA = "1e-05"
"""The paper's best weight."""
PAPERS_OMEGA = {
    "labelme": (("forest", "mountain"), ("opencountry", "insidecity")),
    "music": (("hiphop", "reggae"), ("jazz", "rock")),
}
"""Classes whose mistakes the paper finds to be common, and to be individual (Appendix C)."""


class Draft(NamedTuple):
    """A claim about one dataset before it is judged: the decisive difference comes first."""

    text: str
    gaps: list[Difference]
    published: tuple[Published, Published]
    beyond: Difference
    before: str
    after: str = ""


def most_accurate(tables: Tables) -> list[Claim]:
    found = {}
    for place, (dataset, title) in enumerate(TITLES.items()):
        first, *others = PROTOCOLS_OF[dataset]
        rows = chosen_rows(tables["table-1"], dataset, first)
        against = gaps_to(OURS, rows)
        best = _best(rows)
        in_order = sorted(BASELINES, key=lambda name: name != best)
        gaps = [-against[name].seeds for name in in_order]
        by_instances = [-gap for name in in_order if (gap := against[name].instances) is not None]
        published = _paper(OURS, place), _paper(best, place)
        after = [f"All baselines, over seeds: {counts(gaps)}"]
        after += [f"Over test instances: {counts(by_instances)}"] if by_instances else []
        after += [_by_other_choice(chosen_rows(tables["table-1"], dataset, other), other) for other in others]
        found[dataset] = Draft(
            f"CoNAL is more accurate than all baselines on {title} (Table 1; {PROTOCOLS[first]})",
            gaps,
            published,
            seed_gap(rows[OURS], rows[best], published),
            f"CoNAL minus `{best}`, the best of the paper's baselines: ",
            " ".join(after),
        )
    return _judged(found)


def _judged(found: Mapping[str, Draft]) -> list[Claim]:
    """Comparisons with the paper are corrected over the datasets of its table."""
    beyond = corrected({dataset: draft.beyond for dataset, draft in found.items()})
    claims = []
    for dataset, draft in found.items():
        paper = beside_paper(Published.above(*draft.published), beyond[dataset])
        why = f"{draft.before}{draft.gaps[0]} points; {paper}. {draft.after}".strip()
        claims.append(Claim(draft.text, ruled(draft.gaps, [beyond[dataset]]), why))
    return claims


def _best(rows: Mapping[str, list[Row]]) -> str:
    return max(BASELINES, key=lambda name: float(np.mean(column(rows[name], "test_accuracy"))))


def _by_other_choice(rows: Mapping[str, list[Row]], protocol: Protocol) -> str:
    """The difference where the epoch is chosen in another way, which is told and not judged."""
    best = _best(rows)
    chosen = PROTOCOLS[protocol].partition(":")[0]
    return f"Not judged, with the {chosen}: {seed_gap(rows[OURS], rows[best])} against `{best}`."


def lambda_helps(tables: Tables) -> list[Claim]:
    found = {}
    for place, (dataset, title) in enumerate(TITLES.items()):
        rows = chosen_rows(tables["table-2"], dataset, PROTOCOLS_OF[dataset][0])
        gaps = {name: each.seeds for name, each in gaps_to("0", rows).items()}
        published = _paper(PAPERS_LAMBDA, place, PAPER_LAMBDA), _paper("0", place, PAPER_LAMBDA)
        others = "; ".join(f"{gap} for λ = {name}" for name, gap in gaps.items() if name != PAPERS_LAMBDA)
        found[dataset] = Draft(
            f"λ > 0 helps on {title} (Table 2)",
            [gaps[PAPERS_LAMBDA]],
            published,
            seed_gap(rows[PAPERS_LAMBDA], rows["0"], published),
            f"Accuracy with the paper's best λ, {PAPERS_LAMBDA}, minus that with λ = 0: ",
            f"Not judged: {others}.",
        )
    return _judged(found)


def more_parameters(tables: Tables) -> list[Claim]:
    claims = []
    pairs = (("dl-cl", "dl-cl-over"), (OURS, "dl-cl-over"))
    texts = ("DL-CL_Over is less accurate than DL-CL", "CoNAL is more accurate than DL-CL_Over")
    for text, (better, worse) in zip(texts, pairs, strict=True):
        found = {}
        for place, (dataset, title) in enumerate(TITLES.items()):
            rows = chosen_rows(tables["table-3"], dataset, PROTOCOLS_OF[dataset][0])
            published = _paper(better, place), _paper(worse, place)
            found[dataset] = Draft(
                f"{text} on {title} (Table 3)",
                [seed_gap(rows[better], rows[worse])],
                published,
                seed_gap(rows[better], rows[worse], published),
                f"`{better}` minus `{worse}`: ",
            )
        claims += _judged(found)
    return claims


def open_country(tables: Tables) -> list[Claim]:
    found = []
    for (dataset, name), papers in PAPERS_CLASSES.items():
        here = [row for row in tables["classes"].to_pylist() if (row["dataset"], row["class"]) == (dataset, name)]
        cells = group_by(sorted(here, key=lambda row: row["seed"]), "row")
        shares = {method: column(rows, "accuracy") for method, rows in cells.items()}
        (ours, high), (rival, low) = papers.items()
        published = Published(high, 0.0), Published(low, 0.0)
        beyond = beyond_published((shares[ours], shares[rival]), published)
        gap = paired_difference((shares[ours], shares[rival]))
        best = max((name for name in BASELINES if name in shares), key=lambda name: float(np.mean(shares[name])))
        means = " against ".join(f"{100 * np.mean(shares[method]):.1f} %" for method in (ours, rival))
        text = f"On {name} of {TITLES[dataset]}, CoNAL is more accurate than Max-MIG, the paper's best baseline"
        why = (
            f"{means}: {gap} points; {beside_paper(published[0].above(published[1]), beyond)}. Not judged: the best "
            f"baseline on this class is `{best}` here, {paired_difference((shares[ours], shares[best]))}."
        )
        found.append(Claim(text, ruled([gap], [beyond]), why))
    return found


def on_equal_terms(tables: Tables) -> list[Claim]:
    gaps = trial_gaps(tables["fair-trial"])
    told = {terms: gaps.pop(terms) for terms in (DEFAULTS, UNEQUAL)}
    beyond = trial_gaps(tables["fair-trial"], beyond=PUBLISHED)
    ruling = ruled([*gaps.values()], [beyond[terms] for terms in gaps])
    each, others = ("; ".join(f"{terms}: {gap}" for terms, gap in some.items()) for some in (gaps, told))
    why = f"CoNAL minus DL-CL, in points: {each}. In the paper {PAPERS_GAP:+.1f}. Not judged: {others}."
    return [Claim("CoNAL is above DL-CL on LabelMe, with equal starts, grids and help in training", ruling, why)]


def _paper(row: str, place: int, figures: Mapping[str, tuple[str, str]] = PAPER_FIGURES) -> Published:
    return Published.read(figures[row][place])


def shared_mistakes(tables: Tables) -> str:
    shares = {(r["dataset"], r["true"], r["observed"]): r["share"] for r in tables["figure-1"].to_pylist()}
    each = (
        f"{true} as {observed} {100 * shares[dataset, true, observed]:.1f} % (paper {100 * share:.1f})"
        for (dataset, true, observed), share in PAPERS_SHARES.items()
    )
    return f"Share of the annotators who make a mistake (Figure 1): {'; '.join(each)}."


def entropies(tables: Tables) -> str:
    found = {(row["dataset"], row["class"]): row["entropy"] for row in tables["classes"].to_pylist()}
    each = (f"{p[1]} {found[p]:.3f} (paper {entropy:.3f})" for p, entropy in PAPERS_ENTROPIES.items())
    return f"Entropy of the labels of a class, in nats (Appendix C): {'; '.join(each)}."


def omega_by_class(tables: Tables) -> list[Claim]:
    gaps = omega_gaps(tables["omega"])
    found = []
    for dataset, (top, bottom) in PAPERS_OMEGA.items():
        judged = {name: gaps[dataset, name] if name in top else -gaps[dataset, name] for name in (*top, *bottom)}
        each = "; ".join(f"{name} {gaps[dataset, name]}" for name in judged)
        text = f"By mean omega, {' and '.join(top)} are more frequent in the top half of {TITLES[dataset]} than in the "
        text += f"bottom half, {' and '.join(bottom)} less"
        why = f"Share in the top half minus that in the bottom half, in points: {each}."
        found.append(Claim(text, ruled([*judged.values()]), why))
    return found
