"""Logs of tools that evaluate language models, as Inspect and MLflow wrote them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conal.errors import DataWarning, InputError
from conal.io import AnnotationFile, import_file
from helpers.crowds import triples

INSPECT = Path(__file__).parent / "exports" / "inspect_ai"
MLFLOW = Path(__file__).parent / "exports" / "mlflow"
TARGETS = {"q0": "A", "q1": "B", "q2": "A", "q3": "B"}


def rows_of(found: AnnotationFile) -> list[tuple[Any, Any, Any]]:
    return triples(found.annotations)


# ---------------------------------------------------------------- Inspect


@pytest.mark.parametrize("name", ["two.eval", "two.json"])
def test_answers_of_a_model(name: str) -> None:
    found = import_file(INSPECT / name)
    assert (found.format, found.question, found.true_labels) == ("inspect-ai", "answer", TARGETS)
    assert rows_of(found) == [(f"q{k}", "mockllm/two", y) for k, y in enumerate("AAAB")]
    assert found.data is not None
    assert found.data["text"].to_pylist() == [f"Is {k} even?" for k in range(4)]


def test_logs_of_several_models_are_a_crowd() -> None:
    found = import_file([INSPECT / "one.eval", INSPECT / "two.json"])
    assert found.annotations.annotator_ids.tolist() == ["mockllm/one", "mockllm/two"]
    assert found.annotations.to_matrix().tolist() == [[0, 0], [1, 0], [0, 0], [1, 1]]
    assert found.true_labels == TARGETS


def test_the_last_epoch_counts() -> None:
    with pytest.warns(DataWarning, match="4 rows repeat .* kept the last of each"):
        found = import_file(INSPECT / "three.eval")
    assert rows_of(found) == [(f"q{k}", "mockllm/three", y) for k, y in enumerate("ABAA")]


def test_grades_of_scorers() -> None:
    """Two models and a rule; the first two are called by the models."""
    found = import_file(INSPECT / "graded.eval")
    assert (found.question, found.true_labels) == ("grade", {})
    names = ["includes", "mockllm/judge-one", "mockllm/judge-two"]
    grades = ["ICC", "IIC", "ICI", "IIP"]
    wanted = [(f"mockllm/three/q{k}", w, y) for k in range(4) for w, y in zip(names, grades[k], strict=True)]
    assert rows_of(found) == wanted
    assert found.data is not None
    assert set(found.data["answer"].to_pylist()) == {"Default output from mockllm/model"}


def test_grades_of_every_epoch() -> None:
    found = import_file(INSPECT / "three.eval", question="grade")
    assert rows_of(found)[-2:] == [("mockllm/three/q3", "choice", "C"), ("mockllm/three/q3/2", "choice", "I")]
    with pytest.raises(InputError, match="there is no question 'choice'; 'answer' reads the answers of the model"):
        import_file(INSPECT / "three.eval", question="choice")


def test_samples_without_a_score_are_left_out(tmp_path: Path) -> None:
    log = json.loads((INSPECT / "two.json").read_text())
    log["samples"][0]["scores"] = {}
    log["samples"][1]["scores"]["choice"]["answer"] = None
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = import_file(tmp_path / "log.json")
    assert found.dropped == {"samples without a score": 1, "without an answer": 1}
    assert found.annotations.n_annotations == 2


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    """Its members are packed by Zstandard, which conal unpacks itself."""
    content = (INSPECT / "two.eval").read_bytes()
    with zipfile.ZipFile(INSPECT / "two.eval") as archive:
        info = archive.getinfo("samples/q0_epoch_1.json")
    assert info.compress_type == 93
    middle = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
    (tmp_path / "a.eval").write_bytes(content[:middle] + bytes(8) + content[middle + 8 :])
    with pytest.raises(InputError, match="is not a readable zip file"):
        import_file(tmp_path / "a.eval")


def test_a_log_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conal.io.platforms.files.JSON_BYTES", 1000)
    monkeypatch.setattr("conal.io.limits.MAX_RATIO", 1)
    with pytest.raises(InputError, match="unpacks to more than"):
        import_file(INSPECT / "two.eval")


# ---------------------------------------------------------------- MLflow


@pytest.mark.parametrize("name", ["traces.json", "traces.jsonl", "traces.parquet"])
def test_assessments(name: str) -> None:
    found = import_file(MLFLOW / name, question="correct")
    assert (found.format, found.question) == ("mlflow", "correct")
    assert found.data is not None
    asked = dict(zip(found.data["task"].to_pylist(), found.data["request"].to_pylist(), strict=True))
    given = {(json.loads(asked[task])["question"][3], who): label for task, who, label in rows_of(found)}
    judges = {"judge-a": [True, False, True, False], "judge-b": [True, True, True, False]}
    wanted = {(str(k), who): y for who, labels in judges.items() for k, y in enumerate(labels)}
    assert given == wanted | {("0", "ann@example.org"): False, ("1", "ann@example.org"): False}
    assert [(json.loads(asked[task])["question"][3], y) for task, y in found.true_labels.items()] == [("0", True)]


def test_names_of_assessments_are_questions() -> None:
    """'tags' has lists: each tag is a question of its own."""
    with pytest.raises(InputError, match=r"has several assessments: 'correct', 'polite', 'tags'; choose one with"):
        import_file(MLFLOW / "traces.json")
    found = import_file(MLFLOW / "traces.json", question="polite")
    assert [row[1:] for row in rows_of(found)] == [("ann@example.org", "yes")]
    assert found.dropped == {"tasks without a label": 3}
    tagged = import_file(MLFLOW / "traces.json", question="tags=b")
    assert [row[1:] for row in rows_of(tagged)] == [("judge-a", "yes")]


def test_assessments_that_were_replaced_are_left_out(tmp_path: Path) -> None:
    traces = json.loads((MLFLOW / "traces.json").read_text())
    for trace in traces:
        trace["info"]["assessments"][0]["valid"] = False
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    found = import_file(tmp_path / "traces.json", question="correct")
    assert found.dropped == {"replaced by a later assessment": 4}
    assert found.annotations.n_annotations == 6
