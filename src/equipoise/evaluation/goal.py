"""The goal of a search: a metric to maximize, limits on others, and the frontier between them."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import Request, Result
from equipoise.metrics.registry import parse_metrics
from equipoise.metrics.results import ALL

Limits = Mapping[str, tuple[str, float]]

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


_CONDITION = re.compile(r"\s*([^<>=]*[^<>=\s])\s*(>=|<=|>|<)\s*(\S+)\s*")


def parse_condition(text: str) -> tuple[str, str, float]:
    """Read a condition on a number of a model: its name, the comparison, the bound.

    Examples
    --------
    >>> parse_condition("exposure/indie < 0.1")
    ('exposure/indie', '<', 0.1)
    """
    found = _CONDITION.fullmatch(text)
    with contextlib.suppress(ValueError):
        if found is not None:
            return found[1], found[2], float(found[3])
    raise InvalidParameterError(
        f"a condition is METRIC[/GROUP] >= NUMBER (or <=, >, <), e.g. 'aplt >= 0.3', got {text!r}."
    )


class Target(NamedTuple):
    """A number of a model: a metric, for all items or for one group of them.

    Examples
    --------
    >>> Target.parse("ndcg", 20).label, Target.parse("item_auc/niche", 20).label
    ('ndcg@20', 'item_auc/niche')
    """

    request: Request
    group: str = ALL

    @classmethod
    def parse(cls, text: str, k: int) -> Target:
        """Read ``name[@k][:convention][/group]``."""
        metric, _, group = text.partition("/")
        return cls(parse_metrics([metric], k)[0], group or ALL)

    @property
    def label(self) -> str:
        """The text that `parse` reads."""
        return self.request.label + ("" if self.group == ALL else f"/{self.group}")

    def read(self, rows: Sequence[Result]) -> float:
        """Find it among the numbers of a model."""
        name, several = self.request.metric.name, len(self.request.metric.conventions) > 1
        for row in rows:
            same = (row.metric, row.k, row.group) == (name, self.request.k, self.group)
            # after a comma, a convention names groups or how users without items count
            own = row.convention.partition(",")[0]
            if same and (not several or own == self.request.convention):
                return row.value
        groups = {row.group for row in rows if row.metric == name}
        raise InvalidParameterError(
            f"{self.label!r} is not a number of the model. {name} has the groups: "
            f"{', '.join(sorted(groups))}."
        )


class Limit(NamedTuple):
    """A bound that the choice must meet."""

    target: Target
    comparison: str
    bound: float

    def meets(self, value: float) -> bool:
        """Whether a value is within the bound; nan is not."""
        return not math.isnan(value) and COMPARISONS[self.comparison](value, self.bound)

    @property
    def sign(self) -> float:
        """1 where more is better, -1 where less is."""
        return 1.0 if self.comparison.startswith(">") else -1.0

    def __str__(self) -> str:
        return f"{self.target.label} {self.comparison} {self.bound:g}"


class Goal(NamedTuple):
    """Maximize one target subject to limits.

    Attributes
    ----------
    target : Target
        What to maximize.
    sign : float
        -1 where less is better: ``maximize="-gini"``.
    limits : tuple of Limit
        What must hold.
    against : tuple of Target
        What the frontier weighs the target against where there are no limits; more is better.
    """

    target: Target
    sign: float
    limits: tuple[Limit, ...]
    against: tuple[Target, ...]

    @classmethod
    def parse(
        cls, maximize: str, subject_to: Limits | None, trade_off: Sequence[str], k: int
    ) -> Goal:
        """Read the arguments of `tune`."""
        sign = -1.0 if maximize.startswith("-") else 1.0
        limits = tuple(_limit(text, rule, k) for text, rule in (subject_to or {}).items())
        limited = {limit.target for limit in limits}
        against = tuple(Target.parse(text, k) for text in trade_off)
        return cls(
            Target.parse(maximize.removeprefix("-"), k),
            sign,
            limits,
            tuple(target for target in against if target not in limited),
        )

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every number to measure, each once."""
        every = [self.target, *(limit.target for limit in self.limits), *self.against]
        return tuple(dict.fromkeys(every))

    def objective(self, scores: Mapping[str, float]) -> float:
        """The number to maximize; -inf if a limit is not met or there is no value."""
        value = self.sign * scores[self.target.label]
        kept = all(limit.meets(scores[limit.target.label]) for limit in self.limits)
        return value if kept and not math.isnan(value) else -math.inf

    def best(self, table: Sequence[Mapping[str, float]]) -> int:
        """Return the position of the best of the candidates that meet all limits."""
        objectives = [self.objective(scores) for scores in table]
        best = max(range(len(table)), key=objectives.__getitem__)
        if objectives[best] == -math.inf:
            raise InvalidParameterError(self._unreachable(table))
        return best

    def best_so_far(self, table: Iterable[Mapping[str, float]]) -> str:
        """Return the best objective of a search that is still going on, for its progress.

        Examples
        --------
        >>> goal = Goal.parse("ndcg", {"aplt": (">=", 0.3)}, (), 20)
        >>> goal.best_so_far([{"ndcg@20": 0.4, "aplt@20": 0.1}])
        'no setting meets the limits so far'
        >>> goal.best_so_far([{"ndcg@20": 0.4, "aplt@20": 0.1}, {"ndcg@20": 0.3, "aplt@20": 0.5}])
        'best so far: ndcg@20 0.3000'
        """
        best = max(map(self.objective, table), default=-math.inf)
        if best == -math.inf:
            return "no setting meets the limits so far"
        return f"best so far: {self.target.label} {self.sign * best:.4f}"

    def _unreachable(self, table: Sequence[Mapping[str, float]]) -> str:
        if not self.limits:
            return f"{self.target.label} is nan for every candidate: no user or item has a value."
        reached = []
        for limit in self.limits:
            values = limit.sign * np.array([scores[limit.target.label] for scores in table])
            best = limit.sign * float(np.fmax.reduce(values))
            reached.append(f"{limit} (best reached alone: {best:.4g})")
        return (
            f"none of the {len(table)} candidates meets the limits: {'; '.join(reached)}. "
            "Relax them, or search more settings."
        )

    def frontier(self, table: Sequence[Mapping[str, float]]) -> list[int]:
        """Return the positions of candidates that no other beats in all targets at once.

        Examples
        --------
        >>> goal = Goal.parse("ndcg", None, ["aplt"], 20)
        >>> goal.frontier([{"ndcg@20": 0.3, "aplt@20": 0.1}, {"ndcg@20": 0.2, "aplt@20": 0.4},
        ...                {"ndcg@20": 0.1, "aplt@20": 0.3}])
        [0, 1]
        """
        axes = [(self.target, self.sign), *((limit.target, limit.sign) for limit in self.limits)]
        axes += [(target, 1.0) for target in self.against]
        points = np.array([[sign * scores[t.label] for t, sign in axes] for scores in table])
        points[np.isnan(points)] = -np.inf
        order = np.lexsort((*-points.T[:0:-1], -points[:, 0]))
        kept: list[int] = []
        for i in order:
            # only what comes earlier in this order can be at least as good everywhere
            if not any(np.all(points[j] >= points[i]) for j in kept):
                kept.append(int(i))
        return kept


def _limit(text: str, rule: tuple[str, float], k: int) -> Limit:
    try:
        comparison, bound = rule
        number = float(bound)
    except (TypeError, ValueError):
        comparison, number = "", math.nan
    if comparison not in COMPARISONS or math.isnan(number):
        raise InvalidParameterError(
            f"subject_to[{text!r}] must be a comparison and a number, e.g. ('>=', 0.2), "
            f"got {rule!r}."
        )
    return Limit(Target.parse(text, k), comparison, number)
