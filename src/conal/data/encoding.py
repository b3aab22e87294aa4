"""Names to integer codes and back, and numbers from text files, in which every name is text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal.errors import InputError

# Numbers from text files, in which every name is text: read as numbers only if no name changes.

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^(0|-?[1-9][0-9]{0,17}|-?(0|[1-9][0-9]{0,17})\.[0-9]+)$"
_WITH_GAPS = r"^(0|-?[1-9][0-9]{0,14})\.0$"
_FIRST_ROWS = 1000


def numbers_or_text(column: pa.ChunkedArray, *, padded: bool = False) -> pa.ChunkedArray:
    """Integers or decimals if every value is one, prints back unchanged, and no two names become one number.

    The task ``1.10`` is not the task ``1.1``, and no float holds an id of 17 digits and a fraction. Such columns stay
    text. One spelling is undone: pandas writes the integers of a column with gaps as ``1.0``, ``2.0``. Blank values are
    gaps. In a ``padded`` column, spaces around numbers do not count, as in files with ", " between the columns.
    """
    import pyarrow.compute as pc

    first, gaps = _values(column.slice(0, _FIRST_ROWS), padded)
    if not _all_match(first.filter(pc.invert(gaps)), _DECIMAL):  # most text is seen to be text at once
        return column
    kind = _number_type(column.unique(), padded)
    if kind is None:
        return column
    values, gaps = _values(column, padded)
    return pc.if_else(gaps, pa.scalar(None, pa.string()), values).cast(kind)


def _number_type(names: pa.Array, padded: bool) -> pa.DataType | None:
    """The type of number that these distinct names can be without loss; None if they must stay text."""
    import pyarrow.compute as pc

    values, gaps = _values(names, padded)
    present = values.filter(pc.invert(gaps)).drop_null()
    if 0 < len(present) < len(names) and _all_match(present, _WITH_GAPS):
        return pa.float64()
    for pattern, kind in ((_WHOLE, pa.int64()), (_DECIMAL, pa.float64())):
        if len(present) and _all_match(present, pattern):
            numbers = present.cast(kind)
            unchanged = pc.all(pc.equal(numbers.cast(pa.string()), present)).as_py()
            return kind if unchanged and len(numbers.unique()) == len(present) else None
    return None


def _values(column: pa.Array | pa.ChunkedArray, padded: bool) -> tuple[Any, Any]:
    """The values, and which of them are blank."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    return trimmed if padded else column, pc.fill_null(pc.equal(trimmed, ""), False)


def _all_match(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


# Names to integer codes, and back.
#
# Identifiers and labels are encoded once, at the door. Codes follow the *sorted* names, so that the same
# annotations in another row order give the same model.

IntArray = npt.NDArray[np.int32]
Names = npt.NDArray[Any]

MISSING = -1
"""The code of a missing value, and the conventional missing label of annotation matrices."""

DENSE_RANGE = 4
"""A range of integers is dense if it is at most this many times as wide as the number of values."""

EXACT_FLOATS = 2**53
"""Below this, different whole numbers are different floats."""


Encoded = tuple[IntArray, Names]
"""Codes into a sorted array of distinct names, ``MISSING`` where a value is null or NaN; and these names."""


def encode(values: object) -> Encoded:
    """Encode a column of any hashable values.

    Arrow does the work where it knows the type; mixed or exotic objects (tuples, say) take the slower road
    through a dictionary. Whole numbers that arrive as floats, as they do from a pandas column with gaps, become
    integers again.

    >>> encode(["b", "a", None, "b"])
    (array([ 1,  0, -1,  1], dtype=int32), array(['a', 'b'], dtype=object))
    """
    if isinstance(values, np.ma.MaskedArray):
        values = unmasked(values)
    if isinstance(values, np.ndarray) and not values.ndim:
        raise InputError(f"found {values.item()!r} where a list of names belongs; pass one name per row")
    if not isinstance(values, np.ndarray | pa.Array | pa.ChunkedArray):
        values = [None if item is np.ma.masked else item for item in values]  # type: ignore[attr-defined]
    if isinstance(values, pa.Array | pa.ChunkedArray) and pa.types.is_dictionary(values.type):
        return _encode_dictionary(values)
    column = None if _has_truth_values_and_numbers(values) else _to_arrow(values)
    return _encode_objects(values) if column is None else _encode_arrow(column)


def unmasked(values: np.ma.MaskedArray[Any, Any]) -> npt.NDArray[Any]:
    """Objects, None where they are masked."""
    plain = np.ma.getdata(values).astype(object)
    plain[np.ma.getmaskarray(values)] = None
    return plain


def as_names(values: Iterable[Any]) -> Names:
    """A one-dimensional, read-only array of names: integers, floats, booleans, or objects as they are."""
    items = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(item) for item in items}
    if kinds and kinds <= {int, float} and all(_fits_int64(item) for item in items):
        array = np.array([int(item) for item in items], dtype=np.int64)
    elif kinds in ({bool}, {float}):
        array = np.array(items)
    else:
        array = np.empty(len(items), dtype=object)  # filled one by one, so that tuples stay tuples
        for k, item in enumerate(items):
            array[k] = item
    array.setflags(write=False)
    return array


def as_text(names: Names) -> Names:
    """Names as a text file spells them, to compare files of which one has numbers and the other has text."""
    return as_names([spelling(name) for name in names.tolist()])


def spelling(name: Any) -> str:
    """How a text file spells a name.

    >>> spelling(1.0), spelling(1.5), spelling("1.0")
    ('1', '1.5', '1.0')
    """
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def text_column(column: Any) -> Any:
    """An Arrow column as text, in which truth values are True and False, as in messages and names of columns.

    >>> text_column(pa.array([True, None])).to_pylist()
    ['True', None]
    """
    import pyarrow.compute as pc

    return pc.if_else(column, "True", "False") if pa.types.is_boolean(column.type) else column.cast(pa.string())


def decode_position(names: Names, wanted: Names) -> npt.NDArray[np.int64]:
    """Position of each of ``wanted`` among the distinct ``names``; ``MISSING`` where it is not there."""
    if len(names) and names.dtype.kind in "iu" and wanted.dtype.kind in "iu":
        order = np.argsort(names, kind="stable")
        found = np.minimum(np.searchsorted(names, wanted, sorter=order), len(names) - 1)
        position = order[found]
        return np.where(names[position] == wanted, position, MISSING)
    table = {name: k for k, name in enumerate(names.tolist())}
    return np.array([table.get(name, MISSING) for name in wanted.tolist()], dtype=np.int64)


def name_column(names: Names) -> pa.Array:
    """Names as a column; values without an Arrow type become text."""
    if names.dtype.kind == "i":
        return pa.array(names)
    try:
        column = pa.array(names.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([str(name) for name in names.tolist()])
    plain = not pa.types.is_nested(column.type) and not isinstance(column.type, pa.BaseExtensionType)
    return column if plain else pa.array([str(name) for name in names.tolist()])


def _fits_int64(item: float) -> bool:
    return (isinstance(item, int) or item.is_integer()) and -(2**63) <= item < 2**63


def _to_arrow(values: object) -> pa.ChunkedArray | None:
    if isinstance(values, pa.ChunkedArray):
        column = values
    elif isinstance(values, pa.Array):
        column = pa.chunked_array([values])
    else:
        try:
            column = pa.chunked_array([pa.array(values, from_pandas=True)])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            return None
        except UnicodeEncodeError as error:
            _refuse_half(error)
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or isinstance(kind, pa.BaseExtensionType):  # such as UUIDs
        return None
    return column


def _encode_dictionary(column: pa.Array | pa.ChunkedArray) -> Encoded:
    """Columns that are already coded: only the distinct values that occur are encoded."""
    codes, distinct = _dictionary(column)
    present = np.bincount(codes[codes != MISSING], minlength=len(distinct)) > 0
    if not present.all():  # drop categories that do not occur
        codes = np.append(np.cumsum(present, dtype=np.int32) - 1, np.int32(MISSING))[codes]
        distinct = distinct.filter(pa.array(present))
    places, names = encode(distinct)
    return np.append(places, np.int32(MISSING))[codes], names  # code -1 picks the last entry


def _ranked(codes: npt.NDArray[np.integer], order: list[int] | npt.NDArray[np.integer]) -> IntArray:
    """Codes into the names in ``order``, from codes into the names as they were found."""
    rank: IntArray = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[-1] = MISSING  # code -1 picks the last entry
    ranked: IntArray = rank[codes]
    return ranked


def _encode_arrow(column: pa.ChunkedArray) -> Encoded:
    """Text and integers stay with Arrow until they are sorted: there may be millions.

    Arrow's order of UTF-8 bytes is Python's order of characters.
    """
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        if pc.any(pc.is_inf(column)).as_py():
            _refuse_infinite()
        _refuse_rounded(column)
    if pa.types.is_integer(column.type) and column.type != pa.uint64() and not column.null_count and len(column):
        numbers = column.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < DENSE_RANGE * len(numbers):
            return _encode_dense(numbers, low, high - low + 1)
    codes, found = _dictionary(column)
    is_integer = pa.types.is_integer(found.type) and found.type != pa.uint64()
    if not (is_integer or pa.types.is_string(found.type) or pa.types.is_large_string(found.type)):
        return _sorted(codes, _as_list(found))
    order = pc.array_sort_indices(found)
    names: Names = found.take(order).to_numpy(zero_copy_only=False)
    names = names.astype(np.int64) if is_integer else names
    names.setflags(write=False)
    return _ranked(codes, order.to_numpy()), names


def _encode_dense(numbers: npt.NDArray[np.integer], low: int, span: int) -> Encoded:
    """Integers from a dense range: counting takes an eighth of the time of hashing."""
    places = numbers.astype(np.int64) - low
    present = np.zeros(span, dtype=np.bool_)
    present[places] = True
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    names = np.flatnonzero(present) + low
    names.setflags(write=False)
    return rank[places], names


def _dictionary(column: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.integer], pa.Array]:
    """32-bit codes into the distinct values in the order in which they occur, and these values."""
    combined = column if pa.types.is_dictionary(column.type) else column.combine_chunks().dictionary_encode()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.unify_dictionaries().combine_chunks()
    indices = combined.indices.cast(pa.int32()).fill_null(MISSING)  # other libraries have unsigned ones
    return indices.to_numpy(zero_copy_only=False), combined.dictionary


def _refuse_rounded(column: pa.ChunkedArray) -> None:
    """Reject long numbers that became floats: they have lost digits, and two ids may have become one."""
    values = column.drop_null().to_numpy().astype(np.float64)
    rounded = values[np.isfinite(values) & (np.abs(values) >= EXACT_FLOATS)]
    if len(rounded):
        raise InputError(
            f"numbers such as {rounded[0]:.0f} have too many digits to be distinct as floats; "
            "pass them as text, or as integers without missing values"
        )


def _encode_objects(values: Any) -> Encoded:
    table: dict[Any, int] = {}
    codes: list[int] = []
    for item in values if isinstance(values, list) else _as_list(values):
        if isinstance(item, float):
            if math.isinf(item):
                _refuse_infinite()
            item = int(item) if item.is_integer() and abs(item) < EXACT_FLOATS else item  # 1 and 1.0 are one number
        try:
            codes.append(MISSING if _is_missing(item) else table.setdefault(item, len(table)))
        except TypeError:
            raise InputError(
                f"{item!r} cannot be a name, it is a {type(item).__name__}; pass one text, number or tuple per row"
            ) from None
    for name in table:
        if isinstance(name, str):
            try:
                name.encode()
            except UnicodeEncodeError as error:
                _refuse_half(error)
    return _sorted(np.array(codes, dtype=np.int64), list(table))


def _has_truth_values_and_numbers(values: Any) -> bool:
    """Whether objects are so mixed; True beside 1 is an error, because Python takes the two for one."""
    if not isinstance(values, list) and not (isinstance(values, np.ndarray) and values.dtype == object):
        return False
    kinds = {type(item) for item in values}
    if not kinds & {bool, np.bool_} or not any(issubclass(kind, int | float | np.number) for kind in kinds - {bool}):
        return False
    truth = {bool(item) for item in values if isinstance(item, bool | np.bool_)}
    numbers = (item for item in values if isinstance(item, int | float | np.number) and not isinstance(item, bool))
    both = next((item for item in numbers if item in truth), None)
    if both is not None:
        raise InputError(
            f"{bool(both)} and {int(both)} are both among the names, and count as one; write truth values as text, or "
            "all of them as numbers"
        )
    return True


def _refuse_infinite() -> NoReturn:
    """JSON has no infinity, and no file of names can contain it as a number."""
    raise InputError("infinity cannot be a name; write it as text, or remove these rows")


def _refuse_half(error: UnicodeEncodeError) -> NoReturn:
    """Half of a surrogate pair is no character: no file can contain it."""
    half = error.object[error.start]
    raise InputError(f"a name contains an incomplete character ({half!r}); export it again") from error


def _as_list(values: npt.NDArray[Any] | pa.Array | pa.ChunkedArray) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    try:
        return list(values.to_pylist())
    except (ArithmeticError, ValueError) as error:  # a date after the year 9999, say
        raise InputError(f"a value of type {values.type} is out of range ({error}); write it as text") from error


def _is_missing(item: Any) -> bool:
    # The last are pandas' own missing values, which compare as neither equal nor unequal.
    return item is None or (isinstance(item, float) and item != item) or type(item).__name__ in ("NAType", "NaTType")


def _sorted(codes: npt.NDArray[np.integer], names: list[Any]) -> Encoded:
    """Names in order, and the codes into them; names that cannot be compared still get one fixed order."""
    try:
        order = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        order = sorted(range(len(names)), key=lambda k: (type(names[k]).__name__, repr(names[k])))
    return _ranked(codes, order), as_names([names[k] for k in order])
