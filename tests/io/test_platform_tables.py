"""MTurk, Toloka, peerannot and matrices: every trap, in files written by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conal.errors import DataWarning, InputError
from conal.io import import_file, read_annotations
from conal.io.importing import detect
from helpers.crowds import triples
from helpers.files import write_csv
from helpers.files import write_lines as write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.csv"


# ---------------------------------------------------------------- Mechanical Turk

MTURK = (
    '"HITId","HITTypeId","Title","Reward","AssignmentId","WorkerId","AssignmentStatus","SubmitTime",'
    '"WorkTimeInSeconds","Input.text","Answer.kind.label","Approve","Reject"'
)


def test_mturk(path: Path) -> None:
    write(
        path,
        MTURK,
        '"H1","T","Cats, and ""dogs""","$0.05","A1","W1","Approved","Wed Dec 08 14:26:17 PST 2010","7","x","cat","",""',
        '"H1","T","Cats, and ""dogs""","$0.05","A2","W2","Rejected","Wed Dec 08 14:26:18 PST 2010","7","x","dog","",""',
        '"H2","T","Cats, and ""dogs""","$0.05","A3","W2","Submitted","Wed Dec 08 14:26:19 PST 2010","","y","dog","",""',
        '"H2","T","Cats, and ""dogs""","$0.05","A4","W1","Approved","Wed Dec 08 14:26:19 PST 2010","7","y","","",""',
    )
    found = import_file(path)
    assert triples(found.annotations) == [("H1", "W1", "cat"), ("H2", "W2", "dog")]
    assert found.dropped == {"rejected by the requester": 1, "without an answer": 1}
    assert found.question == "kind"
    assert found.data is not None
    assert found.data.to_pydict() == {"task": ["H1", "H2"], "text": ["x", "y"]}
    kept = import_file(path, keep_rejected=True)
    assert triples(kept.annotations) == [("H1", "W1", "cat"), ("H1", "W2", "dog"), ("H2", "W2", "dog")]
    with pytest.warns(DataWarning, match="left out 1 rejected by the requester, 1 without an answer"):
        assert triples(read_annotations(path, task="Input.text")) == [("x", "W1", "cat"), ("y", "W2", "dog")]
    assert import_file(path, task="text").annotations.task_ids.tolist() == ["x", "y"]


def test_mturk_the_last_of_two_is_the_last_in_time(path: Path) -> None:
    write(
        path,
        "HITId,WorkerId,SubmitTime,Input.text,Answer.kind",
        "H1,W1,Wed Jan 05 14:26:17 PST 2011,x,new",
        "H2,W1,Wed Dec 08 14:26:17 PST 2010,x,old",
    )
    with pytest.warns(DataWarning, match="kept the last"):
        assert triples(read_annotations(path, task="text")) == [("x", "W1", "new")]


def test_mturk_several_answers_need_a_choice(path: Path) -> None:
    write(path, "HITId,WorkerId,Answer.kind,Answer.mood", "H1,W1,cat,sad")
    with pytest.raises(InputError, match=r"has several answers: 'kind', 'mood'; choose one with .*--question"):
        read_annotations(path)
    for options in ({"question": "mood"}, {"question": "Answer.mood"}, {"label": "Answer.mood"}):
        assert triples(import_file(path, **options).annotations) == [("H1", "W1", "sad")]  # type: ignore[arg-type]


def test_mturk_several_items_in_a_hit(path: Path) -> None:
    write(
        path,
        "HITId,WorkerId,Input.text1,Input.text2,Answer.q1,Answer.q2",
        "H1,W1,x,y,cat,dog",
        "H1,W2,x,y,dog,",
    )
    with pytest.raises(InputError, match=r"several answers: 'q1', 'q2'.* take them all with --question 'q\*'"):
        read_annotations(path)
    assert triples(read_annotations(path, question="q1")) == [("H1", "W1", "cat"), ("H1", "W2", "dog")]
    found = import_file(path, question="q*")
    assert triples(found.annotations) == [("H1/1", "W1", "cat"), ("H1/1", "W2", "dog"), ("H1/2", "W1", "dog")]
    assert found.dropped == {"without an answer": 1}
    found = import_file(path, question="q*", task="text*")
    assert triples(found.annotations) == [("x", "W1", "cat"), ("x", "W2", "dog"), ("y", "W1", "dog")]
    with pytest.raises(InputError, match="needs a question such as"):
        read_annotations(path, question="q1", task="text*")
    with pytest.raises(InputError, match=r"there are no answers 'z\*' with a number; there are 'q1', 'q2'"):
        read_annotations(path, question="z*")


def test_mturk_a_column_per_choice(path: Path) -> None:
    write(
        path,
        "HITId,WorkerId,Answer.kind.cat,Answer.kind.dog",
        "H1,W1,true,false",
        "H1,W2,false,true",
        "H2,W1,true,true",
        "H2,W2,false,false",
    )
    found = import_file(path)
    assert triples(found.annotations) == [("H1", "W1", "cat"), ("H1", "W2", "dog")]
    assert found.dropped == {"with several answers": 1, "without an answer": 1}


@pytest.mark.parametrize(
    "answer", [{"kind": {"label": "cat"}}, {"kind": {"cat": True, "dog": False}}, {"kind": "cat"}, {"kind": ["cat"]}]
)
def test_mturk_answers_as_json(path: Path, answer: Any) -> None:
    frame = pd.DataFrame({"HITId": ["H"], "WorkerId": ["W"], "Answer.taskAnswers": [json.dumps([answer])]})
    frame.to_csv(path, index=False)
    found = import_file(path)
    assert (triples(found.annotations), found.question) == ([("H", "W", "cat")], "kind")


def test_mturk_as_rodrigues_published_it(path: Path) -> None:
    """No HITId, a true label among the inputs, and the line ends of old Macs."""
    lines = ["WorkerID,Input.song,Input.true_label,Answer.pred_label", "w1,a.mp3,rock,pop", "w2,a.mp3,rock,rock"]
    path.write_bytes("\r".join(lines).encode())
    found = import_file(path)
    assert triples(found.annotations) == [("a.mp3", "w1", "pop"), ("a.mp3", "w2", "rock")]
    assert found.true_labels == {"a.mp3": "rock"}


def test_mturk_without_a_name_for_tasks(path: Path) -> None:
    write(path, "WorkerId,Input.a,Input.b,Answer.kind", "W1,x,y,cat")
    with pytest.raises(InputError, match=r"no 'HITId', and 2 inputs: 'Input\.a', 'Input\.b'; .*--task-column"):
        read_annotations(path)
    assert triples(read_annotations(path, task="b")) == [("y", "W1", "cat")]


# ---------------------------------------------------------------- Toloka

TOLOKA = (
    "INPUT:text\tINPUT:url\tOUTPUT:kind\tGOLDEN:kind\tHINT:text\t"
    "ASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\tASSIGNMENT:submitted"
)


def test_toloka(tmp_path: Path) -> None:
    path = write(
        tmp_path / "assignments.tsv",
        TOLOKA,
        "x\tu\tcat\t\t\tt1\tw1\tAPPROVED\t2026-01-01T10:00:00.1",
        "",
        "x\tu\tdog\t\t\tt1\tw2\tREJECTED\t2026-01-01T10:00:00.2",
        "\t\t\t\t\t\t\t\t",
        "y\tv\tcat\tdog\thint\tt2\tw1\tSUBMITTED\t2026-01-01T10:00:00.3",
        "y\tv\tdog\tdog\thint\tt2\tw2\tEXPIRED\t",
        "y\tv\t\tdog\thint\tt2\tw3\tAPPROVED\t2026-01-01T10:00:00.4",
    )
    found = import_file(path)
    assert triples(found.annotations) == [("t1", "w1", "cat"), ("t2", "w1", "cat")]
    assert found.true_labels == {"t2": "dog"}
    assert found.dropped == {
        "rejected by the requester": 1,
        "of assignments not finished": 1,
        "without an answer": 1,
    }
    assert found.data is not None
    assert found.data.to_pydict() == {"task": ["t1", "t2"], "text": ["x", "y"], "url": ["u", "v"]}
    kept = import_file(path, keep_rejected=True).annotations
    assert triples(kept) == [("t1", "w1", "cat"), ("t1", "w2", "dog"), ("t2", "w1", "cat")]


def test_toloka_default_download_has_no_task(tmp_path: Path) -> None:
    rest = "ASSIGNMENT:link\tASSIGNMENT:assignment_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\tASSIGNMENT:started"
    row = "http\ta1\tw1\tAPPROVED\t2026-01-01T10:00:00"
    path = write(tmp_path / "a.tsv", f"INPUT:image\tOUTPUT:kind\t{rest}", f"1.jpg\tcat\t{row}")
    assert triples(read_annotations(path)) == [("1.jpg", "w1", "cat")]
    write(path, f"INPUT:a\tINPUT:b\tOUTPUT:kind\t{rest}", f"x\ty\tcat\t{row}")
    with pytest.raises(InputError, match=r"no 'ASSIGNMENT:task_id', and 2 inputs: 'INPUT:a', 'INPUT:b'.*--task-column"):
        read_annotations(path)
    assert triples(read_annotations(path, task="INPUT:b")) == [("y", "w1", "cat")]
    assert triples(read_annotations(path, task="b")) == [("y", "w1", "cat")]


def test_toloka_several_outputs_need_a_choice(path: Path) -> None:
    write(path, "OUTPUT:kind,OUTPUT:mood,ASSIGNMENT:task_id,ASSIGNMENT:worker_id", "cat,sad,t,w")
    with pytest.raises(InputError, match="has several outputs: 'kind', 'mood'"):
        read_annotations(path)
    for name in ("mood", "OUTPUT:mood"):
        assert triples(read_annotations(path, question=name)) == [("t", "w", "sad")]


def test_toloka_true_labels_that_contradict_each_other(path: Path) -> None:
    header = "OUTPUT:kind,GOLDEN:kind,ASSIGNMENT:task_id,ASSIGNMENT:worker_id"
    write(path, header, "cat,cat,t,w1", "cat,dog,t,w2", "cat,dog,u,w2", "dog,dog,u,w3")
    found = import_file(path)
    assert found.true_labels == {"u": "dog"}
    assert found.dropped == {"true labels that contradict each other": 1}


def test_true_labels_are_of_the_labels_type(path: Path) -> None:
    header = "OUTPUT:kind,GOLDEN:kind,ASSIGNMENT:task_id,ASSIGNMENT:worker_id"
    found = import_file(write(path, header, "1,1,t,w1", "x,,u,w2"))
    assert found.true_labels == {"t": "1"}
    assert found.annotations.classes.tolist() == ["1", "x"]


def test_rows_without_a_worker_are_left_out(path: Path) -> None:
    header = "OUTPUT:kind,ASSIGNMENT:task_id,ASSIGNMENT:worker_id"
    found = import_file(write(path, header, "cat,t,w", "dog,t, "))
    assert triples(found.annotations) == [("t", "w", "cat")]
    assert found.dropped == {"without an annotator": 1}
    write(path, header, "cat,t,", "dog,t,")
    with pytest.raises(
        InputError, match=r"\(2 without an annotator\); let every annotator log in with a separate name"
    ):
        read_annotations(path)


def test_toloka_the_last_in_time_counts(path: Path) -> None:
    header = "OUTPUT:kind,ASSIGNMENT:task_id,ASSIGNMENT:worker_id,ASSIGNMENT:submitted"
    write(path, header, "new,t,w,2026-01-02T10:00:00", "old,t,w,2026-01-01T10:00:00")
    with pytest.warns(DataWarning, match="kept the last"):
        assert triples(read_annotations(path)) == [("t", "w", "new")]


# ---------------------------------------------------------------- platforms without a reader of their own


def test_figure_eight_is_a_plain_table_with_named_columns(path: Path) -> None:
    write(
        path,
        "_unit_id,_created_at,_id,_tainted,_worker_id,kind,kind_gold,text",
        "1,5/1/2016 10:00:00,11,false,21,cat,,x",
        "2,5/1/2016 10:00:02,13,false,21,cat,dog,y",
        "2,5/1/2016 10:00:03,14,false,23,dog,dog,y",
    )
    found = read_annotations(path, task="_unit_id", worker="_worker_id", label="kind")
    assert triples(found) == [(1, 21, "cat"), (2, 21, "cat"), (2, 23, "dog")]


def test_netease_crowd_is_a_plain_table(path: Path) -> None:
    write(
        path,
        "tasksetId,taskId,workerId,answer,completeTime,capability,truth",
        "1,10,100,1,1600000001,7,0",
        "1,10,101,0,1600000002,7,0",
        "1,11,100,1,1600000003,7,1",
    )
    assert detect(path)[0] == []
    assert triples(read_annotations(path)) == [(10, 100, 1), (10, 101, 0), (11, 100, 1)]


def test_crowd_truth_infer_is_a_plain_table(path: Path) -> None:
    write(path, "question,worker,answer", "q1,w1,1", "q1,w2,0")
    assert detect(path)[0] == []
    assert triples(read_annotations(path)) == [("q1", "w1", 1), ("q1", "w2", 0)]


# ---------------------------------------------------------------- peerannot


def test_peerannot(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"0": {"7": 1, "10": 0, "AI": 1}, "2": {"10": 0}, "3": {}}))
    found = import_file(path)
    assert triples(found.annotations) == [(0, 7, 1), (0, 10, 0), (2, 10, 0)]
    assert found.dropped == {"by the worker 'AI', a model": 1, "tasks without a label": 1}


def test_the_folder_of_peerannot(tmp_path: Path) -> None:
    """What ``peerannot simulate`` writes."""
    (tmp_path / "answers.json").write_text(json.dumps({"0": {"7": 1, "10": 0}, "2": {"10": 0}}))
    (tmp_path / "metadata.json").write_text(json.dumps({"name": "mine", "n_classes": 2, "n_workers": 2, "n_task": 3}))
    np.save(tmp_path / "ground_truth.npy", np.array([1, 0, 0]))
    (tmp_path / "train").mkdir()
    found = import_file(tmp_path)
    assert (found.format, triples(found.annotations)) == ("peerannot", [(0, 7, 1), (0, 10, 0), (2, 10, 0)])


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_peerannot_keeps_names(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"007": {"w": "x"}, "7": {"w": "y"}}))
    assert triples(read_annotations(path)) == [("007", "w", "x"), ("7", "w", "y")]


def test_peerannot_larger_than_the_piece_that_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({str(task): {str(w): w % 3 for w in range(5)} for task in range(40_000)}))
    assert path.stat().st_size > 2**20
    ann = read_annotations(path)
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes) == (40_000, 5, 3)


# ---------------------------------------------------------------- matrices


def test_cleanlab_labels_multiannotator(path: Path) -> None:
    frame = pd.DataFrame({"A1": [0, 1, np.nan], "A2": [np.nan, 1, 2], "A3": [np.nan, np.nan, 2]})
    frame.to_csv(path)
    found = import_file(path)
    assert found.format == "wide"
    assert triples(found.annotations) == [(0, "A1", 0), (1, "A1", 1), (1, "A2", 1), (2, "A2", 2), (2, "A3", 2)]


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_wide_tables_of_text_with_names(path: Path) -> None:
    write(path, "task,ann,bob,eve", "007,cat,,dog", "7,,cat,cat", "8,,,")
    with pytest.warns(DataWarning, match="left out 1 tasks without a label"):
        ann = read_annotations(path)
    assert triples(ann) == [("007", "ann", "cat"), ("007", "eve", "dog"), ("7", "bob", "cat"), ("7", "eve", "cat")]


def test_wide_columns_of_numbers_and_of_text(path: Path) -> None:
    write(path, "task,ann,bob", "a,1.0,x", "b,,1", "c,2.0,")
    ann = read_annotations(path, format="wide")
    assert triples(ann) == [("a", "ann", "1"), ("a", "bob", "x"), ("b", "bob", "1"), ("c", "ann", "2")]


def test_wide_minus_one_is_missing_and_numbers_name_annotators(path: Path) -> None:
    write(path, ",0,1,2", "0,1,-1,0", "1,-1,-1,1", "2,0,0,-1")
    assert triples(read_annotations(path)) == [(0, 0, 1), (0, 2, 0), (1, 2, 1), (2, 0, 0), (2, 1, 0)]


def test_wide_without_a_column_of_tasks(path: Path) -> None:
    write(path, "ann,bob", "cat,dog", ",dog")
    assert triples(read_annotations(path, format="wide")) == [(0, "ann", "cat"), (0, "bob", "dog"), (1, "bob", "dog")]
    with pytest.raises(InputError, match="no column for the task"):
        read_annotations(path)


def test_wide_parquet(tmp_path: Path) -> None:
    table = pa.table({"task": ["a", "b"], "ann": ["x", None], "bob": ["y", "x"]})
    pq.write_table(table, tmp_path / "a.parquet")
    ann = read_annotations(tmp_path / "a.parquet", format="wide")
    assert triples(ann) == [("a", "ann", "x"), ("a", "bob", "y"), ("b", "bob", "x")]


WIDE = pd.DataFrame({"A1": [0, 1, np.nan, 1], "A2": [np.nan, 1, np.nan, 0], "A3": [np.nan, np.nan, np.nan, 1]})


@pytest.mark.parametrize("name", [None, "song", "task"])
def test_a_pandas_index_is_no_annotator(tmp_path: Path, name: str | None) -> None:
    """cleanlab's matrices are frames; selected rows keep their index, which Parquet stores as the last column."""
    frame = WIDE[WIDE.notna().any(axis=1)].rename_axis(name)
    frame.to_parquet(tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").names[-1] == (name or "__index_level_0__")
    ann = read_annotations(tmp_path / "a.parquet", format="wide")
    assert triples(ann) == [(0, "A1", 0), (1, "A1", 1), (1, "A2", 1), (3, "A1", 1), (3, "A2", 0), (3, "A3", 1)]


def test_a_range_of_rows_is_no_column(tmp_path: Path) -> None:
    WIDE.to_parquet(tmp_path / "a.parquet")
    with pytest.warns(DataWarning, match="1 tasks without a label"):
        ann = read_annotations(tmp_path / "a.parquet", format="wide")
    assert (ann.task_ids.tolist(), ann.annotator_ids.tolist()) == ([0, 1, 3], ["A1", "A2", "A3"])


def test_an_index_of_several_columns_needs_a_choice(tmp_path: Path) -> None:
    index = pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["part", "number"])
    frame = WIDE.fillna(0).set_index(index)
    frame["row"] = list("abcd")
    frame.set_index("row", append=True).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"its index has several columns, 'part', 'number', 'row'; choose one"):
        read_annotations(tmp_path / "a.parquet", format="wide")
    ann = read_annotations(tmp_path / "a.parquet", format="wide", task="row")
    assert (ann.task_ids.tolist(), ann.annotator_ids.tolist()) == (list("abcd"), ["A1", "A2", "A3"])


def test_wide_tasks_twice(path: Path) -> None:
    write(path, "task,ann,bob", "a,x,y", "a,y,y")
    with pytest.raises(InputError, match="column 'task' has some tasks twice"):
        read_annotations(path, format="wide")


@pytest.mark.parametrize(
    "lines",
    [
        ["task,f1,f2", "a,0.5,1", "b,1,0", "c,0,1"],
        ["task,f1,f2", *(f"{k},{k * 7},{k * 3}" for k in range(60))],
        ["picture,ann,bob", "a,x,y", "b,x,x"],
        ["task,who,label", "a,x,y", "b,x,x"],
        ["task,worker,what", "a,x,y", "b,x,x"],
    ],
)
def test_features_and_other_tables_are_not_taken_for_matrices(path: Path, lines: list[str]) -> None:
    assert detect(write(path, *lines))[0] == []


def test_a_matrix_as_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "answers.npy", np.array([[0, -1], [1, 1]]))
    found = import_file(tmp_path / "answers.npy")
    assert (found.format, found.annotations.by_position) == ("npy", True)
    assert found.annotations.to_matrix().tolist() == [[0, -1], [1, 1]]


def test_more_annotators_than_the_piece_that_is_looked_at(path: Path) -> None:
    n = 2_000
    header = ",".join(f"a_very_long_name_of_annotator_number_{k}" for k in range(n))
    assert len(header) > 2**16
    write(path, f"task,{header}", "a," + ",".join(["x", "y"] * (n // 2)))
    ann = read_annotations(path)
    assert (ann.n_tasks, ann.n_annotators, ann.n_classes) == (1, n, 2)


def test_a_wide_tables_cost_is_linear_in_the_annotators(tmp_path: Path) -> None:
    """Eight times the annotators must not take sixty-four times as long."""
    seconds = []
    for n_annotators in (1000, 8000):
        path = tmp_path / f"{n_annotators}.csv"
        rows = [[f"t{t}", *("cat" if (t + k) % 3 else "dog" for k in range(n_annotators))] for t in range(3)]
        write_csv(path, ["task", *(f"a{k}" for k in range(n_annotators))], rows)
        before = process_time()
        assert read_annotations(path, format="wide").n_annotations == 3 * n_annotators
        seconds.append(process_time() - before)
    assert seconds[1] < 20 * seconds[0]


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_a_class_is_one_class_in_all_columns_of_a_wide_table(tmp_path: Path) -> None:
    """A column of 3.0 with a gap reads as the number 3, as pandas writes it, unless others have such numbers too."""
    path = tmp_path / "wide.csv"
    path.write_text("task,ann,bob\nt1,3.0,\nt2,,3.0\nt3,3.0,1.5\n", encoding="utf-8")
    assert import_file(path, format="wide").annotations.classes.tolist() == ["1.5", "3.0"]
    path.write_text("task,ann,bob\nt1,3.0,unsure\nt2,,3\nt3,3.0,3\n", encoding="utf-8")
    assert import_file(path, format="wide").annotations.classes.tolist() == ["3", "unsure"]
    path.write_text("task,ann,bob\nt1,3.0,4\nt2,,3\n", encoding="utf-8")
    assert import_file(path, format="wide").annotations.classes.tolist() == [3, 4]
    path.write_text("task,ann,bob\nt1,1,01\nt2,0.1,0.1\n", encoding="utf-8")
    assert import_file(path, format="wide").annotations.classes.tolist() == ["0.1", "01", "1"]


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_whole_numbers_with_gaps(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("task,ann,bob\nt1,3.0,\nt2,,4\n", encoding="utf-8")  # nothing to confuse
    assert triples(import_file(path, format="wide").annotations) == [("t1", "ann", 3.0), ("t2", "bob", 4.0)]


def test_a_line_end_in_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_bytes(b'task,"a\r\nb"\r\nt1,1e-400\r\n')
    with pytest.raises(InputError, match=r"line 1: the worker 'a\\r\\nb' contains the end of a line"):
        import_file(path, format="wide")
    path.write_bytes(b'task,a,b\r\nt1,x,y\r\nt2,"x\r\nt3,y",x\r\n')
    with pytest.raises(InputError, match=r"line 3: the label 'x\\r\\nt3,y' contains the end of a line"):
        import_file(path, format="wide")


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_toloka_frames(ending: str, tmp_path: Path) -> None:
    """toloka-kit makes a frame of the platform's table by ``pandas.read_csv``; users store it as Parquet or Feather."""
    header = (
        "INPUT:text\tOUTPUT:kind\tGOLDEN:kind\tHINT:text\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status"
    )
    lines = [
        "meow\tcat\tcat\t\tt1\tw1\tAPPROVED",
        "meow\tdog\tcat\t\tt1\tw2\tREJECTED",
        "woof\tdog\t\t\tt2\tw1\tAPPROVED",
    ]
    frame = pd.read_csv(io.StringIO("\n".join([header, *lines])), sep="\t")
    path = tmp_path / f"assignments.{ending}"
    getattr(frame, f"to_{ending}")(path)
    found = import_file(path)
    assert (found.format, triples(found.annotations)) == ("toloka", [("t1", "w1", "cat"), ("t2", "w1", "dog")])
    assert (found.true_labels, found.dropped) == ({"t1": "cat"}, {"rejected by the requester": 1})


@pytest.mark.filterwarnings("ignore:.*differ only in the way in which a number is written")
def test_numbers_that_no_float_holds_are_text_beside_decimals(path: Path, tmp_path: Path) -> None:
    """A float would make two classes of 16 digits one."""
    write(path, "task,ann,bob,eve", "a,9007199254740993,1.5,3.0", "b,9007199254740992,2.5,", "c,3,1.5,3.0")
    found = read_annotations(path, format="wide")
    assert found.classes.tolist() == ["1.5", "2.5", "3", "9007199254740992", "9007199254740993"]
    columns = {"task": ["a", "b"], "ann": pa.array([2**64 - 1, 1], pa.uint64()), "bob": [1, -2]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet", format="wide").classes.tolist() == ["-2", "1", str(2**64 - 1)]


def test_mturk_items_with_numbers_here_and_text_there(path: Path) -> None:
    cells = [json.dumps([{"q1": 1, "q2": "cat"}]), json.dumps([{"q1": 10**30, "q2": True}])]
    write_csv(path, ["HITId", "WorkerId", "Answer.taskAnswers"], [["h", "w", cells[0]], ["h", "v", cells[1]]])
    found = read_annotations(path, question="q*")
    assert triples(found) == [
        *(("h/1", "v", str(10**30)), ("h/1", "w", "1")),
        *(("h/2", "v", "True"), ("h/2", "w", "cat")),
    ]
    header = ["HITId", "WorkerId", "Input.text1", "Input.text2", "Answer.q1", "Answer.q2"]
    write_csv(path, header, [["h", "w", "1", "a", "x", "y"]])
    assert read_annotations(path, question="q*", task="text*").task_ids.tolist() == ["1", "a"]


def test_a_column_of_texts_in_a_wide_table_is_no_annotator(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("task,ann,bob,text\n" + "".join(f"t{k},cat,dog,the same\n" for k in range(4)))
    with pytest.warns(DataWarning, match="'text' is no annotator, as its name is that of texts; left out"):
        crowd = read_annotations(path, format="wide")
    assert crowd.annotator_ids.tolist() == ["ann", "bob"]
    assert crowd.classes.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("name", ["truth", "gold", "ground_truth", "true_label", "target", "expected"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_true_labels_in_a_wide_table_are_no_annotator(tmp_path: Path, name: str, ending: str) -> None:
    frame = pd.DataFrame({"task": [f"t{k}" for k in range(6)], "ann": [1, 2] * 3, "bob": [1, 1, 2] * 2})
    frame[name] = [2, None, 1, 1, -1, 2]
    path = tmp_path / f"wide{ending}"
    if ending == ".xlsx":
        frame.to_excel(path, index=False)
    elif ending == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    with pytest.warns(
        DataWarning, match=rf"{name!r} is no annotator.*--true-labels export.*AnnotationFile\.true_labels"
    ):
        found = import_file(path, format="wide" if ending == ".parquet" else None)
    assert found.format == "wide"
    assert found.annotations.annotator_ids.tolist() == ["ann", "bob"]
    assert found.true_labels == {"t0": 2, "t2": 1, "t3": 1, "t5": 2}


def test_a_named_column_of_annotators_or_labels_says_that_a_row_is_one_label(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"q{k},{model},{'good' if k % 2 else 'bad'}\n" for k in range(6) for model in ("gpt", "llama")]
    path.write_text("".join(["id,system,outcome\n", *rows]))
    found = import_file(path, worker="system", label="outcome")
    assert found.annotations.annotator_ids.tolist() == ["gpt", "llama"]
    with pytest.raises(InputError, match=r"no column for the worker;.*set worker= \(--worker-column\)"):
        import_file(path, label="outcome")
    path.write_text("".join(["sample,system,outcome\n", *rows]))
    with pytest.raises(InputError, match=r"no column for the task;.*set task= \(--task-column\)"):
        import_file(path, worker="system", label="outcome")


def test_a_table_with_usual_names_of_annotators_and_labels_is_not_wide(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"q{k},{model},{'good' if k % 2 else 'bad'}\n" for k in range(6) for model in ("gpt", "llama")]
    for task in ("id", "sentence_id", "image"):
        path.write_text("".join([f"{task},model,verdict\n", *rows]))
        assert import_file(path).annotations.annotator_ids.tolist() == ["gpt", "llama"]
    path.write_text("filename,gpt,llama\na.png,good,bad\nb.png,good,good\nc.png,bad,bad\n")
    assert import_file(path).format == "wide"
