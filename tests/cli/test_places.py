"""Places where results may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from conal.cli.inputs import check_results
from conal.errors import InputError


def test_places_for_tables(tmp_path: Path) -> None:
    check_results(tables=[tmp_path / "new" / "a.csv", None], overwrite=False)
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").mkdir()
    check_results(tables=[tmp_path / "a.csv"], overwrite=True)
    with pytest.raises(InputError, match=r"a\.csv: exists already"):
        check_results(tables=[tmp_path / "a.csv"], overwrite=False)
    with pytest.raises(InputError, match=r"b\.csv: is a folder"):
        check_results(tables=[tmp_path / "b.csv"], overwrite=True)
    with pytest.raises(InputError, match="unknown kind of table"):
        check_results(tables=[tmp_path / "a"], overwrite=False)


def test_other_files_may_be_called_anything(tmp_path: Path) -> None:
    check_results(files=[tmp_path / "page.html", tmp_path / "tasks.json", None], overwrite=False)
    (tmp_path / "page.html").write_text("")
    with pytest.raises(InputError, match=r"page\.html: exists already"):
        check_results(files=[tmp_path / "page.html"], overwrite=False)


def test_no_source_is_replaced_and_no_place_is_taken_twice(tmp_path: Path) -> None:
    source, other = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("")
    with pytest.raises(InputError, match=r"a\.csv: is an input file; choose another place for the result"):
        check_results(tables=[tmp_path / ".." / tmp_path.name / "a.csv"], sources=[None, source], overwrite=True)
    with pytest.raises(InputError, match=r"b\.csv: is used for two tables"):
        check_results(files=[other], tables=[other], sources=[source], overwrite=True)


def test_files_of_a_model_folder_are_conals_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"l\.csv: is inside the model folder, which is reserved for conal"):
        check_results(tables=[tmp_path / "l.csv"], model=tmp_path, overwrite=True)
    check_results(tables=[tmp_path / "deeper" / "l.csv"], model=tmp_path, overwrite=False)


def test_a_link_in_a_model_folder_is_no_way_out(tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (tmp_path / "precious.csv").write_text("years of work")
    (model / "l.csv").symlink_to(tmp_path / "precious.csv")
    with pytest.raises(InputError, match=r"l\.csv: is inside the model folder, which is reserved for conal"):
        check_results(tables=[model / "l.csv"], model=model, overwrite=True)
