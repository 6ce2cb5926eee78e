"""What changed between two audits: numbers, items, components and lists, beyond noise."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

from equipoise.audit.findings import Findings
from equipoise.audit.report.to_json import as_json, to_json
from equipoise.display import Shown, page
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.intervals import Interval, bootstrap_mean
from equipoise.metrics.results import ALL

Report = Mapping[str, Any]

# A finding is stated if chance alone gives one in all numbers together in at most 5 % of cases.
_LEVEL = 0.05
# Width of a 95 % interval in standard errors.
_WIDTH = 2 * NormalDist().inv_cdf(0.975)
# Intervals over fewer items or users are too narrow.
_SMALLEST = 10
#: numbers of single items that are compared
ITEM_METRICS = ("item_error", "self_reconstruction")
# An item is lost if more than half of it is not reconstructed, memorized if more than half of its
# score comes from itself. Smaller moves across the half are not reported.
_HALF, _LEAST_MOVE = 0.5, 0.2
# Numbers of users, which grow with the data: a change of them is not one of the model.
_COUNTS = {"arp"}
# Degrees of freedom of an error from a bootstrap.
_MANY = 1000
# Numbers of single items have heavier tails than a normal distribution.
_TAILS = 2.0


@dataclass(frozen=True)
class Change:
    """One number before and after.

    Attributes
    ----------
    name : str
        The metric, and the group after a slash: ``"item_auc/niche"``.
    before, after : Interval
        With their intervals.
    difference : Interval
        After minus before; its interval takes both as independent.
    p_value : float
        Two-sided, of no change, before the correction for many numbers.
    stated : bool
        Whether the change exceeds noise, corrected for many numbers (Holm).
    """

    name: str
    before: Interval
    after: Interval
    difference: Interval
    p_value: float
    stated: bool


@dataclass(frozen=True)
class ItemChange:
    """One item that crossed a half."""

    item: str
    name: str
    users: int
    before: float
    after: float


@dataclass(frozen=True)
class Changes:
    """What changed between two audits of one subject each.

    Attributes
    ----------
    before, after : str
        What was audited.
    numbers : tuple of Change
        Every number that both audits have with an interval.
    items : mapping of str to tuple of ItemChange
        Items "newly lost", "no longer lost", "newly memorized", "no longer memorized".
    components : mapping of str to value
        Items that gained or lost a component of their own; for two models also the cosines of the
        principal angles between their item vectors.
    overlap : Interval or None
        Mean share of items that are in both lists of a user.
    n_items : int
        Items that were compared.
    settings : tuple of str
        What else differs, in words.
    """

    before: str
    after: str
    numbers: tuple[Change, ...]
    items: Mapping[str, tuple[ItemChange, ...]]
    components: Mapping[str, Any]
    overlap: Interval | None
    n_items: int
    settings: tuple[str, ...]

    @property
    def stated(self) -> tuple[Change, ...]:
        """The numbers that changed beyond noise."""
        return tuple(change for change in self.numbers if change.stated)

    @property
    def is_news(self) -> bool:
        """Whether anything changed beyond noise."""
        return bool(self.stated or any(self.items.values()) or any(self.components.values()))

    def summary(self) -> str:
        """Return the result in one sentence."""
        counted = f"{len(self.numbers)} numbers and {self.n_items:,} items"
        if not self.is_news:
            return f"No change beyond noise in {counted}."
        parts = [f"{len(self.stated)} of {len(self.numbers)} numbers changed beyond noise"]
        of = f"of {self.n_items:,} items"
        parts += [f"{len(found)} {of} {what}" for what, found in self.items.items() if found]
        return f"{'; '.join(parts)}."

    def sections(self) -> list[Shown]:
        """Return the tables of the report."""

        def row(each: Change) -> tuple[str, ...]:
            return (each.name, str(each.before), str(each.after), str(each.difference))

        columns = ["number", "before", "after", "difference"]
        changed = sorted(self.stated, key=lambda change: change.p_value)
        same = [row(each) for each in self.numbers if not each.stated]
        header = ["item", "name", "users", "before", "after"]
        lists = f"{self.overlap} of a user's list is in both lists, on average."
        news = [
            Shown(f"{self.before} → {self.after}", [], [], (self.summary(), *self.settings)),
            Shown(
                "Numbers that changed beyond noise",
                [*columns, "p"],
                [(*row(each), each.p_value) for each in changed],
            ),
            *(
                Shown(f"Items {what}", header, [tuple(asdict(one).values()) for one in items])
                for what, items in self.items.items()
            ),
            Shown(
                "Components",
                ["", ""],
                [(name, _text(value)) for name, value in self.components.items() if value],
            ),
            Shown("Lists", [], [], () if self.overlap is None else (lists,)),
        ]
        return [
            *(section for section in news if section.rows or section.notes),
            Shown("Numbers without a change beyond noise", columns, same),
        ]

    def to_json(self) -> str:
        """Return everything as JSON; equal changes give equal text."""
        content = {"summary": self.summary(), "is_news": self.is_news, **asdict(self)}
        return json.dumps(as_json(content), indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        return "\n".join(section.markdown() for section in self.sections())

    def to_html(self) -> str:
        """Return the tables as one page without scripts."""
        return page("equipoise: what changed", [section.html(None) for section in self.sections()])

    def _repr_html_(self) -> str:
        return "".join(section.html() for section in self.sections())


def read_report(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the JSON of an audit; refuse anything else."""
    try:
        report = json.loads(Path(path).read_bytes())
    except ValueError:
        report = None
    if not (isinstance(report, dict) and {"models", "items", "settings", "data"} <= set(report)):
        raise InvalidDataError(
            f"{path} is not the JSON report of an audit. Write one with equipoise audit DATA --out "
            "report.json. Did you swap REPORT and DATA? equipoise compare takes two models only "
            "with DATA."
        )
    return report


def numbers(report: Report, key: str | None = None) -> dict[str, Interval]:
    """Return every number of one model of a report, by default of the audited one.

    Names are those of the metrics, followed by a slash and the group if it is not all items or
    users: ``recall``, ``item_auc/niche``, ``exposure/indie``.
    """
    key = key or report["subject"]
    model = _model(report, key)
    at = model["sizes"].index(model["size"])
    found: dict[tuple[str, str], Sequence[float | None]] = {}
    for metric, by_group in model["means"].items():
        for group, values in by_group.items():
            bounds = model["intervals"].get(metric, {}).get(group) or (None, None)
            found[metric, group] = (values[at], *bounds)
    for section in report["groups"]:
        for metric, by_group in section["numbers"].get(key, {}).items():
            for group, values in by_group.items():
                found.setdefault((metric, group), values)
    return {
        metric if group == ALL else f"{metric}/{group}": Interval(*np.array(values, dtype=float))
        for (metric, group), values in found.items()
        if values[0] is not None
    }


def as_report(source: Findings | Report | str | PathLike[str]) -> Report:
    """Return findings, the path of a JSON report, or its content, as the content."""
    if isinstance(source, Findings):
        return json.loads(to_json(source))
    if isinstance(source, str | PathLike):
        return read_report(source)
    return source


def compare(
    before: Findings | Report | str | PathLike[str], after: Findings | Report | str | PathLike[str]
) -> Changes:
    """Compare the audited models of two audits of different data: last month and this month.

    Parameters
    ----------
    before, after : Findings, path of a JSON report, or its content
        Made with ``equipoise audit --repeat`` if the models were fitted again.
    """
    before, after = as_report(before), as_report(after)
    if before["settings"]["k"] != after["settings"]["k"]:
        raise InvalidDataError(
            f"the lists have {before['settings']['k']} items before and {after['settings']['k']} "
            "after, so their numbers cannot be compared. Audit both with the same -k."
        )
    labels, others = (report["settings"].get("metrics", {}) for report in (before, after))
    for name in labels.keys() & others.keys():
        if labels[name] != others[name]:
            raise InvalidDataError(
                f"the reports have {labels[name]} before and {others[name]} after, which cannot be "
                "compared. Audit both with the same --more-metrics."
            )
    sides = [(report, report["subject"]) for report in (before, after)]
    return changes(*sides, same_data=False)


def changes(
    before: tuple[Report, str],
    after: tuple[Report, str],
    *,
    same_data: bool,
    components: Mapping[str, Any] | None = None,
    overlap: Interval | None = None,
) -> Changes:
    """Compare two models, each of a report; with `same_data` items have no sampling noise."""
    (old, old_key), (new, new_key) = before, after
    small = _small_groups(old) | _small_groups(new)
    found, others = numbers(*before), numbers(*after)
    pairs = {
        name: (number, others[name])
        for name, number in found.items()
        if name in others and name not in _COUNTS and name.partition("/")[2] not in small
    }
    tables = [item_table(*side) for side in (before, after)]
    both = tables[0].join(tables[1], on="item", suffix="_after").sort("item")
    reports = None if same_data else (old, new)
    moved = {
        **_crossed(both, "item_error", ("newly lost", "no longer lost"), reports),
        **_crossed(
            both, "self_reconstruction", ("newly memorized", "no longer memorized"), reports
        ),
    }
    return Changes(
        before=_title(old, old_key),
        after=_title(new, new_key),
        numbers=_judged(pairs, _noise(old, "numbers"), _noise(new, "numbers"), _degrees(old, new)),
        items=moved,
        components={**_owned(before, after, moved), **(components or {})},
        overlap=_sampled_overlap(before, after) if overlap is None else overlap,
        n_items=len(both),
        settings=() if same_data else _other_settings(old, new),
    )


def _judged(
    pairs: Mapping[str, tuple[Interval, Interval]],
    old_noise: Mapping[str, float],
    new_noise: Mapping[str, float],
    degrees: int,
) -> tuple[Change, ...]:
    """Test every pair that has intervals; Holm's correction for many numbers.

    The error of a number is the larger of that of its interval and that of repeated halves.
    """
    from scipy.special import stdtr

    tested = []
    for name, (old, new) in pairs.items():
        errors = [
            np.fmax(number.error, noise.get(name, math.nan))
            for number, noise in ((old, old_noise), (new, new_noise))
        ]
        error = math.hypot(*errors)
        if not (error > 0 and math.isfinite(error)):
            continue
        move = new.mean - old.mean
        margin = error * _WIDTH / 2
        p_value = float(2 * stdtr(degrees, -abs(move) / error))
        tested.append((name, old, new, Interval(move, move - margin, move + margin), p_value))
    p_values = np.array([each[-1] for each in tested])
    order = np.argsort(p_values, kind="stable")
    below = p_values[order] <= _LEVEL / np.arange(len(tested), 0, -1)
    stated = set(order[np.logical_and.accumulate(below)].tolist())
    return tuple(Change(*each, place in stated) for place, each in enumerate(tested))


def _noise(report: Report, what: str) -> Any:
    """Return what repeated halves gave; empty without."""
    return report.get("manifest", {}).get("noise", {}).get(what, {})


def _degrees(old: Report, new: Report) -> int:
    """Return the degrees of freedom of an error from halves: of the smaller number of halvings.

    Both together would have more if errors were normal, but fits that change places have heavier
    tails. Without halves, errors are those of many draws.
    """
    halvings = [_noise(report, "halvings") or _MANY for report in (old, new)]
    return int(min(halvings))


def _crossed(
    both: pl.DataFrame, metric: str, names: tuple[str, str], reports: Sequence[Report] | None
) -> dict[str, tuple[ItemChange, ...]]:
    """Return the items that moved across a half by more than the noise of such items.

    Without reports, both models were measured on the same data, and there is no such noise.
    """
    old, new = (both[name].to_numpy() for name in (metric, f"{metric}_after"))
    move = new - old
    limit = np.full(len(both), _LEAST_MOVE)
    if reports is not None and np.isfinite(move).any():
        users = np.minimum(both["users"].to_numpy(), both["users_after"].to_numpy())
        # noise falls with the square root of the users; its scale is that of most items
        scaled = move * np.sqrt(users)
        scale = np.nanmedian(np.abs(scaled - np.nanmedian(scaled))) / NormalDist().inv_cdf(0.75)
        by_item = [_noise(report, "items") for report in reports]
        own = [[noise.get(item, {}).get(metric, 0.0) for item in both["item"]] for noise in by_item]
        error = np.maximum(scale / np.sqrt(np.maximum(users, 1)), np.hypot(*np.array(own)))
        # an item can jump when two components change places: as far as items did between halves
        jumps = [_noise(report, "largest move of an item").get(metric, 0.0) for report in reports]
        beyond = _TAILS * NormalDist().inv_cdf(1 - _LEVEL / 4 / max(1, len(both))) * error
        limit = np.maximum(np.maximum(limit, max(jumps)), beyond)
    up = (old < _HALF) & (new >= _HALF) & (move > limit)
    down = (old >= _HALF) & (new < _HALF) & (-move > limit)
    shown = both.select("item", "name_after", "users_after", metric, f"{metric}_after")
    return {
        name: tuple(itertools.starmap(ItemChange, shown.filter(pl.Series(moved)).rows()))
        for name, moved in zip(names, (up, down), strict=True)
    }


def _owned(
    before: tuple[Report, str], after: tuple[Report, str], moved: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return items that gained or lost a component, of those that moved beyond noise."""
    owners = [
        {str(each["item"]) for each in _model(*side)["owned_components"]}
        for side in (before, after)
    ]
    gained = {change.item for change in moved["newly memorized"]}
    lost = {change.item for change in moved["no longer memorized"]}
    return {
        "items that gained a component of their own": sorted((owners[1] - owners[0]) & gained),
        "items that lost their component": sorted((owners[0] - owners[1]) & lost),
    }


def _sampled_overlap(before: tuple[Report, str], after: tuple[Report, str]) -> Interval | None:
    """Return the overlap of the lists of the users that both reports show."""
    lists = [
        {
            each["user"]: {one["item"] for one in each["recommended"].get(key, [])}
            for each in report["users"]
        }
        for report, key in (before, after)
    ]
    shares = [
        len(lists[0][user] & lists[1][user]) / max(1, len(lists[0][user]))
        for user in lists[0]
        if user in lists[1]
    ]
    return bootstrap_mean(shares, resamples=1000) if len(shares) >= _SMALLEST else None


def _other_settings(old: Report, new: Report) -> tuple[str, ...]:
    """Return in words how the two audits differ, other than in their numbers."""
    notes = []
    for what in ("preparation", "groups", "depth", "seed"):
        values = [report["settings"].get(what) for report in (old, new)]
        if values[0] != values[1]:
            notes.append(f"The {what} differs: {values[0]} before, {values[1]} after.")
    models = [_model(report, report["subject"]) for report in (old, new)]
    sizes = [model["size"] for model in models]
    if sizes[0] != sizes[1]:
        notes.append(f"The rank differs: {sizes[0]} before, {sizes[1]} after.")
    items = [{str(each["id"]) for each in report["items"]} for report in (old, new)]
    counts = len(items[1] - items[0]), len(items[0] - items[1])
    if any(counts):
        notes.append(f"{counts[0]:,} listed items are new and {counts[1]:,} are gone.")
    return tuple(notes)


def _model(report: Report, key: str) -> Mapping[str, Any]:
    return next(each for each in report["models"] if each["key"] == key)


def _title(report: Report, key: str) -> str:
    data = report["data"]
    return f"{_model(report, key)['label']} on {data['source']} ({data['n_users']:,} users)"


def _small_groups(report: Report) -> set[str]:
    small = {each["name"] for each in report["data"]["groups"] if each["n_items"] < _SMALLEST}
    return small | {g["name"] for s in report["groups"] for g in s["groups"] if not g["reported"]}


def item_table(report: Report, key: str) -> pl.DataFrame:
    """Return the numbers of one model by item."""
    rows = [
        (str(each["id"]), str(each["name"]), each["users"], *map(own.get, ITEM_METRICS))
        for each in report["items"]
        if (own := each["models"].get(key)) is not None
    ]
    numbers = dict.fromkeys(ITEM_METRICS, pl.Float64)
    schema = {"item": pl.String, "name": pl.String, "users": pl.Int64, **numbers}
    return pl.DataFrame(rows, schema, orient="row")


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
