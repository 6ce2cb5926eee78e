"""Limits that an audit must keep: conditions on its numbers, checked on a bound of the interval."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from equipoise.evaluation.goal import COMPARISONS, parse_condition
from equipoise.exceptions import InvalidParameterError, explained
from equipoise.metrics.intervals import Interval

Bound = Literal["estimate", "low", "high"]


class Threshold(NamedTuple):
    """The audit fails if this bound of this number meets the condition."""

    name: str
    sign: str
    limit: float
    bound: Bound = "estimate"

    @classmethod
    def parse(cls, text: str, bound: str = "estimate") -> Threshold:
        """Read a condition.

        Examples
        --------
        >>> Threshold.parse("exposure/indie < 0.1")
        Threshold(name='exposure/indie', sign='<', limit=0.1, bound='estimate')
        >>> Threshold.parse("item_auc > 0.9 on low").bound
        'low'
        """
        condition, _, own = text.partition(" on ")
        bound = own.strip() or bound
        if bound not in get_args(Bound):
            raise InvalidParameterError(f"the bound must be estimate, low or high, got {bound!r}.")
        return cls(*parse_condition(condition), bound)  # type: ignore[arg-type]  # checked above

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:g}"

    def check(self, numbers: Mapping[str, Interval]) -> dict[str, Any]:
        """Return what was checked and whether it failed."""
        number = numbers.get(self.name)
        if number is None:
            similar = difflib.get_close_matches(self.name, numbers, n=5) or list(numbers)[:5]
            raise InvalidParameterError(
                f"the audit has no number {self.name!r}. Similar: {', '.join(similar)}."
            )
        value = number.mean if self.bound == "estimate" else getattr(number, self.bound)
        if value != value:
            raise InvalidParameterError(
                f"{self.name} has no interval, so its {self.bound} bound cannot be checked. Use "
                "the estimate."
            )
        failed = bool(COMPARISONS[self.sign](value, self.limit))
        return {"condition": str(self), "bound": self.bound, "value": value, "failed": failed}


def read_thresholds(path: Path) -> list[Threshold]:
    """Read a TOML file: ``fail_if = ["exposure/indie < 0.1"]`` and, if wanted, ``bound = "high"``.

    A condition with a bound of its own is a table: ``{condition = "…", bound = "low"}``.
    """
    with explained(f"{path} is not TOML", ValueError, kind=InvalidParameterError):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    unknown = set(content) - {"fail_if", "bound"}
    if unknown or not isinstance(content.get("fail_if"), list):
        raise InvalidParameterError(
            f'{path} needs fail_if = ["METRIC < NUMBER", …] and may have bound; it has: '
            f"{', '.join(content) or 'nothing'}."
        )
    bound = content.get("bound", "estimate")
    return [
        Threshold.parse(each["condition"], each.get("bound", bound))
        if isinstance(each, dict)
        else Threshold.parse(str(each), bound)
        for each in content["fail_if"]
    ]
