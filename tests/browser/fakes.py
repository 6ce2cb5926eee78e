"""Findings by formula: small or large, tame or hostile, without fitting any model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from equipoise.audit.findings import (
    Advice,
    DataSummary,
    Entry,
    Findings,
    Group,
    Items,
    OwnedComponent,
    Recommendation,
    Settings,
    UserView,
    Variant,
)
from equipoise.audit.group_section import GroupSection, GroupSize
from equipoise.metrics import Result, Results
from equipoise.metrics.intervals import Interval
from equipoise.models.fair.floor_prices import FloorPrice

GROUPS = ("popular", "medium", "niche")
METRICS = ("recall", "ndcg", "precision", "mrr", "arp", "aplt", "coverage", "gini")
GAMMAS = (0.0, -0.5, -1.0, -1.5, -2.0)

# What people have called their items, and worse.
HOSTILE = (
    "<img src=x onerror=\"window.pwned='img'\">",
    "</script><script>window.pwned='script'</script>",
    '"><svg onload="window.pwned=\'svg\'">',
    "<b>bold</b> &amp; <a href=\"javascript:window.pwned='link'\">link</a>",
    "abc\u202egpj.exe",
    "x" * 5000,
    "🎧🏳️‍🌈 e\u0301",
    "null",
    "",
    "%{customdata} ${window.pwned='template'} {{7*7}}",
    "line\nbreak\x00\x07",
    "\ud800 half",
    "__proto__",
    "-->]]>",
    "</SCRIPT\t>\u2028window.pwned='line'\u2029' \" ` \\",
)


def findings(
    n_items: int = 60,
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16),
    gammas: Sequence[float] = GAMMAS,
    files: Sequence[str] = (),
    scores: Sequence[str] = (),
    names: Sequence[object] | None = None,
    ids: Sequence[object] | None = None,
    users: Sequence[str] = ("anna", "ben", "carla"),
    words: str = "plain words",
    labels: Sequence[str] = ("indie", "major", "tiny"),
) -> Findings:
    """PCA, Normalized PCA, one Item-Weighted PCA for each γ, files of factors and of scores.

    Item j is the j-th most popular. Names and ids are repeated from the front where too few.
    """
    popularity = 10.0 / (1.0 + np.arange(n_items)) ** 0.8
    group = np.minimum(np.arange(n_items) * 6 // n_items, 2).astype(np.int8)
    kinds: list[tuple[str, str, str, float | None]] = [
        ("pca", "PCA", "pca", None),
        ("normalized", "Normalized PCA", "normalized", None),
    ]
    kinds += [(f"item-weighted:{g:g}", "Item-Weighted PCA", "item-weighted", g) for g in gammas]
    kinds += [(f"given:{i}", name, "factors", None) for i, name in enumerate(files)]
    kinds += [(f"scores:{i}", name, "scores", None) for i, name in enumerate(scores)]
    measured_at = {"factors": ranks[:3], "scores": (n_items,)}  # few factors; a full matrix
    variants = tuple(
        _variant(place, *kind, ranks=measured_at.get(kind[2], ranks), group=group)
        for place, kind in enumerate(kinds)
    )
    sizes = np.bincount(group, minlength=3)
    shares = [popularity[group == g].sum() / popularity.sum() for g in range(3)]
    return Findings(
        data=DataSummary(
            source=words,
            n_users=100,
            n_items=n_items,
            n_interactions=1000,
            density=0.1,
            gini=0.6,
            head_share=0.5,
            popularity_curve=np.stack([np.linspace(0, 1, 11), np.linspace(0, 1, 11) ** 0.4], 1),
            groups=tuple(map(Group, GROUPS, sizes.tolist(), shares)),
        ),
        settings=Settings(
            {"n_components": ranks[-2], "gamma": -1.0},
            "n_components",
            words,
            words,
            5,
            "interactions",
            0,
            "standard",
            (words, "Second note."),
        ),
        variants=variants,
        subject_key="pca",
        advised_key="item-weighted:-1" if -1.0 in gammas else "pca",
        contest=_contest(words),
        evidence=(),
        items=Items(
            ids=_repeated(ids, n_items, "item-{}"),
            names=_repeated(names, n_items, "Name {}"),
            columns=np.arange(n_items),
            popularity=popularity,
            n_users=np.arange(n_items)[::-1] + 1,
            group=group,
        ),
        users=tuple(_user(name, place, variants) for place, name in enumerate(users)),
        advice=Advice(
            "item-weighted",
            {"n_components": 8, "gamma": -1.5},
            keep=False,
            score=Interval(0.31, 0.3, 0.33, 0.95, 90),
            gain=Interval(0.1, 0.09, 0.12, 0.95, 90),
            source=words,
            data_options={"query": words},
            check={},
        ),
        version="0.0.0",
        groups=_sections(n_items, labels, variants),
    )


def _contest(words: str) -> tuple[Entry, ...]:
    """The audited model first, then others, best on validation first; the last saw everything."""
    advised = {"n_components": 8, "gamma": -1.5}

    def around(mean: float) -> Interval:
        return Interval(mean, mean - 0.01, mean + 0.02, 0.95, 90)

    return (
        Entry("pca", "PCA", {"n_components": 8}, "values as given", 0.2, around(0.21), None),
        Entry("item-weighted", "Item-Weighted PCA", advised, words, 0.3, around(0.31), around(0.1)),
        Entry("ease", "EASE", {}, words, 0.25, around(0.26), around(0.05)),
        Entry("given:9", words, {}, "", float("nan"), None, None),
    )


def _sections(
    n_items: int, labels: Sequence[str], variants: Sequence[Variant]
) -> tuple[GroupSection, ...]:
    """Items by label, each in one or two of them; users by age. The last label is too small."""
    members = np.zeros((n_items, len(labels)))
    members[np.arange(n_items), np.arange(n_items) % (len(labels) - 1)] = 1
    members[: n_items // 3, 0] = 1
    members[:4, -1] = 1
    compared = [v for v in variants if v.settings.get("gamma", -1.0) == -1.0]

    def numbers(names: Sequence[str], groups: Sequence[str]) -> dict:
        return {
            v.key: {
                name: {
                    group: Interval(value := 0.2 * (i + 1) + 0.1 * j + 0.05 * place, value - 0.03,
                                    value + 0.04, 0.95, 50)
                    for j, group in enumerate((*groups, "all"))
                }
                for i, name in enumerate(names)
            }
            for place, v in enumerate(compared)
        }  # fmt: skip

    by_item = numbers(("exposure", "exposure_relative", "recall"), labels[:-1])
    for place, by_measure in enumerate(by_item.values()):
        by_measure["awrf"] = {"all": Interval(0.9 - place / 50, 0.8, 0.95, 0.95, 50)}
    sizes = [
        GroupSize(name, int(count), count / n_items, count / n_items, name != labels[-1])
        for name, count in zip(labels, members.sum(axis=0), strict=True)
    ]
    ages = [GroupSize(name, 50, 0.5, 0.5, True) for name in ("old", "young")]
    prices = tuple(
        FloorPrice(name, low := 0.1 + 0.15 * j, high := 0.5 + 0.2 * j,
                   tuple(np.linspace(low, 0.98 * high, 4).round(3)),
                   (1.0, 0.97 - 0.05 * j, 0.8, 0.6))
        for j, name in enumerate(labels[:-1][:3])
    )  # fmt: skip
    matrix = sp.csr_array(members)
    return (
        GroupSection("items", "label in a.csv", tuple(sizes), by_item, matrix, "x", prices),
        GroupSection(
            "users", "age", tuple(ages), numbers(("ndcg",), ("old", "young")), None, "3 in none."
        ),
    )


def _repeated(given: Sequence[object] | None, count: int, form: str) -> np.ndarray:
    out = np.empty(count, dtype=object)
    out[:] = [given[i] if given and i < len(given) else form.format(i) for i in range(count)]
    return out


def _variant(
    place: int,
    key: str,
    label: str,
    kind: str,
    gamma: float | None,
    *,
    ranks: tuple[int, ...],
    group: np.ndarray,
) -> Variant:
    """Curves that rise with the rank, later for niche items, each model in its own way."""
    n_items, steps = len(group), np.arange(1, len(ranks) + 1)[:, np.newaxis]
    waits = np.linspace(0.0, len(ranks), n_items)[np.newaxis] / (1.0 + 0.2 * place)
    own = 1.0 / (1.0 + np.exp(1.5 * (waits + 2.0 + 0.3 * place - steps)))
    error = 1.0 - own**0.8 + 0.01 * place
    to_half = np.round(2.0 ** (waits[0] + 0.2 * place))
    to_half[-2:] = [np.inf, np.nan]
    auc = 0.5 + 0.4 * own[len(ranks) // 2]
    auc[n_items // 2] = np.nan
    means = {
        "specialization": {"all": own.max(axis=1)},
        "self_reconstruction": _means(own, group),
        "item_error": _means(error, group),
        "item_auc": _means(0.5 + 0.4 * own, group),
        "item_precision": _means(0.5 * own, group),
    }
    for i, metric in enumerate(METRICS):
        values = (0.1 + 0.05 * i) * np.sqrt(steps[:, 0]) / (1 + 0.1 * place)
        means[metric] = {"all": values * 100 if metric == "arp" else values}
    settings = {} if gamma is None else {"gamma": gamma}
    rows = [
        Result(metric, float(value), "standard", group=name, model=label, settings=settings)
        for metric, by_group in means.items()
        for name, values in by_group.items()
        for value in values
    ]
    neighbors = (np.arange(n_items)[:, np.newaxis] + np.arange(1, 9) * (place + 1)) % n_items
    neighbors[0, -1] = -1
    owned = () if place else (OwnedComponent(0, 0, 0.9), OwnedComponent(3, 1, 0.55))
    return Variant(
        key=key,
        label=label,
        kind=kind,
        settings=settings,
        size=ranks[max(0, len(ranks) - 2)],
        sizes=ranks,
        results=Results(tuple(rows)),
        intervals={},
        no_accuracy="",
        components_to_half={name: float(to_half[:-2].mean()) for name in (*GROUPS, "all")},
        not_halved=dict.fromkeys((*GROUPS, "all"), 0),
        depth=max(ranks),
        owned=owned,
        self_reconstruction_by_item=own,
        error_by_item=error,
        auc_by_item=auc,
        components_to_half_by_item=to_half,
        neighbors=neighbors.astype(np.int32),
    )


def _means(values: np.ndarray, group: np.ndarray) -> dict[str, np.ndarray]:
    by_group = {name: values[:, group == g].mean(axis=1) for g, name in enumerate(GROUPS)}
    return {**by_group, "all": values.mean(axis=1)}


def _user(name: str, place: int, variants: Sequence[Variant]) -> UserView:
    shown = [v for v in variants if v.settings.get("gamma", -1.0) == -1.0]
    lists = {
        v.key: tuple(
            Recommendation(10 + place + i * (at + 1), 1.0 - i / 10, (place, place + 1))
            for i in range(5)
        )
        for at, v in enumerate(shown)
    }
    return UserView(name, (place, place + 1, place + 2), (10 + place, 30), lists)
