"""The paper's claims about LabelMe and Music, judged by tables of this library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conal.experiments.classes import PAPERS_CLASSES, PAPERS_ENTROPIES
from conal.experiments.comparisons import Difference, corrected, paired_difference
from conal.experiments.fair_trial import PAPERS_GAP, UNEQUAL, trial_gaps
from conal.experiments.figure_1 import PAPER as PAPERS_SHARES
from conal.experiments.real_tables import PAPER_FIGURES, PAPER_LAMBDA, PROTOCOLS_OF, TITLES, chosen_rows, seed_gap
from conal.experiments.rulings import BASELINES, OURS, Claim, Tables, all_of, judged
from conal.experiments.runs import PROTOCOLS
from conal.experiments.tables import column, group_by

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


def most_accurate(tables: Tables) -> list[Claim]:
    found = []
    for place, (dataset, title) in enumerate(TITLES.items()):
        for protocol in PROTOCOLS_OF[dataset]:
            rows = chosen_rows(tables["table-1"], dataset, protocol)
            gaps = corrected({name: seed_gap(rows[OURS], rows[name]) for name in BASELINES})
            papers = {name: _paper(OURS, place) - _paper(name, place) for name in BASELINES}
            ruling = all_of(judged(gap, papers[name]) for name, gap in gaps.items())
            best = max(BASELINES, key=lambda name: float(np.mean(column(rows[name], "test_accuracy"))))
            why = f"Less `{best}`, the best baseline: {gaps[best]}, in the paper {papers[best]:+.1f}. {_counts(gaps)}"
            text = f"CoNAL is more accurate than all baselines on {title} (Table 1; {PROTOCOLS[protocol]})"
            found.append(Claim(text, ruling, why))
    return found


def lambda_helps(tables: Tables) -> list[Claim]:
    found = []
    for place, (dataset, title) in enumerate(TITLES.items()):
        rows = chosen_rows(tables["table-2"], dataset, PROTOCOLS_OF[dataset][0])
        gaps = corrected({name: seed_gap(rows[name], rows["0"]) for name in rows if name != "0"})
        gain = _paper(PAPERS_LAMBDA, place, PAPER_LAMBDA) - _paper("0", place, PAPER_LAMBDA)
        each = "; ".join(f"λ = {name}: {gap}" for name, gap in gaps.items())
        why = f"Less λ = 0: {each}. In the paper {gain:+.1f} with λ = {PAPERS_LAMBDA}, by which this is judged."
        text = f"λ > 0 helps on {title} (Table 2)"
        found.append(Claim(text, judged(gaps[PAPERS_LAMBDA], gain), why))
    return found


def more_parameters(tables: Tables) -> list[Claim]:
    found = []
    pairs = (("dl-cl", "dl-cl-over"), (OURS, "dl-cl-over"))
    texts = ("DL-CL_Over is less accurate than DL-CL", "CoNAL is more accurate than DL-CL_Over")
    for text, (better, worse) in zip(texts, pairs, strict=True):
        gaps: dict[str, Difference] = {}
        papers: dict[str, float] = {}
        for place, (dataset, title) in enumerate(TITLES.items()):
            rows = chosen_rows(tables["table-3"], dataset, PROTOCOLS_OF[dataset][0])
            gaps[title] = seed_gap(rows[better], rows[worse])
            papers[title] = _paper(better, place) - _paper(worse, place)
        gaps = corrected(gaps)
        each = "; ".join(f"{title} {gap}, in the paper {papers[title]:+.1f}" for title, gap in gaps.items())
        ruling = all_of(judged(gap, papers[title]) for title, gap in gaps.items())
        found.append(Claim(f"{text} (Table 3)", ruling, f"`{better}` less `{worse}`: {each}."))
    return found


def open_country(tables: Tables) -> list[Claim]:
    found = []
    for (dataset, name), papers in PAPERS_CLASSES.items():
        here = [row for row in tables["classes"].to_pylist() if (row["dataset"], row["class"]) == (dataset, name)]
        cells = group_by(sorted(here, key=lambda row: row["seed"]), "row")
        (ours, high), (rival, low) = papers.items()
        shares = [column(cells[method], "accuracy") for method in (ours, rival)]
        gap = paired_difference((shares[0], shares[1]))
        means = " against ".join(f"{100 * np.mean(share):.1f}" for share in shares)
        text = f"On {name} of {TITLES[dataset]}, CoNAL has {high} % and Max-MIG, the best baseline, {low} %"
        why = f"{means}: {gap}, in the paper {high - low:+.1f}."
        found.append(Claim(text, judged(gap, high - low), why))
    return found


def on_equal_terms(tables: Tables) -> list[Claim]:
    gaps = trial_gaps(tables["fair-trial"])
    unequal = gaps.pop(UNEQUAL)
    ruling = all_of(judged(gap, PAPERS_GAP) for gap in gaps.values())
    why = (
        "; ".join(f"{terms}: {gap}" for terms, gap in gaps.items())
        + f". In the paper {PAPERS_GAP:+.1f}. {UNEQUAL}: {unequal}."
    )
    return [Claim("CoNAL is above DL-CL on LabelMe, with equal starts, grids and help in training", ruling, why)]


def _paper(row: str, place: int, figures: Mapping[str, tuple[str, str]] = PAPER_FIGURES) -> float:
    return float(figures[row][place].partition(" ")[0])


def _counts(gaps: Mapping[str, Difference]) -> str:
    """How many baselines CoNAL is above, level with and below."""
    by = {verdict: [name for name, gap in gaps.items() if gap.verdict == verdict] for verdict in ("above", "below")}
    level = len(gaps) - sum(map(len, by.values()))
    below = f" ({', '.join(f'`{name}`' for name in by['below'])})" if by["below"] else ""
    return f"Above {len(by['above'])} baselines, level with {level}, below {len(by['below'])}{below}."


def shared_mistakes(tables: Tables) -> list[Claim]:
    shares = {(r["dataset"], r["true"], r["observed"]): r["share"] for r in tables["figure-1"].to_pylist()}
    same = all(abs(shares[pair] - share) < 0.0005 for pair, share in PAPERS_SHARES.items())
    each = "; ".join(
        f"{true} as {observed} {100 * shares[dataset, true, observed]:.1f} % (paper {100 * share:.1f})"
        for (dataset, true, observed), share in PAPERS_SHARES.items()
    )
    return [Claim("Annotators share mistakes (Figure 1)", "holds" if same else "fails", f"Counted: {each}.")]


def entropies(tables: Tables) -> list[Claim]:
    found = {(row["dataset"], row["class"]): row["entropy"] for row in tables["classes"].to_pylist()}
    same = all(abs(found[place] - entropy) < 0.0015 for place, entropy in PAPERS_ENTROPIES.items())
    each = "; ".join(f"{p[1]} {found[p]:.3f} (paper {entropy:.3f})" for p, entropy in PAPERS_ENTROPIES.items())
    text = "Labels of forest and mountain are consistent, of open country and inside city not (Appendix C)"
    return [Claim(text, "holds" if same else "fails", f"Entropy of the labels in nats, counted: {each}.")]


def omega_by_class(tables: Tables) -> list[Claim]:
    rows = {row["class"]: row for row in tables["omega"].to_pylist() if row["dataset"] == "labelme"}
    top, bottom = ("forest", "mountain"), ("opencountry", "insidecity")
    more = {name: rows[name]["top_half"] > rows[name]["bottom_half"] for name in (*top, *bottom)}
    right = [more[name] for name in top] + [not more[name] for name in bottom]
    each = "; ".join(
        f"{name} {100 * rows[name]['top_half']:.1f} % of the top, {100 * rows[name]['bottom_half']:.1f} % of the bottom"
        for name in more
    )
    text = "By mean omega, forest and mountain are in the top half, open country and inside city in the bottom half"
    why = f"{sum(right)} of 4 directions, of one fit, without an interval: {each}."
    return [Claim(text, "holds" if all(right) else "fails" if not any(right) else "cannot be told", why)]
