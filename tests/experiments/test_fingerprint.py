"""Fingerprints of code: which modules a result depends on, what changes them, and what stores and pages tell."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conal
from conal.experiments import Run, Store, fingerprint, runner
from conal.experiments.bounds import Bound
from conal.experiments.fingerprint import SHOWING, modules_behind
from conal.experiments.privacy import Privacy
from conal.experiments.real_tables import Table2
from conal.experiments.results_page import _made_by, _shown
from conal.experiments.runner import run_missing
from conal.experiments.runs import counted, execute
from conal.io.features import features_from

MODULE = sys.modules["conal.experiments.fingerprint"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of a package that stands in for conal's, and returns the fingerprint of its module ``root``."""
    place = tmp_path / "conal"
    for room in ("methods", "io"):
        (place / room).mkdir(parents=True)
        (place / room / "__init__.py").write_text("")
    (place / "__init__.py").write_text("")

    def found(name: str) -> Path:
        path = place.parent / Path(*name.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    monkeypatch.setattr(MODULE, "_file", found)
    monkeypatch.setattr(MODULE, "_is_package", lambda name: found(name).name == "__init__.py")

    def write(**modules: str) -> str:
        for name, text in modules.items():
            found(f"conal.{name.replace('__', '.')}").write_text(text)
        for cached in (MODULE._read, MODULE._members_by_name, MODULE._exported):
            cached.cache_clear()
        return str(MODULE.fingerprint(["conal.methods.root"]))

    yield write
    for cached in (MODULE._read, MODULE._members_by_name, MODULE._exported):
        cached.cache_clear()


def test_code_counts_and_words_do_not(package: Any) -> None:
    before = package(methods__root="def f(x):\n    return parameter(default=1, help='One.') + x\n")
    other = "'''A story.'''\ndef f(x):\n    '''Words.'''\n    # why\n    return parameter(default=1, help='Two.') + x\n"
    assert package(methods__root=other) == before
    assert package(methods__root="def f(x):\n    return parameter(default=2, help='One.') + x\n") != before


@pytest.mark.parametrize(
    "imports",
    [
        "from conal.methods.other import g",
        "def f():\n    from conal.methods.other import g",
        "from conal.methods import other",
        "from conal import methods\nmethods.g()",
        "from conal.methods import g",
        "import conal.methods.other",
    ],
)
def test_what_is_imported_counts(imports: str, package: Any) -> None:
    before = package(methods="from conal.methods.other import g", methods__root=imports, methods__other="g = 1")
    assert package(methods__other="g = 2") != before
    assert package(methods__other="g = 1") == before


@pytest.mark.parametrize(
    "imports",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from conal.methods.other import g",
        "from conal.io.other import g",  # reads files
        "x = 1",
    ],
)
def test_what_is_not_used_does_not_count(imports: str, package: Any) -> None:
    before = package(methods__root=imports, methods__other="g = 1", io__other="g = 1")
    assert package(methods__other="g = 2", io__other="g = 2") == before


def test_a_run_depends_on_its_method_and_data_and_not_on_others() -> None:
    behind = modules_behind(["conal.methods.conal", "conal.training.loop"])
    assert {"conal.networks.auxiliary", "conal.training.batches", "conal.parameters.training"} <= behind
    assert not {name for name in behind if name.startswith(("conal.io", "conal.report", "conal.findings", "conal.cli"))}
    assert "conal.methods.cross_conal" not in behind
    runs = [
        Run("synthetic", "conal"),
        Run("synthetic", "conal", seed=1),
        Run("synthetic", "xconal"),
        Run("music", "conal"),
    ]
    codes = [run.code for run in runs]
    assert codes[0] == codes[1]
    assert len(set(codes)) == 3
    assert Run("synthetic", "conal", keep=("coverage",)).code not in codes


@pytest.mark.parametrize("name", ["aggregation.dawid_skene", "aggregation.kos", "aggregation.em"])
def test_a_choice_by_name_may_use_every_aggregator(name: str) -> None:
    assert f"conal.{name}" in modules_behind(["conal.methods.two_stage"])


PASSING_ON = {
    "conal.distributed.training",  # one process on a CPU: loss.backward(), and nothing else
    "conal.io.features",
    "conal.io.picture_arrays",
    "conal.io.texts",
}
"""Called by every run, outside the packages that count: they hand arrays on as they are."""


def modules_called(run: Run, *, reported: bool) -> set[str]:
    """The modules of conal whose functions a run calls; those that findings call only if these are measured."""
    root, called, inside = f"{Path(conal.__file__).parent}{os.sep}", set[str](), 0

    def see(frame: FrameType, event: str, _: object) -> None:  # for every call, so that it must be quick
        nonlocal inside
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(root):
            return
        if file.startswith(f"{root}findings") and not reported:
            inside += 1 if event == "call" else -1
        elif not inside:
            called.add(file)

    sys.setprofile(see)
    try:
        execute(run)
    finally:
        sys.setprofile(None)
    paths = (Path(file.removeprefix(root)).with_suffix("") for file in called)
    return {".".join(["conal", *path.parts]) for path in paths if path.name != "__init__"}


@pytest.mark.parametrize(
    ("method", "keep"),
    [
        ("conal", ()),
        ("dl-glad", ("right", "cleaned_labels")),
        ("xconal", ("members", "confusion", "omega", "two_stage")),
        ("conal", ("commonness",)),
    ],
)
@pytest.mark.filterwarnings("ignore::conal.errors.ConalWarning")
def test_every_module_that_a_run_calls_counts(method: str, keep: tuple[str, ...]) -> None:
    tiny = {"n_train": 120, "n_valid": 30, "n_test": 30}
    run = Run("synthetic", method, data=tiny, parameters={"epochs": 1}, keep=keep)
    execute(run)  # imports, which call functions of modules that the run has nothing to do with
    roots, rooms = counted(method, "synthetic", keep, gold=False)
    called = modules_called(run, reported="findings" in rooms)
    assert len(called) > 40
    assert not called - modules_behind(roots, rooms=rooms) - SHOWING - PASSING_ON


def test_features_of_runs_are_handed_on_as_they_are() -> None:
    for dtype in (np.float32, np.float64, np.uint8):
        array = np.ones((3, 2), dtype)
        assert features_from(array).values is array


def test_findings_count_only_where_reports_are_measured() -> None:
    kept: list[tuple[str, ...]] = [(), ("right",), ("members",), ("coverage",)]
    behind = [
        modules_behind(roots, rooms=rooms) for roots, rooms in (counted("conal", "music", k, gold=False) for k in kept)
    ]
    assert ["conal.findings.inspection" in each for each in behind] == [False, False, False, True]
    assert ["conal.estimator.results" in each for each in behind] == [False, False, False, True]


@pytest.mark.parametrize(
    ("module", "behind"),
    [
        ("conal.datasets.gate", "conal._support.arrays"),
        ("conal.experiments.runs", "conal.text.terms"),
        ("conal.experiments.bayes_labels", "conal.theory.bayes"),
        (Privacy.__module__, "conal.privacy.release"),
    ],
)
def test_helpers_and_texts_and_privacy_count(module: str, behind: str) -> None:
    assert behind in modules_behind([module])


def stored(path: Path, run: Run, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, Store(path) as store:
        patched.setattr(Run, "code", property(lambda self: code))
        store.add(run, {"test_accuracy": 0.5, "seconds": 1.0})


def test_runs_of_other_code_are_stale_and_repeated_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = (Run("synthetic", "dl-mv", seed) for seed in range(3))
    stored(tmp_path / "s.sqlite", one, "old", monkeypatch)
    with Store(tmp_path / "s.sqlite") as store:
        store.add(two, {"test_accuracy": 0.6, "seconds": 1.0})
        assert store.stale([one, two, three, one]) == [one]
        assert store.missing([one, two, three]) == [three]
        monkeypatch.setattr(runner, "execute", lambda run: {"test_accuracy": 0.9, "seconds": 1.0})
        assert run_missing(store, [one, two], verbose=False) == 0
        assert store.require(one)["test_accuracy"] == 0.5
        assert run_missing(store, [one, two], verbose=False, stale=True) == 1
        assert [store.require(run)["test_accuracy"] for run in (one, two)] == [0.9, 0.6]
        assert store.stale([one, two]) == []


def test_a_store_without_fingerprints_is_stale(tmp_path: Path) -> None:
    run, path = Run("synthetic", "dl-mv"), tmp_path / "s.sqlite"
    with Store(path) as store:
        store.add(run, {"seconds": 1.0})
    with closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE runs DROP COLUMN code")
        old.commit()
    with Store(path) as store:
        assert store.stale([run]) == [run]
        assert store.get(run) == {"seconds": 1.0}


def test_a_page_says_whether_its_table_is_of_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"seed": [0, 1]})
    assert _made_by(_shown("bound", table)).startswith("*Older than this version: made before")
    present = Bound().code()
    assert _made_by(_shown("bound", table.append_column("code", [[present] * 2]))) == (
        f"*Made by the code of this version (`{present}`).*"
    )
    mixed = _made_by(_shown("bound", table.append_column("code", [[present, "abc"]])))
    assert mixed.startswith("*Older than this version: made by other code (")
    assert "`abc`" in mixed


def test_a_table_has_the_code_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Table2(quick=True, seeds=1)
    runs = experiment.runs()
    with Store(tmp_path / "s.sqlite") as store:
        for run in runs:
            store.add(run, {"seconds": 1.0})
        assert experiment.code(store) == experiment.code()
    stored(tmp_path / "s.sqlite", runs[0], "old", monkeypatch)
    with Store(tmp_path / "s.sqlite") as store:
        assert experiment.code(store) != experiment.code()


def test_digests_are_short_and_stable() -> None:
    assert fingerprint.digest_of(["a"]) == "ca978112ca1b"
