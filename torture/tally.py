"""Counts and failures of a campaign, as plain data that merge."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["Tally"]


class Tally:
    """Counts by part and outcome, notes, what was skipped, and one minimal case for every kind of failure."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.notes: dict[str, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self.failures: dict[str, dict[str, Any]] = {}
        self.seen: Counter[str] = Counter()

    def count(self, part: str, outcome: str, number: int = 1) -> None:
        self.counts.setdefault(part, Counter())[outcome] += number

    def note(self, title: str, name: str, value: Any) -> None:
        self.notes.setdefault(title, {})[name] = value

    def most(self, title: str, name: str, value: float) -> None:
        """Keep the largest of the values."""
        self.note(title, name, max(value, self.notes.get(title, {}).get(name, value)))

    def skip(self, part: str, reason: str) -> None:
        self.skipped[part] = reason

    def fail(self, signature: str, case: dict[str, Any]) -> bool:
        """Keep the case if this kind of failure is new, or if the case is smaller; whether it was new."""
        self.seen[signature] += 1
        known = self.failures.get(signature)
        if known is None or _size(case) < _size(known):
            self.failures[signature] = case
        return known is None

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": {part: dict(outcomes) for part, outcomes in self.counts.items()},
            "notes": self.notes,
            "skipped": self.skipped,
            "failures": [
                {"signature": signature, "times": self.seen[signature], "case": case}
                for signature, case in self.failures.items()
            ],
        }

    def merge(self, other: dict[str, Any]) -> None:
        """Add what another process found."""
        for part, outcomes in other["counts"].items():
            for outcome, number in outcomes.items():
                self.count(part, outcome, number)
        for title, values in other["notes"].items():
            for name, value in values.items():
                self.most(title, name, value)
        self.skipped |= other["skipped"]
        for failure in other["failures"]:
            self.fail(failure["signature"], failure["case"])
            self.seen[failure["signature"]] += failure["times"] - 1

    def write_cases(self, folder: Path) -> list[Path]:
        """One JSON file per kind of failure, named by a digest of its signature."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for signature, case in self.failures.items():
            digest = hashlib.sha256(signature.encode()).hexdigest()[:12]
            path = folder / f"{case['part']}-{digest}.json"
            path.write_text(json.dumps({"signature": signature, **case}, indent=1) + "\n", encoding="utf-8")
            paths.append(path)
        return paths


def _size(case: dict[str, Any]) -> int:
    return len(json.dumps(case))
