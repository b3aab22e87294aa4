"""Between releases, numbers, files and messages stay as they are unless a change means to alter them.

After a change that means to, run `make golden` and review the difference with `git diff tests/golden`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden import folders, messages, numbers

EXPECTED = Path(__file__).parent / "expected"


def stored(name: str) -> Any:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def names(kind: str) -> list[str]:
    """What has a stored answer; what is new gets one by the next `make golden`."""
    return sorted(path.stem for path in (EXPECTED / kind).glob("*.json"))


def parse(rows: list[str]) -> npt.NDArray[np.float64]:
    return np.array([[float(x) for x in row.split()] for row in rows])


@pytest.mark.parametrize("name", names("aggregators"))
def test_posteriors_of_aggregators(name: str) -> None:
    expected = stored(f"aggregators/{name}")
    found = numbers.crowd_posteriors(name)
    assert found.keys() == expected.keys()
    for crowd, rows in expected.items():
        np.testing.assert_allclose(found[crowd], parse(rows), rtol=0, atol=1e-9, err_msg=crowd)


@pytest.mark.parametrize("name", names("methods"))
def test_posteriors_of_methods_after_three_epochs(name: str) -> None:
    expected = stored(f"methods/{name}")
    for kind, found in numbers.classifier_posteriors(name).items():
        np.testing.assert_allclose(found, parse(expected[kind]), rtol=0, atol=1e-5, err_msg=kind)


@pytest.mark.parametrize("name", names("folders"))
def test_files_of_a_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_alike(json.loads(json.dumps(folders.run(name))), stored(f"folders/{name}"), name)


def assert_alike(found: Any, expected: Any, place: str) -> None:
    """Equal, and numbers to 1e-5."""
    if isinstance(expected, dict):
        if place.endswith("/report.json"):  # a new section gets an answer by the next `make golden`
            found = {name: found[name] for name in found if name in expected}
        assert found.keys() == expected.keys(), place
        for key in expected:
            assert_alike(found[key], expected[key], f"{place}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_alike(one, other, f"{place}[{k}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5, rel=1e-5), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("name", sorted(messages.CASES))
def test_messages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert messages.say_error(*messages.CASES[name]) == stored("messages")[name]
