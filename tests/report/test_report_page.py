"""The page as text: figures from the data, hostile and long names, and a size that does not follow the crowd's."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import vl_convert
from markupsafe import escape

import conal
from conal.errors import InputError
from conal.report.exhibits import Exhibits
from conal.report.page import headlines, lead, render, template, to_script
from conal.report.sections import common_confusion
from conal.report.wording import NONE, interval, percent, short_names
from vega_bundle import BUNDLE, bundle

from .crowds import IMAGE, SCRIPT, make_report

MOST = 6_000_000


def island(page: str) -> Any:
    """The data that scripts read."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(text)


def test_hostile_names_are_text_everywhere() -> None:
    whole = render(make_report(classes=[IMAGE, SCRIPT, "a&b \u2028"], names=f'{SCRIPT}{IMAGE}" onload="alert(1)'))
    before, library, after = re.split(r"<script>(.*?)</script>", whole, maxsplit=1, flags=re.DOTALL)
    assert "vegaEmbed" in library
    page = before + after
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "\u2028" not in page.split('id="data">')[1].split("</script>")[0]
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "onload=&#34;alert(1)" in page
    names = {cell["true"] for cell in cells_of(island(page)["charts"]["common"])}
    assert names == set(short_names([IMAGE, SCRIPT, "a&b \u2028"], 24))


@pytest.mark.parametrize("name", ["xconal", "conal", "dl-ds"])
def test_the_page_says_what_the_common_matrix_is(name: str) -> None:
    """Of xconal: the pooled matrix, and an omega near 0; earlier reports do not say."""
    x, crowd = np.eye(3, dtype=np.float32)[np.arange(30) % 3], np.tile(np.arange(30)[:, None] % 3, 3)
    clf = conal.make(name, epochs=2, hidden=(4,), selection="last", verbose=False).fit(x, crowd)
    sentence = clf.model_.common_meaning
    assert ("Neither it nor omega says how many mistakes are common" in sentence) == (name == "xconal")
    page = render(clf.results_.report)
    assert str(escape(sentence)) in page
    del clf.results_.report["common_confusion"]["meaning"]
    assert str(escape(sentence)) not in render(clf.results_.report)


def cells_of(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """The one dataset of a chart."""
    (rows,) = chart["datasets"].values()
    return list(rows)


def test_the_scripts_of_vega_are_those_of_vl_convert() -> None:
    """In the versions that the notice names."""
    assert BUNDLE.read_text(encoding="utf-8") == bundle()
    notice = BUNDLE.with_name("NOTICE-vega.md").read_text(encoding="utf-8")
    assert f"vl-convert-python {version('vl-convert-python').partition('.post')[0]} " in notice
    assert f"Vega {vl_convert.get_vega_version()}, " in notice
    assert f"Vega-Embed {vl_convert.get_vega_embed_version()} " in notice
    assert f"Vega-Lite {vl_convert.get_vegalite_versions()[-1]} " in notice


def replaced(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The content of a report, with another value at this place."""
    document: dict[str, Any] = json.loads(json.dumps(make_report()))
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("confidence",), "high"),
        (("crowd", "n_tasks"), None),
        (("crowd", "n_tasks"), 10**400),
        (("crowd", "expected_label_accuracy"), float("nan")),
    ],
)
def test_a_figure_of_another_type_is_refused_or_shown_as_none(place: tuple[Any, ...], value: Any) -> None:
    try:
        page = render(replaced(place, value))
    except InputError as error:
        assert str(error).startswith("report.json: is damaged (")  # noqa: PT017 - either is right
    else:
        assert NONE in page


def test_half_a_character_is_refused() -> None:
    message = r"report\.json: is damaged, a name contains an incomplete character"
    with pytest.raises(InputError, match=message):
        render(replaced(("classes", 0), "\ud800"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("annotators", "rows", 1), []),
        (("annotators", "rows", 1, "matrix"), [[1.0]]),
        (("model",), None),
        (("common_confusion", "matrix"), []),
        (("common_confusion", "classes_shown"), [7]),
        (("plan", "curve"), []),
        (("plan", "curve"), "up"),
        (("next_steps", "people"), None),
        (("shared_mistakes", "effective_number"), []),
        (("crowd", "n_annotators_active"), float("inf")),
        (("tasks", "ambiguous", "rows", 0, "votes"), [[]]),
    ],
)
def test_a_report_that_does_not_fit_together_is_refused(place: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(InputError, match=r"report\.json: is damaged \("):
        render(replaced(place, value))


def test_rows_about_people_that_do_not_fit_are_refused_where_names_are_added() -> None:
    document = json.loads(json.dumps(make_report()))
    document["next_steps"]["people"] = [["w1"]]
    with pytest.raises(InputError, match=r"report\.json: is damaged \("):
        render(document, Exhibits(names={"w1": "Ann"}))


def test_agreement_without_an_interval() -> None:
    document = json.loads(json.dumps(make_report()))
    document["crowd"]["krippendorff_alpha"] = {"value": 0.5, "low": None, "high": None}
    assert "alpha): <b>0.50</b>. 1 is perfect agreement" in render(document)


def test_nothing_can_end_a_script_element() -> None:
    text = str(to_script({SCRIPT: [IMAGE, "<!--", "\u2028\u2029&"]}))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {SCRIPT: [IMAGE, "<!--", "\u2028\u2029&"]}


def test_long_names_are_cut_and_stay_apart() -> None:
    classes = ["x" * 10_000 + "1" + "x" * 50, "x" * 10_000 + "2" + "x" * 50]
    page = render(make_report(classes=classes, names="n" * 10_000))
    assert "x" * 100 not in page
    assert "n" * 100 not in page
    assert len(page.encode()) < 2_000_000
    shown = island(page)["annotators"]["classes"]
    assert len(set(shown)) == 2


def test_many_classes_and_annotators() -> None:
    report = make_report(n_tasks=3000, n_annotators=3000, classes=["a", "b"])
    assert report["annotators"]["total"] == 3000
    assert len(report["annotators"]["rows"]) == 300
    many = make_report(n_tasks=400, n_annotators=50, classes=[f"class {k}" for k in range(40)])
    assert len(many["common_confusion"]["classes_shown"]) == common_confusion.MAX_CLASSES
    for each in (report, many):
        page = render(each)
        assert len(page.encode()) < MOST
        assert "annotators.csv" in page
    assert "The matrix shows the 25 classes with the most mistakes, of 40" in render(many)
    assert "Showing 300 of 3,000" in render(report)


def test_many_tasks() -> None:
    """The page shows the worst and says where the rest is."""
    report = make_report(n_tasks=30_000, n_annotators=200)
    page = render(report)
    assert len(page.encode()) < MOST
    total = report["tasks"]["ambiguous"]["total"]
    assert total > 3000
    assert f"Showing 300 of {total:,}; <code>labels.csv</code> has all." in page


@pytest.mark.parametrize("n_annotators", [0, 1])
def test_none_or_one_annotator(n_annotators: int) -> None:
    page = render(make_report(n_annotators=n_annotators) if n_annotators else nobody())
    assert ("Empty: every annotator has" if n_annotators else "Empty: no further answer") in page
    assert ("There are no annotators." in page) == (n_annotators == 0)


def nobody() -> Any:
    report = make_report(n_annotators=1)
    report["annotators"] = {"total": 0, "rows": []}
    report["crowd"] |= {"n_annotations": 0, "n_annotators": 0, "expected_label_accuracy": None, "n_tasks_labelled": 0}
    report["common_confusion"]["pairs"] = []
    for name in report["tasks"]:
        report["tasks"][name] |= {"total": 0, "rows": []}
    return report


def test_sentences_are_made_from_the_numbers() -> None:
    report = make_report()
    report["next_steps"]["rewrite"] = []
    crowd, text = report["crowd"], "\n".join([lead(report), *headlines(report)])
    pair = report["common_confusion"]["pairs"][0]
    assert f"{percent(crowd['expected_label_accuracy'])} of the annotators' labels are right" in text
    assert f"<b>{pair['true']}</b> is labelled <b>{pair['observed']}</b> in {percent(pair['share'])}" in text
    assert f"by {pair['annotators_who_made_it']} of the {pair['annotators_who_met_it']} annotators" in text
    assert "reliably worse than the crowd average" in text


def headline_about(*people: tuple[str, int, float, float, float]) -> str:
    """The sentence about annotators, given as name, labels, quality, and the ends of its interval."""
    report = make_report(n_annotators=len(people))
    report["crowd"]["expected_label_accuracy"] = 0.8
    for row, (name, labels, quality, low, high) in zip(report["annotators"]["rows"], people, strict=True):
        row |= {"worker": name, "num_examples_labeled": labels, "expected_mistakes": labels * (1 - quality)}
        row |= {"annotator_quality": quality, "annotator_quality_low": low, "annotator_quality_high": high}
    (sentence,) = [line for line in headlines(report) if "reliably worse than the crowd average" in line]
    return sentence


def test_the_headline_names_those_who_are_worse_than_the_crowd() -> None:
    eager, careless = ("eager", 400, 0.79, 0.75, 0.83), ("<i>eve", 40, 0.5, 0.4, 0.6)
    assert headline_about(eager, careless) == (
        "<b>1 annotator</b> is reliably worse than the crowd average of 80\u00a0%, as the model believes and if "
        "annotators err independently: "
        "<b>&lt;i&gt;eve</b> (50\u00a0% of 40 labels right, 40 to 60\u00a0%)."
    )
    four = [(f"w{k}", 100 * (k + 1), 0.6 - 0.1 * (k == 0), 0.1, 0.7) for k in range(4)]
    assert headline_about(*four) == (
        "<b>4 annotators</b> are reliably worse than the crowd average of 80\u00a0%, as the model believes and if "
        "annotators err independently: "
        "<b>w3</b> (60\u00a0% of 400 labels right, 10 to 70\u00a0%), "
        "<b>w2</b> (60\u00a0% of 300 labels right, 10 to 70\u00a0%), "
        "<b>w1</b> (60\u00a0% of 200 labels right, 10 to 70\u00a0%) and 1 more."
    )
    assert headline_about(eager, ("bob", 9, 0.9, 0.7, 0.99)).startswith("No annotator is reliably worse")


def test_an_interval_below_the_crowd_is_shown_below_it() -> None:
    """Rounded outwards, 79.7 % was shown as 80 % beside a crowd of 80 %."""
    sentence = headline_about(("ann", 90, 0.9, 0.8, 0.95), ("bob", 40, 0.5, 0.4, 0.797)).replace("\xa0", " ")
    assert "crowd average of 80.0 %" in sentence
    assert "(50.0 % of 40 labels right, 40.0 to 79.7 %)" in sentence


def test_where_nobody_is_left_to_ask_the_page_says_so() -> None:
    report = make_report(n_annotators=1)
    full = report["crowd"]["n_tasks"] * report["crowd"]["n_annotators_active"]
    for given, reason in (
        (full, "every annotator has labelled every task"),
        (full - 1, "no further answer by a known"),
    ):
        report["crowd"]["n_annotations"] = given
        assert f"Empty: {reason}" in render(report)


def test_how_many_are_worse_by_chance_is_said() -> None:
    report = make_report()
    assert "would be among them by chance" in render(report)
    report["crowd"]["n_annotators_active"] = 200
    assert "Of 200 annotators who are all alike, about 5 would be among them by chance." in render(report)
    report["crowd"]["n_annotators_active"] = 13
    assert "would be among them by chance" not in render(report)


def test_the_table_of_annotators_has_one_measure_of_what_is_common() -> None:
    """Mean omega stays in annotators.csv: beside the co-direction of mistakes it confuses."""
    report = make_report()
    assert all("common_noise_rate" in row for row in report["annotators"]["rows"])
    page = render(report).split("<script>")[0]
    assert ">shared</button>" in page
    assert "ω" not in page


def test_what_the_next_steps_say_is_not_repeated() -> None:
    report = make_report()
    pair = report["common_confusion"]["pairs"][0]
    report["next_steps"]["rewrite"] = []
    assert any("Most frequent confusion" in sentence for sentence in headlines(report))
    advised = {"true": pair["observed"], "observed": pair["true"], "share": 0.3, "back_share": 0.2}
    advised |= {"expected_count": 30.0, "annotators_who_make_it": 9, "annotators_who_met_it": 10}
    report["next_steps"]["rewrite"] = [advised]
    assert not any("Most frequent confusion" in sentence for sentence in headlines(report))
    assert "9 of the 10 annotators who labelled such tasks made this mistake, in about 30 labels" in render(report)


def test_the_hint_to_click_stands_at_the_names_that_can_be_clicked() -> None:
    page = render(make_report())
    hint = page.index("Click a name in the table")
    assert page.index('data-chart="people"') < hint < page.index('data-annotator="0"', hint)
    assert page.count("Click a name") == 1


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (
            "holdout_log_likelihood",
            "Epoch 2 of 3 was kept: it has the best likelihood of the held-out annotations of 6 tasks",
        ),
        ("last", "Epoch 2 of 3 was kept, the last"),
        ("validation_accuracy", "best accuracy on the true labels of a validation set (87.5\xa0%)"),
    ],
)
def test_the_story_of_the_selection(selection: str, words: str) -> None:
    report = make_report()
    report["model"]["metrics"] |= {"selection": selection, "best_score": 0.875, "lost_classes": ["elk"]}
    story = str(template("stories.html").module.training(report["model"])).split("</p>")[:-1]
    assert words in story[0]
    assert "never predicts elk" in story[-1]
    assert story[0].split(":")[0] in render(report)


def test_figures_on_the_page_are_those_of_the_data() -> None:
    report = make_report()
    page = render(report)
    data = island(page)
    cells = [cell["share"] for cell in cells_of(data["charts"]["common"])]
    np.testing.assert_allclose(np.reshape(cells, (3, 3)), report["common_confusion"]["matrix"], atol=5e-5)
    for number, row in enumerate(report["annotators"]["rows"]):
        np.testing.assert_allclose(
            np.reshape(data["annotators"]["rows"][str(number)]["cells"], (3, 3)), row["matrix"], atol=5e-5
        )
    for row in report["suggestions"]["rows"][:300]:
        assert f'data-v="{row["expected_gain"]}"' in page
    for row in report["tasks"]["likely_wrong"]["rows"]:
        assert f'data-v="{row["majority_vote_probability"]}"' in page


def test_a_belief_is_never_shown_as_certain() -> None:
    report = make_report()
    row = report["tasks"]["ambiguous"]["rows"][0] | {"probability": 1.0, "majority_vote_probability": 0.0}
    report["tasks"]["likely_wrong"] = {"total": 1, "rows": [row]}
    first = render(report).split('id="t-wrong"')[1].split("<tbody>")[1].split("</tr>")[0]
    assert ">&gt;99.9\u00a0%<" in first
    assert ">&lt;0.1\u00a0%<" in first


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(InputError, match="is not a report that this version of conal reads"):
        render({"format": "other"})
    with pytest.raises(InputError, match="or upgrade"):
        render(make_report() | {"format_version": 99})


def test_names_do_not_turn_the_text_around_them() -> None:
    """Characters that change the direction of writing could make 47 % read as 74 %."""
    page = render(make_report(names="\u202edan\u2066\u200f"))
    assert "dan" in page
    assert not set(page) & set("\u202e\u2066\u200f\u2069")


@pytest.mark.parametrize("share", [float("inf"), float("nan"), 10**400, 1e300])
def test_shares_of_damaged_reports_are_shown_as_none(share: float) -> None:
    assert percent(share) == interval(0.5, share) == interval(share, 0.5) == "\u2013"


def test_a_report_that_lacks_what_belongs_together_is_refused() -> None:
    report = make_report()
    report["model"]["versions"] = {}
    with pytest.raises(InputError, match=r"report\.json: is damaged \(.* has no attribute 'conal'\)"):
        render(report)
