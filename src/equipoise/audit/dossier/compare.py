"""What changed between two audits: numbers, items, components and lists, beyond noise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from equipoise.audit.findings import Findings
from equipoise.audit.report.to_json import as_json, to_json
from equipoise.display import Shown, page
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.intervals import Interval

Report = Mapping[str, Any]

# A finding is stated if chance alone gives one in all numbers together in at most 5 % of cases.
_LEVEL = 0.05
# Width of a 95 % interval in standard errors.
_WIDTH = float(2 * ndtri(0.975))
# Intervals over fewer items or users are too narrow.
_SMALLEST = 10
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
        columns = ["number", "before", "after", "difference", "p"]
        found = [Shown(f"{self.before} → {self.after}", [], [], (self.summary(), *self.settings))]
        if self.stated:
            rows = [
                (each.name, str(each.before), str(each.after), str(each.difference), each.p_value)
                for each in sorted(self.stated, key=lambda change: change.p_value)
            ]
            found.append(Shown("Numbers that changed beyond noise", columns, rows))
        for what, items in self.items.items():
            if items:
                header = ["item", "name", "users", "before", "after"]
                found.append(
                    Shown(f"Items {what}", header, [tuple(asdict(i).values()) for i in items])
                )
        kept = [(name, _text(value)) for name, value in self.components.items() if value]
        if kept:
            found.append(Shown("Components", ["", ""], kept))
        if self.overlap is not None:
            shown = f"{self.overlap} of a user's list is in both lists, on average."
            found.append(Shown("Lists", [], [], (shown,)))
        same = [
            (each.name, str(each.before), str(each.after), str(each.difference))
            for each in self.numbers
            if not each.stated
        ]
        found.append(Shown("Numbers without a change beyond noise", columns[:-1], same))
        return found

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
            "report.json. To compare two models, give DATA too."
        )
    return report


def numbers(report: Report, key: str | None = None) -> dict[str, Interval]:
    """Return every number of one model of a report, by default of the audited one.

    Names are those of the metrics, followed by a slash and the group if it is not all items or
    users: ``recall``, ``item_auc/niche``, ``exposure/indie``.
    """
    key = key or report["subject"]
    model = next(each for each in report["models"] if each["key"] == key)
    at = model["sizes"].index(model["size"])
    found = {}
    for metric, by_group in model["means"].items():
        for group, values in by_group.items():
            interval = model["intervals"].get(metric, {}).get(group) or (None, None)
            found[_name(metric, group)] = _interval(values[at], *interval)
    for section in report["groups"]:
        for metric, by_group in section["numbers"].get(key, {}).items():
            for group, values in by_group.items():
                found.setdefault(_name(metric, group), _interval(*values))
    return {name: number for name, number in found.items() if not math.isnan(number.mean)}


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
    sides = (before, after)
    common = sorted(set.intersection(*(set(item_table(*side)) for side in sides)))
    moved = {
        **_crossed(sides, common, "item_error", ("newly lost", "no longer lost"), same_data),
        **_crossed(
            sides,
            common,
            "self_reconstruction",
            ("newly memorized", "no longer memorized"),
            same_data,
        ),
    }
    return Changes(
        before=_title(old, old_key),
        after=_title(new, new_key),
        numbers=_judged(pairs, _noise(old, "numbers"), _noise(new, "numbers"), _degrees(old, new)),
        items=moved,
        components={**_owned(before, after, moved), **(components or {})},
        overlap=_sampled_overlap(before, after) if overlap is None else overlap,
        n_items=len(common),
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
    sides: Sequence[tuple[Report, str]],
    common: Sequence[str],
    metric: str,
    names: tuple[str, str],
    same_data: bool,
) -> dict[str, tuple[ItemChange, ...]]:
    """Return the items that moved across a half by more than the noise of such items."""
    tables = [item_table(*side) for side in sides]
    old, new = (_column(table, common, metric) for table in tables)
    move = new - old
    limit = np.full(len(common), _LEAST_MOVE)
    if not same_data and np.isfinite(move).any():
        users = np.array([min(table[item]["users"] for table in tables) for item in common], float)
        # noise falls with the square root of the users; its scale is that of most items
        scaled = move * np.sqrt(users)
        scale = np.nanmedian(np.abs(scaled - np.nanmedian(scaled))) / ndtri(0.75)
        error = scale / np.sqrt(np.maximum(users, 1))
        by_item = [_noise(report, "items") for report, _ in sides]
        own = [[noise.get(item, {}).get(metric, 0.0) for item in common] for noise in by_item]
        error = np.maximum(error, np.hypot(*np.array(own, dtype=float)))
        # an item can jump when two components change places: as far as items did between halves
        largest = [
            _noise(report, "largest move of an item").get(metric, 0.0) for report, _ in sides
        ]
        limit = np.maximum(limit, max(largest))
        limit = np.maximum(limit, _TAILS * ndtri(1 - _LEVEL / 4 / max(1, len(common))) * error)
    up = (old < _HALF) & (new >= _HALF) & (move > limit)
    down = (old >= _HALF) & (new < _HALF) & (-move > limit)
    found = {}
    for name, places in zip(names, (up, down), strict=True):
        found[name] = tuple(
            ItemChange(
                item,
                str(tables[1][item]["name"]),
                int(tables[1][item]["users"]),
                float(old[place]),
                float(new[place]),
            )
            for place, item in enumerate(common)
            if places[place]
        )
    return found


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
    if len(shares) < _SMALLEST:
        return None
    margin = _WIDTH / 2 * float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    mean = float(np.mean(shares))
    return Interval(mean, mean - margin, mean + margin)


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


def item_table(report: Report, key: str) -> dict[str, dict[str, Any]]:
    """Return the numbers of one model by item."""
    return {
        str(each["id"]): {**each["models"][key], "name": each["name"], "users": each["users"]}
        for each in report["items"]
        if key in each["models"]
    }


def _column(table: Mapping[str, Any], items: Sequence[str], metric: str) -> NDArray[np.float64]:
    return np.array([table[item][metric] for item in items], dtype=float)  # None becomes nan


def _name(metric: str, group: str) -> str:
    return metric if group == "all" else f"{metric}/{group}"


def _interval(value: float | None, low: float | None, high: float | None) -> Interval:
    mean, low, high = (math.nan if each is None else float(each) for each in (value, low, high))
    return Interval(mean, low, high)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
