"""Findings by formula: small or large, tame or hostile, without fitting any model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.audit.findings import (
    Advice,
    DataSummary,
    Findings,
    Group,
    Headline,
    Items,
    OwnedComponent,
    Recommendation,
    Settings,
    UserView,
    Variant,
    Verdict,
)
from equipoise.metrics import Result, Results

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
            5,
            "interactions",
            0,
            (words, "Second note."),
        ),
        variants=variants,
        items=Items(
            ids=_repeated(ids, n_items, "item-{}"),
            names=_repeated(names, n_items, "Name {}"),
            columns=np.arange(n_items),
            popularity=popularity,
            n_users=np.arange(n_items)[::-1] + 1,
            group=group,
        ),
        users=tuple(_user(name, place, variants) for place, name in enumerate(users)),
        verdict=Verdict(
            headlines=(Headline("7×", words), Headline("42%", words), Headline("+3%", words)),
            sentences=(words, "A second sentence."),
            advice=Advice(
                "item-weighted", {"n_components": 8, "gamma": -1.5}, words, {"query": words}, words
            ),
        ),
        version="0.0.0",
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
        sizes=ranks,
        results=Results(tuple(rows)),
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
