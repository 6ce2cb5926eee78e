"""`audit`: interactions (and anybody's item factors) in, `Findings` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from equipoise import __version__
from equipoise.audit.advice import UNNAMED
from equipoise.audit.choice import Choice, choose
from equipoise.audit.factors import notes_on_files, read_subjects
from equipoise.audit.findings import Findings, Settings
from equipoise.audit.fitting import Steps, fit_all, key_of
from equipoise.audit.measuring import Measured, measure, to_variant
from equipoise.audit.plan import DEEPEST_CHOICE, Study, depth_for, gammas_with, ranks_up_to, study
from equipoise.audit.portrait import portrait_of
from equipoise.audit.showing import (
    N_NEIGHBOURS,
    as_positions,
    columns_of,
    items_of,
    pick_items,
    pick_users,
    view_user,
)
from equipoise.audit.subjects import Subject
from equipoise.audit.verdict import judge
from equipoise.checks import check_whole_number
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.progress import Progress, task

DEFAULT_RANK, DEFAULT_GAMMA, DEFAULT_K = 32, -1.0, 20


def audit(
    interactions: Interactions,
    *,
    names: Any = None,
    rank: int | Literal["auto"] = DEFAULT_RANK,
    gamma: float = DEFAULT_GAMMA,
    groups: Literal["interactions", "items"] = "interactions",
    factors: Mapping[str, Any] | Sequence[Any] = (),
    k: int = DEFAULT_K,
    seed: int = 0,
    normalize: bool | None = None,
    source: str = UNNAMED,
    progress: Progress | None = None,
) -> Findings:
    """Find which items a low-rank model fails, which it memorises, and what item weights change.

    PCA, Normalized PCA and Item-Weighted PCA along γ are fitted once each, as deep as a fit of a
    quarter of a minute goes (1,024 components at most), and measured at every power of two.
    Mechanisms are measured in-sample, accuracy on a hold-out, a setting is recommended by a
    validation part. What is sampled or prepared is said in ``settings.notes``.

    Parameters
    ----------
    interactions : Interactions
        Users × items.
    names : mapping, table or path, optional
        What the items are called; see `Interactions.with_names`.
    rank : int or "auto"
        What headline, tables and neighbours speak of; "auto" takes the best on validation.
    gamma : float
        γ that they speak of, to six digits.
    groups : {"interactions", "items"}
        How popularity groups are cut; see `equipoise.metrics.popularity_groups`.
    factors : mapping of label to model, or sequence of models
        Paths, arrays or fitted models to audit beside ours; see `equipoise.audit.factors`.
    k : int
        Length of recommended lists.
    seed : int
        Of the hold-out and of every sample.
    normalize : bool, optional
        Divide each row by its sum. By default only where the heaviest 1 % of users carry more
        than a quarter of ‖X‖²: PCA would be about them alone.
    source : str
        What the data are called in the report and in the recommended command.
    progress : Progress, optional
        Receives the progress, e.g. `equipoise.progress.display.ProgressBar()`; silent by default.

    Returns
    -------
    Findings
        Equal for equal input.

    Examples
    --------
    >>> from equipoise.data.synthetic import listening
    >>> found = audit(listening(n_users=200, n_items=60), rank=4)
    >>> [variant.key for variant in found.variants][:3]
    ['pca', 'normalized', 'item-weighted:0']
    >>> len(found.verdict.headlines)
    3
    """
    _check(interactions, rank, gamma, groups, k, seed)
    gamma = float(f"{gamma:g}") + 0.0  # six digits, as in the keys of the variants; no −0
    gammas = gammas_with(gamma)
    # one step for each of: preparing, PCA, Normalized PCA, Item-Weighted PCA along γ, two for the
    # choice on validation, measuring PCA and Normalized PCA, the findings
    steps = 9 + len(gammas) + len(factors)
    with task(progress, "Auditing", steps) as auditing:
        step = Steps(auditing)
        step.begin("Preparing the data")
        named = interactions if names is None else interactions.with_names(names)
        others = read_subjects(factors, named)
        asked = 1 if rank == "auto" else min(rank, named.n_items)
        depth = depth_for(named.matrix, at_least=asked)
        data = study(
            named,
            groups=groups,
            seed=seed,
            normalize=normalize,
            n_ranks=len(ranks_up_to(depth, asked)),
        )
        ours: list[Subject] = list(fit_all(data.fitted, gammas, depth, step))
        held = max(subject.depth for subject in ours)
        ranks = ranks_up_to(min(held, DEEPEST_CHOICE), min(asked, held))
        choice = choose(data, gammas, ranks, k, step)
        chosen = _chosen_rank(rank, held, choice)
        common = ranks_up_to(held, chosen.rank)
        measured: list[Measured] = []
        for subject in (*ours, *others):
            step.begin(f"Measuring {_title(subject)}")
            if subject.gamma == 0:  # PCA, which was measured first
                measured.append(replace(measured[0], subject=subject))
            else:
                measured.append(measure(subject, data, common, chosen.rank, k))
        step.begin("Writing the findings")
        settings = Settings(
            rank=chosen.rank,
            rank_chosen_by=chosen.by,
            gamma=gamma,
            k=k,
            groups=groups,
            seed=seed,
            notes=(*data.notes, *_notes(named, depth, measured)),
        )
        found = _findings(data, settings, measured, choice, source)
        auditing.advance()
        return found


def _check(interactions: Any, rank: Any, gamma: Any, groups: Any, k: Any, seed: Any) -> None:
    if not isinstance(interactions, Interactions):
        raise InvalidDataError(
            f"audit takes Interactions, got {type(interactions).__name__}. Build them with "
            "Interactions.read(path) or Interactions.from_sparse(matrix)."
        )
    if interactions.nnz == 0:
        raise InvalidDataError(
            f"there is nothing to audit: {interactions.n_users} users × {interactions.n_items} "
            "items and not one interaction. Check the input and the filters."
        )
    if rank != "auto":
        check_whole_number("rank", rank, least=1)
    if not isinstance(gamma, int | float | np.number) or not np.isfinite(gamma):
        raise InvalidParameterError(f"gamma must be a finite number, got {gamma!r}.")
    if groups not in ("interactions", "items"):
        raise InvalidParameterError(f"groups must be 'interactions' or 'items', got {groups!r}.")
    check_whole_number("k", k, least=1)
    check_whole_number("seed", seed)


class _ChosenRank(NamedTuple):
    rank: int
    by: str


def _chosen_rank(rank: int | str, held: int, choice: Choice | None) -> _ChosenRank:
    """The rank of the headline, and how it came about."""
    if rank == "auto":
        if choice is not None:
            by = "best NDCG on the validation part, over γ and rank"
            return _ChosenRank(choice.rank, by)
        fallback = min(DEFAULT_RANK, held)
        return _ChosenRank(fallback, f"no validation part to choose on, so the default {fallback}")
    asked = int(rank)
    if asked > held:
        return _ChosenRank(held, f"given as {asked}; the data hold no more than {held} components")
    return _ChosenRank(asked, "given")


def _notes(data: Interactions, depth: int, measured: Sequence[Measured]) -> list[str]:
    """What was limited or sampled, besides the preparation of the data."""
    notes = []
    if depth < data.n_items:
        notes.append(
            f"The {depth:,} leading components of each model are looked at. An item whose error "
            "they do not halve counts with all of them in a mean, which is then a lower bound."
        )
    return notes + notes_on_files([one.subject for one in measured])


def _title(subject: Subject) -> str:
    return subject.label if subject.gamma is None else f"{subject.label}, γ = {subject.gamma:g}"


def _findings(
    data: Study,
    settings: Settings,
    measured: Sequence[Measured],
    choice: Choice | None,
    source: str,
) -> Findings:
    ours = key_of(settings.gamma)
    by_key = {one.subject.key: one for one in measured}
    compared = [
        one.subject
        for one in measured
        if one.subject.kind != "item-weighted" or one.subject.key == ours
    ]
    views = [
        view_user(data, int(user), compared, settings.rank, settings.k)
        for user in pick_users(data, settings.seed)
    ]
    columns = pick_items(
        data, measured, by_key["pca"], by_key[ours], columns_of(views), settings.seed
    )
    if len(columns) < data.data.n_items:
        shown = (
            f"{len(columns):,} of {data.data.n_items:,} items are shown one by one: the most and "
            "least popular, those that change most, owners of components, those of the shown "
            "users, and a random sample. Neighbours are the nearest of these; means are over all."
        )
        settings = replace(settings, notes=(*settings.notes, shown))
    variants = tuple(
        to_variant(one, data, columns, settings.rank, N_NEIGHBOURS) for one in measured
    )
    portrait = portrait_of(data, source)
    return Findings(
        portrait=portrait,
        settings=settings,
        variants=variants,
        items=items_of(data, columns),
        users=tuple(as_positions(view, columns) for view in views),
        verdict=judge(portrait, settings, variants, choice, normalized=data.normalized),
        version=__version__,
    )
