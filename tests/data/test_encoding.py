"""Names to codes and back, whatever the names are."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conal import Annotations
from conal.data.encoding import MISSING, as_names, decode_position, encode
from conal.errors import InputError

NAN = float("nan")
DAYS = [date(2024, 3, 1), date(2023, 3, 1)]
HASHABLES = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.text(max_size=3),
    st.tuples(st.integers(0, 3), st.text(max_size=2)),
    st.none(),
)


def check(values: object, codes: list[int], names: list[Any]) -> None:
    encoded = encode(values)
    assert encoded[0].tolist() == codes
    assert encoded[0].dtype == np.int32
    assert encoded[1].tolist() == names
    assert [type(name) for name in encoded[1].tolist()] == [type(name) for name in names]
    assert not encoded[1].flags.writeable


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
        ([10, 2, 10], [1, 0, 1], [2, 10]),
        ([-3, 4], [0, 1], [-3, 4]),
        ([2.0, 1.0], [1, 0], [1, 2]),
        ([2.5, 1.0], [1, 0], [1.0, 2.5]),
        ([True, False, True], [1, 0, 1], [False, True]),
        (DAYS, [1, 0], DAYS[::-1]),
        (
            [datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 4)],
            [1, 0],
            [datetime(2024, 1, 1, 4), datetime(2024, 1, 1, 5)],
        ),
        ([(1, "b"), (1, "a")], [1, 0], [(1, "a"), (1, "b")]),
        ([(1, 2), (0, 2)], [1, 0], [(0, 2), (1, 2)]),
        ([(1, 2), (0,), (1, 2)], [1, 0, 1], [(0,), (1, 2)]),
        (["b", 10, 2, "a"], [3, 0, 1, 2], [10, 2, "a", "b"]),  # by type, then as written
        ([b"y", b"x"], [1, 0], [b"x", b"y"]),
        ([Decimal("2.5"), Decimal("1.5")], [1, 0], [Decimal("1.5"), Decimal("2.5")]),
        (["", "a"], [0, 1], ["", "a"]),
        ([2**64, 2**63, 1], [2, 1, 0], [1, 2**63, 2**64]),
        ([], [], []),
    ],
)
def test_codes_follow_the_sorted_names(values: list[Any], codes: list[int], names: list[Any]) -> None:
    check(values, codes, names)
    check(tuple(values), codes, names)
    check((value for value in values), codes, names)


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        (["b", None, "a"], [1, -1, 0], ["a", "b"]),
        (["b", NAN, "a"], [1, -1, 0], ["a", "b"]),
        ([7, None, 3], [1, -1, 0], [3, 7]),
        ([7.0, NAN, 3.0], [1, -1, 0], [3, 7]),
        ([True, None], [0, -1], [True]),
        ([(1, 2), None], [0, -1], [(1, 2)]),
        ([(1, 2), NAN, "a"], [1, -1, 0], ["a", (1, 2)]),
        ([1, "a", pd.NA, pd.NaT], [0, 1, -1, -1], [1, "a"]),
        ([None, NAN], [-1, -1], []),
        ([None], [-1], []),
        (np.array([1.0, np.nan, 0.0]), [1, -1, 0], [0, 1]),
        (np.array([1.0, np.nan], dtype=np.float16), [0, -1], [1]),
        (np.array(["b", None, "a"], dtype=object), [1, -1, 0], ["a", "b"]),
        (pd.Series([4, None, 2]), [1, -1, 0], [2, 4]),
        (pd.Series([4, None, 2], dtype="Int64"), [1, -1, 0], [2, 4]),
        (pa.chunked_array([[None, "b"], ["a", "b"]]), [-1, 1, 0, 1], ["a", "b"]),
        (pa.chunked_array([[1.0, NAN], [None, 0.5]]), [1, -1, -1, 0], [0.5, 1.0]),
        (pa.nulls(2), [-1, -1], []),
        (pa.chunked_array([], pa.string()), [], []),
    ],
)
def test_missing_values_have_code_minus_one(values: object, codes: list[int], names: list[Any]) -> None:
    check(values, codes, names)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.array(["b", "a"]), ["a", "b"]),
        (np.array([b"b", b"a"]), [b"a", b"b"]),
        (np.array([2, 1], dtype=np.uint8), [1, 2]),
        (np.array([2**64 - 1, 3], dtype=np.uint64), [3, 2**64 - 1]),
        (np.array([2, 1], dtype=np.float32), [1, 2]),
        (np.array([True, False]), [False, True]),
        (np.array(["2024-03-01", "2023-03-01"], dtype="datetime64[D]"), DAYS[::-1]),
        (pa.array(["b", "a"], pa.large_string()), ["a", "b"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["a", "b"]),
        (pa.chunked_array([pa.array(["b"]).dictionary_encode(), pa.array(["a"]).dictionary_encode()]), ["a", "b"]),
        (pd.Series(["b", "a"], dtype="category"), ["a", "b"]),
        (pd.Categorical(["b", "a"], categories=["b", "a"], ordered=True), ["a", "b"]),
        (pd.Series(["b", "a"], index=[5, 9]), ["a", "b"]),
        (pl.Series(["b", "a"]), ["a", "b"]),
        ({"b": 0, "a": 0}, ["a", "b"]),
    ],
)
def test_containers(values: object, names: list[Any]) -> None:
    check(values, [1, 0], names)


@given(st.lists(HASHABLES))
def test_decoding_gives_the_values_back(values: list[Any]) -> None:
    codes, names = encode(values)
    assert [None if code == MISSING else names[code] for code in codes] == values
    assert len(set(names.tolist())) == len(names)


@given(st.lists(HASHABLES), st.randoms(use_true_random=False))
def test_names_do_not_depend_on_the_order_of_the_rows(values: list[Any], random: Any) -> None:
    shuffled = random.sample(values, len(values))
    assert encode(shuffled)[1].tolist() == encode(values)[1].tolist()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([["a"], ["b"]], r"\['a'\] cannot be a name, it is a list"),
        (np.zeros((2, 2), int), r"\[0, 0\] cannot be a name, it is a list"),
        (pa.array([{"x": 1}]), r"\{'x': 1\} cannot be a name, it is a dict"),
        ([1, "a", ("b", [])], r"\('b', \[\]\) cannot be a name, it is a tuple"),
    ],
)
def test_values_that_cannot_be_names(values: object, shown: str) -> None:
    with pytest.raises(InputError, match=shown):
        encode(values)


@pytest.mark.parametrize("values", [[float(2**60), NAN], pd.Series([2**60, None]), np.array([-(2.0**53)])])
def test_long_numbers_that_became_floats_are_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"numbers such as -?[0-9]{16,} have too many digits"):
        encode(values)


def test_long_integers_keep_their_digits() -> None:
    check([2**60 + 1, 2**60], [1, 0], [2**60, 2**60 + 1])


def test_text_is_in_the_order_of_its_characters() -> None:
    names = ["", "B", "a", "ab", "é", "\ufffd", "\U0001f600"]
    assert names == sorted(names)
    check(names[::-1], [6, 5, 4, 3, 2, 1, 0], names)
    check(pa.array([*names[::-1], None]), [6, 5, 4, 3, 2, 1, 0, MISSING], names)


@pytest.mark.parametrize("values", [[float("inf"), 1.0], np.array([0, -np.inf]), [float("inf"), "a"], [1, -np.inf]])
def test_infinity_is_no_name(values: Any) -> None:
    """No JSON can contain it: a model with such a class could be trained, but not saved."""
    with pytest.raises(InputError, match="infinity cannot be a name; write it as text"):
        encode(values)


def test_a_date_that_python_does_not_have_is_no_name() -> None:
    dates = pa.chunked_array([pa.array([0, 2**60]).cast(pa.timestamp("s"))])
    with pytest.raises(InputError, match=r"a value of type timestamp\[s\] is out of range .*; write it as text"):
        encode(dates)


@pytest.mark.parametrize(
    "values", [["a", "b\ud800"], np.array(["\udfff"], dtype=object), [1, "\ud800"], [("x",), "\ud83d"]]
)
def test_half_characters_are_no_names(values: Any) -> None:
    with pytest.raises(InputError, match=r"a name contains an incomplete character \('\\ud"):
        encode(values)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], np.dtype(np.int64)),
        ([1.0, 2], np.dtype(np.int64)),
        (np.array([1, 2], dtype=np.int8), np.dtype(np.int64)),
        (range(2), np.dtype(np.int64)),
        ([1.5, 2.0], np.dtype(np.float64)),
        ([True, False], np.dtype(bool)),
        ([True, 2], np.dtype(object)),
        (["a", "b"], np.dtype(object)),
        ([(1, 2), (3, 4)], np.dtype(object)),
        ([2**63, 1], np.dtype(object)),
        ([], np.dtype(object)),
    ],
)
def test_as_names(values: Any, dtype: np.dtype[Any]) -> None:
    names = as_names(values)
    assert names.dtype == dtype
    assert names.shape == (len(values),)
    assert names.tolist() == list(values)
    assert not names.flags.writeable


def test_as_names_copies() -> None:
    source = np.array([1, 2])
    names = as_names(source)
    source[0] = 9
    assert names.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("names", "wanted", "position"),
    [
        ([30, 10, 20], [10, 20, 30, 40, -1], [1, 2, 0, -1, -1]),
        (["b", "a"], ["a", "c", "b"], [1, -1, 0]),
        ([(1, 2), "x"], ["x", (1, 2), (2, 1)], [1, 0, -1]),
        ([1, 2], ["1", "2"], [-1, -1]),
        ([1, 2], [2.0, 2.5], [1, -1]),
        ([], [1, 2], [-1, -1]),
        ([1], [], []),
    ],
)
def test_decode_position(names: list[Any], wanted: list[Any], position: list[int]) -> None:
    found = decode_position(as_names(names), as_names(wanted))
    assert found.dtype == np.int64
    assert found.tolist() == position


@given(st.lists(st.integers(-20, 20), unique=True), st.lists(st.integers(-25, 25)))
def test_decode_position_against_a_loop(names: list[int], wanted: list[int]) -> None:
    def slow() -> list[int]:
        return [names.index(name) if name in names else MISSING for name in wanted]

    numbers: npt.NDArray[Any] = np.array(names, dtype=np.int64)
    assert decode_position(numbers, np.array(wanted, dtype=np.int64)).tolist() == slow()
    texts = as_names([str(name) for name in names])
    assert decode_position(texts, as_names([str(name) for name in wanted])).tolist() == slow()


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32])
@pytest.mark.parametrize("spread", [1, 40])
def test_integers_dense_and_sparse(kind: type[np.integer], spread: int) -> None:
    """Close together they are counted off, far apart hashed: the same codes."""
    small = np.array([3, 0, 2, 3, 1, 0], dtype=np.int64) * spread
    values = small.astype(kind) + (np.iinfo(kind).max - kind(3 * spread))
    found = encode(values)
    assert found[1].tolist() == sorted({int(value) for value in values})
    assert found[1].dtype == np.int64
    assert found[0].tolist() == [3, 0, 2, 3, 1, 0]
    assert found[0].dtype == np.int32


def test_integers_at_both_ends_of_their_range() -> None:
    values = np.array([2**63 - 1, -(2**63), 0])
    assert encode(values)[0].tolist() == [2, 0, 1]
    assert encode(pa.array([5, None, 4]))[0].tolist() == [1, -1, 0]


@pytest.mark.parametrize("values", [["x", True, 1], [True, 1], [1.0, True], [np.True_, 1, "x"], [0, False, None]])
def test_truth_values_beside_equal_numbers(values: list[Any]) -> None:
    """Python takes True and 1 for one name, and Arrow makes a number of True."""
    for each in (values, np.array(values, dtype=object), pd.Series(values, dtype=object).to_list()):
        with pytest.raises(InputError, match=r"True and 1 are both among the names|False and 0 are both"):
            encode(each)
    with pytest.raises(InputError, match=r"matrix: label: .* are both among the names"):
        Annotations.from_matrix([values])


def test_truth_values_beside_other_numbers() -> None:
    assert encode([2.0, True, "x"])[1].tolist() == [True, 2, "x"]
    assert [type(name) for name in encode([2.0, True])[1].tolist()] == [bool, int]


@pytest.mark.parametrize("values", [["x", 1, 1.0], ["x", 1.0, 1]])
def test_one_number_in_two_types_has_one_name(values: list[Any]) -> None:
    found = encode(values)
    assert (found[0].tolist(), list(map(repr, found[1].tolist()))) == ([1, 0, 0], ["1", "'x'"])
