"""What a section of the report is, the registry of all sections, and numbers and names as readers see them."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa
from markupsafe import Markup

from conal._registry import Registry
from conal.data.encoding import Names
from conal.io.results import ColumnKind

if TYPE_CHECKING:
    from conal.report.evidence import Evidence
    from conal.report.findings import Findings


# Numbers and names as readers see them, in the sentences of findings and on the page.

MAX_NAME = 60
NONE = "\u2013"
"""Shown if there is no number: a dash."""
LARGEST = 1e9
"""Larger shares, infinite ones and NaN are shown as none: a damaged report may contain them."""
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0e-\x1f\x7f]")
"""Characters that change the direction of text: a name with one could change how the text around it reads."""


def short(name: object, limit: int = MAX_NAME) -> str:
    """A name that fits on a line and cannot affect the text around it; a long one keeps its beginning and end.

    Words stay whole, unless they are long.

    >>> short("x" * 30 + "middle" + "y" * 30, limit=11)
    'xxxxx…yyyyy'
    >>> short("neither agree nor disagree with it", limit=30)
    'neither agree…with it'
    """
    text = " ".join(_DIRECTIONS.sub("", str(name)).split()) or "(empty)"
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{_beginning(text, half)}…{_beginning(text[::-1], half)[::-1]}"


def _beginning(text: str, limit: int) -> str:
    """As many whole words as fit, if these are half of it or more."""
    words = text[: limit + 1].rpartition(" ")[0].rstrip()
    return words if 2 * len(words) >= limit else text[:limit]


def listed(items: Sequence[Any], limit: int) -> str:
    """Items in a row, as many whole ones as fit, and the number of the others.

    >>> listed(["one", "two", "three"], 8), listed(["one", "two"], 8)
    ('one, two and 1 more', 'one, two')
    """
    shown = [short(item, limit) for item in items]
    ends = accumulate(len(text) + 2 for text in shown)
    fit = max(1, sum(end - 2 <= limit for end in ends))
    rest = f" and {count(len(shown) - fit)} more" if len(shown) > fit else ""
    return ", ".join(shown[:fit]) + rest


def short_names(names: list[Any], limit: int = MAX_NAME) -> list[str]:
    """Names cut to a line each, numbered if they would look the same.

    >>> short_names(["a" * 90 + "1" + "b" * 90, "a" * 90 + "2" + "b" * 90, 1, "1"], limit=5)
    ['aa…bb', 'aa…bb (2)', '1', '1 (2)']
    """
    seen: dict[str, int] = {}
    shown = []
    for name in names:
        text = short(name, limit)
        seen[text] = seen.get(text, 0) + 1
        shown.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return shown


def called(row: Mapping[str, Any]) -> Any:
    """What readers call an annotator: the name if it is known, and otherwise the id.

    >>> called({"worker": 7, "name": "Ann"}), called({"worker": 7})
    ('Ann', 7)
    """
    return row.get("name") or row["worker"]


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent, or a dash for none. Less than all is never shown as 100, nor more than nothing as 0.

    >>> percent(0.256), percent(0.9999), percent(1.0), percent(0.0001), percent(None)
    ('26\\xa0%', '>99\\xa0%', '100\\xa0%', '<1\\xa0%', '–')
    """
    if not isinstance(share, int | float) or not abs(share) <= LARGEST:
        return NONE  # also for what a damaged report, or a finding of somebody else, calls a share
    text = f"{100 * share:.{digits}f}"
    least = 10.0**-digits
    if share < 1 and float(text) >= 100:
        text = f">{100 - least:.{digits}f}"
    elif share > 0 and float(text) == 0:
        text = f"<{least:.{digits}f}"
    return f"{text}\u00a0%"


def interval(low: float | None, high: float | None, digits: int = 0) -> str:
    """Both ends in percent, rounded outwards, so that the shown interval contains the exact one.

    >>> interval(0.251, 0.371), interval(0.251, 0.3712, 1)
    ('25 to 38\\xa0%', '25.1 to 37.2\\xa0%')
    """
    if low is None or high is None or not all(abs(end) <= LARGEST for end in (low, high)):
        return NONE
    scale = 10**digits
    ends = math.floor(round(100 * scale * low, 6)) / scale, math.ceil(round(100 * scale * high, 6)) / scale
    return f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}\u00a0%"


def points(low: float, high: float) -> str:
    """Both ends of a difference in points, rounded outwards.

    >>> points(-0.071, 0.15)
    '\u22128 to +15'
    """
    ends = math.floor(round(100 * low, 6)), math.ceil(round(100 * high, 6))
    return " to ".join(f"{end:+d}".replace("-", "\u2212") for end in ends)


def count(number: int | None, one: str = "", many: str = "") -> str:
    """A number with separators, and the word that goes with it.

    >>> count(1, "task", "tasks"), count(12000, "task", "tasks"), count(3)
    ('1 task', '12,000 tasks', '3')
    """
    if number is None:
        return NONE
    word = one if number == 1 else many
    return f"{number:,} {word}" if word else f"{number:,}"


# A finding as the page shows it if it has no template of its own: a title, a sentence and a table.

FIGURES = ("figure", "value")
"""Headings of a list of single values."""


class Panel(NamedTuple):
    """Plain content of a part of the page. Everything in it is escaped, except a ``text`` that is ``Markup``."""

    title: str
    text: str
    headings: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    file: str | None
    """File of the model folder that contains all rows; ``None`` if only ``report.json`` does."""

    def is_share(self, row: tuple[Any, ...], column: int) -> bool:
        """Whether a cell has a share: by its heading, or in a list of figures by the name of its row."""
        name = row[0] if self.headings == FIGURES and column == 1 else self.headings[column]
        return str(name).endswith(" share")


def panel_of(name: str, section: Any, *, title: str = "", text: str = "", file: str | None = None) -> Panel:
    """A panel made from a section of ``report.json`` as it is.

    A section with ``rows`` (a list of objects) becomes a table of them; of any other object, the single values become
    a table of two columns. The key ``text``, if there is one, is the sentence above. A key that ends in ``_share`` is a
    share, which the page shows in percent.

    >>> panel_of("drift", {"text": "Slow.", "rows": [{"task_id": 3, "change": 0.5}, {"task_id": 4}]})[:4]
    ('Drift', 'Slow.', ('task id', 'change'), [(3, 0.5), (4, None)])
    >>> panel_of("drift", {"slope": 0.1, "parts": [1, 2]})[2:4]
    (('figure', 'value'), [('slope', 0.1)])
    """
    content = section if isinstance(section, dict) else {"value": section}
    rows = content.get("rows")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        keys = list(dict.fromkeys(key for row in rows for key in row))
        headings, cells = tuple(map(_words, keys)), [tuple(row.get(key) for key in keys) for row in rows]
    else:
        headings = FIGURES
        cells = [(_words(key), value) for key, value in content.items() if _is_single(value) and key != "text"]
    sentence = text or content.get("text", "")
    return Panel(title or _words(name).capitalize(), sentence, headings, cells, file)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


# What a finding is, and the registry of all findings: one file each, here or in another distribution.

Plain = dict[str, Any]
"""An object of ``report.json``; the finding that makes it says which keys it has."""
Report = dict[str, Any]
"""The content of ``report.json``: format, version, confidence, classes, and the sections by their names."""
F = TypeVar("F", bound="type[Finding]")

RESERVED = ("format", "format_version", "confidence", "classes", "pictures")
"""Keys of ``report.json`` that frame the sections."""


class Finding(ABC):
    """One kind of result about a crowd: a section of ``report.json``, and optionally a table, sentences and a panel.

    Subclass it in a file of its own and decorate the class with :func:`register`. The report, the tables of a model
    folder and the page then include it. A section is plain data, ready for JSON.
    ``CONTRIBUTING.md`` has an example.
    """

    name: ClassVar[str]
    """Key of the section in ``report.json``; set by :func:`register`."""
    rank: ClassVar[float] = 100
    """Sections and headlines are in the order of their ranks. The built-in ones are contradiction 5, next_steps 6,
    crowd 10, common_confusion 20, groups 26, jury 27, annotators 30, tasks 40, suggestions 50, plan 51, and model or
    aggregation 1000."""
    title: ClassVar[str] = ""
    """Heading of the panel on the page."""
    table: ClassVar[str | None] = None
    """File of the model folder that :meth:`columns` makes, or adds to if a finding of lower rank makes it."""
    holds: ClassVar[Mapping[str, ColumnKind]] = {}
    """Columns of the table that contain names ("task", "annotator", "class") or counts ("count"); a loaded model reads
    all other numbers as floats."""

    def applies(self, evidence: Evidence) -> bool:
        """Whether there is anything to say."""
        return True

    @abstractmethod
    def section(self, findings: Findings) -> Plain:
        """The section of ``report.json``, from the evidence, the intervals and other findings."""

    def columns(self, findings: Findings) -> pa.Table:
        """Columns for the table, for findings that name one."""
        raise NotImplementedError(f"finding {self.name!r} names a table and must make its columns")

    def column_kinds(self, classes: Names) -> Mapping[str, ColumnKind]:
        """As :attr:`holds`, for tables whose columns depend on the names of the classes."""
        return self.holds

    def headlines(self, section: Plain, report: Report) -> Iterator[Markup]:
        """Sentences for the top of the page. Put names into them by ``Markup(...).format``, which escapes them."""
        yield from ()

    def panel(self, section: Plain) -> Panel:
        """What the page shows, for findings without a template of their own."""
        return panel_of(self.name, section, title=self.title, file=self.table)


findings_registry: Registry[Finding] = Registry("finding", "conal.report.sections", makes_instances=True)


def register(name: str) -> Callable[[F], F]:
    """Decorate a :class:`Finding` to add its section to ``report.json`` under ``name``."""
    if name in RESERVED:
        raise ValueError(f"{name!r} is a key of report.json itself; choose another name for the finding")
    return findings_registry.register(name)


def all_findings() -> list[Finding]:
    """Every registered finding, in the order of the report."""
    found = [findings_registry.get(name) for name in findings_registry.names()]
    return sorted(found, key=lambda finding: (finding.rank, finding.name))
