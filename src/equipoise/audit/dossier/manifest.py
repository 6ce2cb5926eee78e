"""The manifest of an audit: what others need to check it, and what it cannot say."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.audit.findings import Findings
from equipoise.audit.formatting import LIMITS
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.data.split import Split
from equipoise.exceptions import InvalidDataError
from equipoise.files import write_whole

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "polars")

# What may differ between a report and its recomputation: where it was made, and from which path.
_UNCHECKED = {"equipoise", "versions", "command", "source", "python", "check"}


def manifest(data: Interactions | Split, found: Findings) -> dict[str, Any]:
    """Return the manifest of findings; the command adds itself and the files that it read."""
    parts: dict[str, Interactions]
    if isinstance(data, Split):
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
    else:
        parts = {"data": data}
    libraries = {name: version(name) for name in _LIBRARIES}
    return {
        "data": {name: _facts(part) for name, part in parts.items()},
        "files": {},
        "versions": {"equipoise": found.version, "python": platform.python_version(), **libraries},
        "command": "",
        "seed": found.settings.seed,
        "listed": {"items": len(found.items.ids), "users": len(found.users)},
        "conventions": {row.name: row.convention for row in found.results},
        "limits": list(LIMITS),
    }


def _facts(data: Interactions) -> dict[str, Any]:
    dates = None
    if data.has_timestamps and data.nnz:
        ends = [each for each in data.map(_first_and_last) if each is not None]
        dates = [str(min(each[0] for each in ends)), str(max(each[1] for each in ends))]
    return {
        "fingerprint": data.fingerprint(),
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.nnz,
        "first and last time": dates,
    }


def _first_and_last(block: RowBlock) -> tuple[Any, Any] | None:
    times = block.timestamps
    return None if times is None or not len(times) else (np.min(times), np.max(times))


def hashes(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of every file."""
    return {path.name: _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(content: Mapping[str, Any]) -> list[str]:
    """Return the manifest as sentences, for the page and for Markdown."""
    found = []
    for name, facts in content.get("data", {}).items():
        known = "; ".join(f"{what}: {_text(value)}" for what, value in facts.items() if value)
        found.append(f"Manifest, {name}: {known}.")
    named = [what for what in ("files", "versions") if content.get(what)]
    found += [f"Manifest, {what}: {_text(content[what])}." for what in named]
    if content.get("command"):
        found.append(f"Manifest, command: {content['command']}")
    found += [
        f"Threshold “{each['condition']}” on the {each['bound']}: {each['value']:.4g}, "
        f"{'failed' if each['failed'] else 'passed'}."
        for each in content.get("thresholds", ())
    ]
    return [*found, *(f"What the audit cannot show: {each}" for each in content.get("limits", ()))]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return " to ".join(value) if isinstance(value, list) else str(value)


# ------------------------------------------------------------------------------------ sign-off


def sign_off(report: Path, auditor: str | None, organization: str | None) -> Path:
    """Write who signs a report, when, and its hash, to a file next to it."""
    content = {
        "report": report.name,
        "sha256": _sha256(report),
        "auditor": auditor,
        "organization": organization,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = signature_of(report)
    write_whole(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def signature_of(report: Path) -> Path:
    """Return the path of the sign-off of a report."""
    return report.with_name(f"{report.name}.signed.json")


def check_signature(report: Path) -> str | None:
    """Return who signed a report; None without a sign-off; refuse one of another content."""
    path = signature_of(report)
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("sha256") != _sha256(report):
        raise InvalidDataError(
            f"{path.name} signs another content of {report.name}: the report was changed after it "
            "was signed."
        )
    who = ", ".join(filter(None, (content.get("auditor"), content.get("organization"))))
    return f"Signed by {who or 'nobody'} on {content.get('date')}."


# -------------------------------------------------------------------------------------- verify


class Difference(NamedTuple):
    """A value of a report that its recomputation does not give, and where it is."""

    path: str
    reported: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.reported!r} in the report, {self.recomputed!r} recomputed"


def differences(report: Any, again: Any, *, tolerance: float = 0.0) -> Iterator[Difference]:
    """Yield every value that differs, in the order of the report.

    Parameters
    ----------
    report, again : JSON
        The report, and its recomputation.
    tolerance : float
        Relative difference of numbers that is accepted.

    Examples
    --------
    >>> list(map(str, differences({"a": [1, 2]}, {"a": [1, 3]})))
    ['a/1: 2 in the report, 3 recomputed']
    """
    values, recomputed = dict(_values(report)), dict(_values(again))
    for path in dict.fromkeys((*values, *recomputed)):
        one, other = values.get(path), recomputed.get(path)
        if not _equal(one, other, tolerance):
            yield Difference(path, one, other)


def _values(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with the names and places that lead to it."""
    if isinstance(content, dict):
        inner = [(name, each) for name, each in content.items() if name not in _UNCHECKED]
    elif isinstance(content, list):
        inner = [(str(place), each) for place, each in enumerate(content)]
    else:
        inner = []
        yield path, content
    for name, each in inner:
        yield from _values(each, f"{path}/{name}".strip("/"))


def _equal(one: Any, other: Any, tolerance: float) -> bool:
    if tolerance and isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= tolerance * max(abs(one), abs(other))
    return bool(one == other)


def count_values(report: Any) -> int:
    """Return how many values `differences` compares."""
    return len(dict(_values(report)))
