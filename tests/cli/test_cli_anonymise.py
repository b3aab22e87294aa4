"""``conal fit --anonymise``: no name in any file or message, keys that are kept or thrown away."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv as pv

from conal.data.annotations import Annotations
from conal.io import write_annotations

if TYPE_CHECKING:
    from cli.conftest import Crowd, Run

SHORT = ("--epochs", 4, "--quiet")


def secret_names(crowd: Crowd, tmp_path: Path, people: list[str]) -> Path:
    """The crowd's labels with annotators who have names of their own."""
    annotations = Annotations.read(crowd.labels)
    named = Annotations.from_triples(
        annotations.tasks,
        np.array(people, dtype=object)[annotations.annotators],
        annotations.classes[annotations.labels],
    )
    write_annotations(named, tmp_path / "named.csv")
    return tmp_path / "named.csv"


def test_anonymise_leaves_no_name_in_any_byte(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    people = ["Ingrid Olsson", "bob@mail.example", "Zoë", "<Dmitri>", "Ea&Co", 'quo"ted']
    path = secret_names(crowd, tmp_path, people)
    for out, extra in (("m", ()), ("again", ()), ("open", None)):
        flags: tuple[Any, ...] = () if extra is None else ("--anonymise",)
        assert conal("fit", path, "--features", crowd.features, "--out", tmp_path / out, *SHORT, *flags).code == 0
    files = {file.name: file.read_bytes() for file in (tmp_path / "m").rglob("*") if file.is_file()}
    assert {"report.html", "report.json", "suggestions.csv", "annotators.csv", "config.json"} <= set(files)
    for person in people:
        spellings = {person, *person.split(), json.dumps(person)[1:-1], person.replace("<", "\\u003c")}
        for spelling in (text for text in spellings if len(text) > 2):
            for name, content in files.items():
                assert spelling.encode() not in content, (spelling, name)
                assert spelling.encode("utf-16-le") not in content, (spelling, name)
    assert b"Zo\xc3\xab" in (tmp_path / "open" / "config.json").read_bytes()  # so that the search above can find
    workers = pv.read_csv(tmp_path / "m" / "annotators.csv")["worker"].to_pylist()
    assert len(workers) == 6
    assert all(re.fullmatch("annotator-[a-z2-7]{8}", worker) for worker in workers)
    assert workers[2].encode() in files["report.html"]
    # the key was thrown away: another run has other pseudonyms, in another order
    assert not set(workers) & set(pv.read_csv(tmp_path / "again" / "annotators.csv")["worker"].to_pylist())


def test_limits_need_anonymise(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", *SHORT)
    assert "--set hide_below needs --anonymise" in conal(*arguments, "--set", "hide_below=3").refusal()


def test_messages_hide_the_names_of_annotators(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    path = secret_names(crowd, tmp_path, ["Ingrid Olsson", *(f"person {k}" for k in range(5))])
    rows = path.read_text(encoding="utf-8").replace("person 0", "INGRID  OLSSON").splitlines(keepends=True)
    twice = next(row for row in rows if "Ingrid" in row)
    path.write_text("".join([*rows, twice]), encoding="utf-8")
    arguments = ("fit", path, "--features", crowd.features, *SHORT)
    plain = conal(*arguments, "--out", tmp_path / "plain")
    assert "worker 'Ingrid Olsson'; kept the last" in plain.err  # so that the search below can find
    assert "'INGRID  OLSSON' and 'Ingrid Olsson' differ only in case" in plain.err
    run = conal(*arguments, "--out", tmp_path / "m", "--anonymise")
    assert run.code == 0
    assert "worker (a hidden name); kept the last" in run.err
    refused = conal(*arguments, "--out", tmp_path / "n", "--anonymise", "--set", "on_duplicate=error")
    assert refused.code == 2
    assert "worker (a hidden name); remove them" in refused.err
    assert "annotators (a hidden name) differ only in case" in run.err
    assert "ingrid" not in (run.err + run.out + refused.err).lower()


def test_an_anonymous_fit_cannot_be_resumed(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--anonymise", *SHORT)
    assert "every run has other pseudonyms" in conal(*arguments, "--resume").refusal()


def test_an_anonymous_fit_leaves_no_checkpoint(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    """It would have the parameters of all annotators, and nobody could continue it."""
    arguments = ("fit", crowd.labels, "--features", crowd.features, "--out", tmp_path / "m", "--anonymise", *SHORT)
    other = tmp_path / "m.checkpoint"
    other.write_bytes(b"of another run")
    assert conal(*arguments).code == 0
    assert {entry.name for entry in tmp_path.iterdir()} >= {"m"}
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith("m.") and entry != other]


def test_names_in_texts_are_told_without_the_names(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    path = secret_names(crowd, tmp_path, ["Ingrid Olsson", *(f"person {k}" for k in range(5))])
    texts = tmp_path / "texts.csv"
    rows = [f"{k},{name} seen{' by ingrid olsson' * (k == 3)}" for k, name in enumerate(crowd.z)]
    texts.write_text("\n".join(["task,text", *rows, ""]), encoding="utf-8")
    run = conal(
        "fit", path, "--text", texts, "--out", tmp_path / "m", "--anonymise", *SHORT, "--set", "text_components=2"
    )
    assert run.code == 0
    assert "texts contain names of annotators (1 of them, first at position 4)" in run.err
    assert "ingrid" not in run.err.lower()


def test_pseudonyms_change_nothing_but_names(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    """With other names, annotators have another order, and labels are summed in it."""
    people = [f"person {k}" for k in range(6)]
    path = secret_names(crowd, tmp_path, people)
    arguments = ("--features", crowd.features, "--method", "dl-mv", *SHORT)
    assert conal("fit", path, "--out", tmp_path / "a", *arguments, "--anonymise", "--set", "hide_below=1").code == 0
    assert conal("fit", path, "--out", tmp_path / "b", *arguments).code == 0
    hidden, plain = (pv.read_csv(tmp_path / name / "annotators.csv").to_pydict() for name in "ab")
    assert sorted(hidden["num_examples_labeled"]) == sorted(plain["num_examples_labeled"])
    for name in ("annotator_quality", "annotator_quality_low", "annotator_quality_high"):  # drawn, whatever the names
        np.testing.assert_allclose(sorted(hidden[name]), sorted(plain[name]), atol=0.011)
    first, second = (pv.read_csv(tmp_path / name / "labels.csv").to_pydict() for name in "ab")
    assert first["label"] == second["label"]
    np.testing.assert_allclose(first["probability"], second["probability"], rtol=1e-3)


def test_gold_labels_have_no_annotators_to_hide(conal: Run, crowd: Crowd, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\n" + "".join(f"{k},{name}\n" for k, name in enumerate(crowd.z)), encoding="utf-8")
    arguments = ("--features", crowd.features, "--method", "gold", "--anonymise", "--out", tmp_path / "m", *SHORT)
    assert conal("fit", gold, *arguments).code == 0
    assert (tmp_path / "m" / "report.html").is_file()
