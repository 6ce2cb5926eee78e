"""The setting to use, why, and the calls that apply it."""

from __future__ import annotations

import shlex

import numpy as np

from equipoise.audit.choice import Choice
from equipoise.audit.findings import Advice, Portrait, Settings

# What data are called that nobody named.
UNNAMED = "interactions"


def advise(
    portrait: Portrait, settings: Settings, choice: Choice | None, *, normalized: bool
) -> Advice:
    """The best setting on validation, or the one asked for, with the calls that apply it."""
    gamma = settings.gamma if choice is None else choice.gamma
    rank = settings.rank if choice is None else choice.rank
    rows = ".normalize_rows()" if normalized else ""
    option = " --normalize-rows" if normalized else ""
    data = _data_argument(portrait.source)
    return Advice(
        gamma=gamma,
        rank=rank,
        python=f"ItemWeightedPCA(n_components={rank}, gamma={gamma:g}).fit(interactions{rows})",
        command=f"equipoise fit {data} --rank {rank} --gamma {gamma:g}{option} --out model.eqp",
        why=_why(settings, choice),
    )


def _why(settings: Settings, choice: Choice | None) -> str:
    if choice is None:
        return (
            "There is no validation part to choose on: this is the setting that was asked for, "
            "not a recommendation that was measured."
        )
    best, k = choice.at(choice.gamma, choice.rank), settings.k
    plain = float(np.max(choice.ndcg[choice.gammas.index(0.0)]))
    tried = f"{len(choice.gammas)} values of γ and {len(choice.ranks)} ranks"
    chosen = f"NDCG@{k} {best:.3f} on the validation part, the best of {tried}"
    if choice.gamma == 0:
        return f"{chosen}: here plain PCA (γ = 0) is not beaten by item weights."
    edges = [("γ", choice.gamma == min(choice.gammas)), ("rank", choice.rank == max(choice.ranks))]
    at_edge = " and ".join(name for name, reached in edges if reached)
    beyond = f" Its {at_edge} is at the edge of what was tried." if at_edge else ""
    return f"{chosen}; PCA (γ = 0) reaches {plain:.3f} at its best rank.{beyond}"


def _data_argument(source: str) -> str:
    """The data as a shell takes them; DATA where the source is a description and no address.

    Examples
    --------
    >>> _data_argument("my plays.csv"), _data_argument("example data")
    ("'my plays.csv'", 'DATA')
    """
    described = source == UNNAMED or (" " in source and not set(source) & set("./\\:*"))
    return "DATA" if described else shlex.quote(source)
