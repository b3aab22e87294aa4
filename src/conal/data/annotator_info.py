"""What is known about annotators beside their labels: groups, costs and features, from a table with a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conal._arrays import FloatArray
from conal.data.annotations import Annotations
from conal.data.encoding import MISSING, Names, as_names, as_text, decode_position, encode, spelling
from conal.data.frames import column_names, find_annotators, find_column, frame_column, open_frame
from conal.data.matching import differ_in_type, refuse_lookalikes, warn_of_lookalikes
from conal.errors import DataWarning, InputError, examples, people, warn

MIN_ALIKE_ANNOTATORS = 3
"""Annotators who must have something in common, or it may tell who they are."""
OTHER_GROUPS = "others"
"""What smaller groups become together."""


@dataclass(frozen=True, eq=False)
class AnnotatorInfo:
    """What is known about the annotators of a crowd, in the crowd's order.

    Parameters
    ----------
    annotators : (R,) array
        Their names.
    groups : tuple of str, optional
        The group of every annotator: human or model, a family of models, a vendor.
    costs : (R,) array, optional
        The cost of a label, at least 0.
    features : (R, F) array, optional
        Further numbers.
    feature_names : tuple of str
        What they are called.
    limits : (R,) array, optional
        How many more labels each can give, infinite where there is no limit; for plans.

    Examples
    --------
    >>> crowd = Annotations.from_triples(["t1", "t1"], ["ann", "gpt"], ["a", "b"])
    >>> table = pa.table({"worker": ["gpt", "ann"], "group": ["llm", "human"], "cost": [0.01, 0.3], "years": [1, 5]})
    >>> info = AnnotatorInfo.of(table, crowd)
    >>> info.groups, info.costs.tolist(), info.features.tolist()
    (('human', 'llm'), [0.3, 0.01], [[5.0], [1.0]])
    """

    annotators: Names
    groups: tuple[str, ...] | None = None
    costs: FloatArray | None = None
    features: FloatArray | None = None
    feature_names: tuple[str, ...] = ()
    limits: FloatArray | None = None

    @classmethod
    def of(
        cls, info: Any, crowd: Annotations, *, worker: str | None = None, where: str = "annotator_info"
    ) -> AnnotatorInfo:
        """What a table says about the annotators of a crowd.

        Parameters
        ----------
        info : pandas or polars frame, Arrow table, or AnnotatorInfo
            A row for every annotator. The column of names is called worker, annotator, user or similar. Others that
            count are ``group``, ``cost``, ``limit``, and numbers under any name, which are features.
        crowd : Annotations
            An annotator who is not in the table is an error. Annotators who are not in the crowd are left out, with a
            warning.
        worker : str, optional
            The column of names, where it has another name.
        where : str
            What messages call the table.
        """
        if isinstance(info, AnnotatorInfo):
            return info.selected(in_order_of(crowd, info.annotators.tolist(), where), crowd.annotator_ids)
        columns = column_names(info)
        if columns is None:
            raise InputError(f"{where}: expected a table with a row for every annotator, not {type(info).__name__}")
        ids = worker if worker in columns else find_annotators(columns, where)
        if ids is None:
            raise InputError(f"{where}: no column of annotators; it has {examples(columns, 8)}. Rename one to 'worker'")
        frame = open_frame(info, where)
        at = in_order_of(crowd, frame[ids].to_list(), where)

        def column(name: str) -> list[Any]:
            values = frame[name].to_list()
            return [values[k] for k in at]

        def floats(name: str, gap: float = np.nan) -> FloatArray:
            return _floats(column(name), name, gap, crowd, where)

        rest = [name for name in columns if name != ids]
        group, cost, limit = (find_column(rest, role, None, where) for role in ("group", "cost", "limit"))
        others = [name for name in rest if name not in (group, cost, limit)]
        numbers = [name for name in others if _is_number(frame[name])]
        unused = [name for name in others if name not in numbers]
        if unused:
            warn(
                f"{where}: did not use {examples(unused)}; columns that count are 'group', 'cost', 'limit', "
                "and numbers",
                DataWarning,
            )
        if group is None and cost is None and limit is None and not numbers:
            raise InputError(f"{where}: says nothing about the annotators; add a column 'group', 'cost' or of numbers")
        return cls(
            crowd.annotator_ids,
            None if group is None else _groups(column(group), crowd, where),
            None if cost is None else _at_least_0(floats(cost), "the cost of a label", crowd, where),
            np.stack([floats(name) for name in numbers], axis=1) if numbers else None,
            tuple(numbers),
            None if limit is None else _at_least_0(floats(limit, np.inf), "the limit of labels", crowd, where),
        )

    def coded_groups(self) -> tuple[tuple[str, ...], npt.NDArray[np.int64]] | None:
        """Names of the groups, sorted, and (R,) the position of every annotator's; None where there are no groups."""
        if self.groups is None:
            return None
        codes, names = encode(list(self.groups))
        return tuple(map(str, names.tolist())), codes.astype(np.int64)

    def standardised_features(self) -> FloatArray | None:
        """(R, F) features of mean 0 and standard deviation 1, so that none counts by its unit; 0 where all are alike.

        >>> AnnotatorInfo(as_names("ab"), features=np.array([[1.0, 7.0], [3.0, 7.0]])).standardised_features().tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
        """
        if self.features is None:
            return None
        centred = self.features - self.features.mean(0)
        spread = self.features.std(0)
        return np.asarray(centred / np.where(spread > 0, spread, 1.0))

    def selected(self, rows: npt.NDArray[np.int64], names: Names) -> AnnotatorInfo:
        """What is known about the annotators at these positions, under these names."""
        return AnnotatorInfo(
            names,
            None if self.groups is None else tuple(self.groups[k] for k in rows.tolist()),
            None if self.costs is None else self.costs[rows],
            None if self.features is None else self.features[rows],
            self.feature_names,
            None if self.limits is None else self.limits[rows],
        )

    def shareable(self) -> AnnotatorInfo | None:
        """What may be shown where names are hidden: nothing that fewer than three annotators have in common.

        Smaller groups become one, costs are left out unless each is that of three annotators, and so are features. None
        if nothing is left.

        >>> groups, costs = ("llm",) * 3 + ("expert",), np.array([1.0, 1, 1, 9])
        >>> found = AnnotatorInfo(as_names("abcd"), groups, costs).shareable()
        >>> found.groups, found.costs
        (('llm', 'llm', 'llm', 'others'), None)
        """
        groups = self.groups
        if groups is not None:
            sizes = Counter(groups)
            groups = tuple(name if sizes[name] >= MIN_ALIKE_ANNOTATORS else OTHER_GROUPS for name in groups)
        shared = self.costs is not None and min(Counter(self.costs.tolist()).values()) >= MIN_ALIKE_ANNOTATORS
        if groups is None and not shared:
            return None
        return AnnotatorInfo(self.annotators, groups, self.costs if shared else None)


def in_order_of(crowd: Annotations, annotators: Sequence[Any], where: str) -> npt.NDArray[np.int64]:
    """(R,) positions of a crowd's annotators among these; a missing one is an error, one too many a warning."""
    unnamed = [k for k, name in enumerate(annotators, 1) if name is None or name != name]  # NaN
    if unnamed:
        raise InputError(f"{where}: row {unnamed[0]} does not name an annotator; fill it in, or remove it")
    given, wanted = as_names(annotators), crowd.annotator_ids
    if differ_in_type([given, wanted]):  # one file has numbers where the other, with more names, has text
        given, wanted = as_text(given), as_text(wanted)
    repeated = [name for name, count in Counter(given.tolist()).items() if count > 1]
    if repeated:
        raise InputError(f"{where}: has several rows for {people(repeated)}; keep one row for each annotator")
    warn_of_lookalikes(given, "annotators", where)
    at = decode_position(given, wanted)
    spare = given[decode_position(wanted, given) == MISSING]
    refuse_lookalikes(spare, wanted[at == MISSING], "annotators", where, "here and in the labels")
    missing = crowd.annotator_ids[at == MISSING].tolist()
    if missing:
        raise InputError(
            f"{where}: {len(missing):,} of the {crowd.n_annotators:,} annotators are missing: {people(missing)}; add a "
            "row for each"
        )
    if len(spare):
        warn(f"{where}: ignored {len(spare):,} of {len(given):,}, who gave no label here: {people(spare)}", DataWarning)
    return at


def _groups(values: list[Any], crowd: Annotations, where: str) -> tuple[str, ...]:
    names = ["" if value is None or value != value else spelling(value).strip() for value in values]
    _refuse_gaps(np.array([not name for name in names]), "group", crowd, where)
    return tuple(names)


def _at_least_0(values: FloatArray, what: str, crowd: Annotations, where: str) -> FloatArray:
    wrong = crowd.annotator_ids[values < 0].tolist()
    if wrong:
        raise InputError(f"{where}: {what} cannot be negative, as that of {people(wrong)} is")
    return values


def _floats(values: list[Any], name: str, gap: float, crowd: Annotations, where: str) -> FloatArray:
    """(R,) the numbers of a column; a gap, which is an error unless it stands for infinity, has this value."""
    is_gap = [value is None or value != value or (value == "" and gap == np.inf) for value in values]
    try:
        found = np.array([gap if empty else value for value, empty in zip(values, is_gap, strict=True)], np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where}: column {name!r} must contain numbers, not {examples(values)}") from None
    if gap != np.inf:
        _refuse_gaps(~np.isfinite(found), name, crowd, where)
    return found


def _refuse_gaps(gaps: npt.NDArray[np.bool_], name: str, crowd: Annotations, where: str) -> None:
    if gaps.any():
        raise InputError(
            f"{where}: column {name!r} has no value for {people(crowd.annotator_ids[gaps].tolist())}; fill it in, or "
            "remove the column"
        )


def _is_number(series: Any) -> bool:
    column = frame_column(series)
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return False
    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
