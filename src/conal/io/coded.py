"""Columns of names, read batch by batch into 32-bit codes: a hundred million rows fit into memory.

Each batch becomes an Arrow dictionary, that is its distinct names and a code per row, before the next one is read.
Whatever is done to names afterwards (numbers or text, what means "missing") is done once per distinct name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from conal.data.encoding import numbers_or_text
from conal.errors import InputError
from conal.io.arrow_files import arrow_batches, arrow_schema, open_parquet, parquet_batches
from conal.io.delimited import is_padded, open_delimited, read_json_lines, with_long_rows
from conal.io.excel_files import read_excel

CODED = pa.dictionary(pa.int32(), pa.string())
BATCH_ROWS = 2**20
BLOCK_BYTES = 2**20

Choose = Callable[[Sequence[str]], Sequence[str]]


def read_coded(path: Path, kind: str, choose: Choose) -> pa.Table:
    """The columns that ``choose`` picks from the header, as dictionaries; other columns are not kept.

    Parameters
    ----------
    kind : {"csv", "tsv", "parquet", "arrow", "xlsx", "jsonl"}
        In CSV and TSV names are text unless all of them are numbers.
    """
    if kind == "parquet":
        return _read_parquet(path, choose)
    if kind == "arrow":
        columns = list(choose(arrow_schema(path).names))
        coded = [_coded(batch) for batch in arrow_batches(path, columns)]
        return pa.Table.from_batches(coded) if coded else pa.table({name: pa.array([]) for name in columns})
    if kind == "jsonl":
        return _read_jsonl(path, choose)
    if kind == "xlsx":
        return _read_excel(path, choose)
    return _read_delimited(path, "\t" if kind == "tsv" else ",", choose)


def map_names(column: pa.ChunkedArray, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.ChunkedArray:
    """A column with every distinct name changed; for a plain column, every value."""
    if not pa.types.is_dictionary(column.type):
        return change(column)
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no rows, or too much text for one array
        return change(column.cast(column.type.value_type))
    names = change(pa.chunked_array([whole.dictionary])).combine_chunks()
    if isinstance(names, pa.ChunkedArray):
        names = names.chunk(0) if names.num_chunks else pa.array([], type=names.type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(whole.indices, names)])


def _read_delimited(path: Path, delimiter: str, choose: Choose) -> pa.Table:
    import pyarrow.csv as pv

    def read(block_size: int | None) -> pa.Table:
        header, blocks, parse = open_delimited(path, delimiter, block_size or BLOCK_BYTES)
        columns = list(choose(header))
        convert = pv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, CODED))
        return pv.read_csv(path, blocks, parse, convert)

    table = with_long_rows(read)
    typed = {name: partial(numbers_or_text, padded=is_padded(name)) for name in table.column_names}
    return pa.table({name: map_names(table[name], change) for name, change in typed.items()})


def _read_parquet(path: Path, choose: Choose) -> pa.Table:
    with open_parquet(path) as file:
        columns = list(choose(file.schema_arrow.names))
    batches = [_coded(batch) for batch in parquet_batches(path, columns, BATCH_ROWS, coded=True)]
    return pa.Table.from_batches(batches) if batches else pa.table({name: pa.array([]) for name in columns})


def _read_jsonl(path: Path, choose: Choose) -> pa.Table:
    table = read_json_lines(path)
    if not table.num_rows:
        return table
    columns = list(choose(table.column_names))
    return pa.Table.from_batches([_coded(batch) for batch in table.select(columns).to_batches()])


def _read_excel(path: Path, choose: Choose) -> pa.Table:
    def fits(header: Sequence[str]) -> bool:
        try:
            choose(header)
        except InputError:
            return False
        return True

    table = read_excel(path, fits)
    if not table.num_rows:
        return table
    columns = list(choose(table.column_names))
    return pa.Table.from_batches([_coded(batch) for batch in table.select(columns).to_batches()])


def _coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Distinct values and 32-bit codes; values that Arrow cannot compare, such as lists, are unchanged."""
    kept = [_code(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(kept, names=batch.schema.names)


def _code(column: pa.Array) -> pa.Array:
    is_plain = not (pa.types.is_nested(column.type) or pa.types.is_null(column.type))
    return column.dictionary_encode() if is_plain and not pa.types.is_dictionary(column.type) else column
