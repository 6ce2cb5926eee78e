"""The advice: a better model, or lists re-ranked for more long-tail items; calls that apply it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Advice, Entry, Findings, Mitigation
from equipoise.audit.formatting import plain
from equipoise.audit.means import mean_intervals
from equipoise.audit.measure import Measured, list_users
from equipoise.audit.models.audited import AuditedModel
from equipoise.audit.plan import Depth
from equipoise.evaluation.task import Task
from equipoise.exceptions import InfeasibleError
from equipoise.metrics import average_tail_share, ndcg_at_k, popularity_groups
from equipoise.models.registry import find_model
from equipoise.reranking import Candidates, ItemContext, make_reranker
from equipoise.reranking.reranked import new_lists

# Name of data without a name.
UNNAMED = "interactions"

# Command-line options of parameters that have another name there.
_OPTIONS = {"n_components": "rank", "gamma": "gamma", "rerank": "rerank"}


def advise(
    contest: Sequence[Entry],
    subject: Entry,
    *,
    better: bool,
    source: str,
    data_options: Mapping[str, Any],
    check: Mapping[str, Any],
) -> Advice:
    """Return the winner on validation, or the subject if the winner is not better beyond chance.

    Parameters
    ----------
    contest : sequence of Entry
        Our models, best on validation first; empty without a validation part.
    subject : Entry
        The audited model, with its score on held-out items if it has not seen them.
    better : bool
        Whether the first of the contest is better than the subject beyond chance.
    source, data_options, check
        As in `Advice`.
    """
    keep = not contest or (not better and contest[0].gain is not None)
    chosen = subject if keep else contest[0]
    return Advice(
        "" if chosen.model.startswith("given:") else chosen.model,
        chosen.settings,
        source,
        data_options,
        keep=keep,
        score=chosen.test,
        gain=None if keep else chosen.gain,
        edge=() if keep else chosen.edge,
        check=check,
    )


def python_call(advice: Advice) -> str:
    """Return the call that fits the advised model on `interactions`; empty to keep a given one.

    Examples
    --------
    >>> settings = {"n_components": 8, "gamma": -1.0, "value_transform": "binary"}
    >>> options = {"min_items_per_user": 5}
    >>> print(python_call(Advice("item-weighted", settings, "plays.csv", options)))
    ItemWeightedPCA(n_components=8, gamma=-1.0, value_transform='binary').fit(
        interactions.filter(min_items_per_user=5)
    )
    """
    if not advice.model:
        return ""
    options = advice.data_options
    limits = [n for n in ("min_users_per_item", "min_items_per_user") if options.get(n)]
    data = "interactions"
    if limits:
        data += f".filter({', '.join(f'{name}={options[name]}' for name in limits)})"
    data += "".join(f".{n}()" for n in ("binarize", "normalize_rows") if options.get(n))
    parameters = ", ".join(f"{name}={value!r}" for name, value in advice.settings.items())
    call = f"{type(find_model(advice.model).make()).__name__}({parameters}).fit("
    return f"{call}{data})" if len(call + data) < 80 else f"{call}\n    {data}\n)"


def command(advice: Advice) -> str:
    """Return the command that reads the data as the audit did, and fits and saves the model.

    Examples
    --------
    >>> settings = {"n_components": 8, "gamma": -1.0, "value_transform": "binary"}
    >>> command(Advice("item-weighted", settings, "plays.csv", {}))
    'equipoise fit plays.csv --rank 8 --gamma -1 --set value_transform=binary --out model.eqp'
    """
    if not advice.model:
        return ""
    model = [] if advice.model == "item-weighted" else ["--model", advice.model]
    words = [word for name, value in advice.settings.items() for word in _parameter(name, value)]
    return _call("fit", advice, *model, *words, "--out model.eqp")


def rerank_command(found: Findings) -> str:
    """Return the command that re-ranks the kept model's lists; empty if none is offered.

    The lists of a given model are expected in lists.csv.
    """
    offer, advice = found.mitigation, found.advice
    if isinstance(offer, str) or not advice.keep:
        return ""
    verb = "recommend model.eqp" if advice.model else "rerank lists.csv"
    return _call(verb, advice, f"--rerank {offer.spec} -k {offer.k} --out reranked.csv")


def check_command(advice: Advice) -> str:
    """Return the command that measures the advised model on held-out items again.

    Examples
    --------
    >>> settings, check = {"n_components": 8}, {"seed": 0, "metrics": "ndcg"}
    >>> check_command(Advice("pca", settings, "plays.csv", {}, check=check))
    'equipoise evaluate plays.csv --models pca --grid n_components=8 --seed 0 --metrics ndcg'
    """
    if not advice.model or not advice.check:
        return ""
    grid = [f"--grid {name}={plain(value)}" for name, value in advice.settings.items()]
    return _call("evaluate", advice, "--models", advice.model, *grid, *_options(advice.check))


def _parameter(name: str, value: Any) -> list[str]:
    if name in _OPTIONS:
        return [f"--{_OPTIONS[name]}", plain(value)]
    return ["--set", shlex.quote(f"{name}={plain(value)}")]


def _options(values: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command."""
    words = []
    for name, value in values.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}" if len(flag) > 1 else f"-{flag}", shlex.quote(str(value))]
    return words


def _call(verb: str, advice: Advice, *words: str) -> str:
    """Return a command that reads the data as the audit did; DATA if they have no address.

    Examples
    --------
    >>> [_call("fit", Advice("pca", {}, source, {})) for source in ("my plays.csv", "example data")]
    ["equipoise fit 'my plays.csv'", 'equipoise fit DATA']
    """
    source = advice.source
    described = source == UNNAMED or (" " in source and not set(source) & set("./\\:*"))
    data = "DATA" if described else shlex.quote(source)
    return " ".join(["equipoise", verb, data, *_options(advice.data_options), *words])


# Candidates per user, and the most users to choose on. Re-ranking needs no retraining and no
# scores: longer lists of the model are enough. A setting is chosen on half of the tested users, at
# most 500, and measured on the others.
_POOL, _CHOOSING = 100, 500
_NOT_OFFERED = "No re-ranking is offered"
SPECS = (
    *(f"xquad:{strength},form=smooth" for strength in (0.1, 0.2, 0.3, 0.5)),
    *(f"fair:{share}" for share in (0.2, 0.3, 0.4, 0.6)),
)
# They solve linear programs, which take longer than all others together.
_EXPOSURE_SPECS = (
    *(f"exposure:{floor}" for floor in (0.5, 0.75, 1.0)),
    *(f"exposure:{floor},target=items" for floor in (0.4, 0.6, 0.8)),
)


def mitigation(
    subject: Measured, test: Task | None, k: int, seed: int, depth: Depth
) -> Mitigation | str:
    """Return what re-ranking would change for the subject, or why that is not known."""
    tested = subject.subject.tested
    if depth == "quick":
        return f"{_NOT_OFFERED}: depth quick measures none."
    if test is None or tested is None:
        return f"{_NOT_OFFERED}: {subject.subject.no_accuracy or 'nothing could be held out'}."
    specs = (*SPECS, *_EXPOSURE_SPECS) if depth == "deep" else SPECS
    return best_mitigation(tested, test, subject.size, k, seed, specs=specs)


def best_mitigation(
    model: AuditedModel,
    task: Task,
    size: int,
    k: int,
    seed: int,
    *,
    specs: Sequence[str] = (*SPECS, *_EXPOSURE_SPECS),
    fewest_users: int = 100,
    budget: float = 0.05,
) -> Mitigation | str:
    """Return the re-ranking with most long-tail items at a small loss, or why none is offered.

    Parameters
    ----------
    model : AuditedModel
        It did not see the held-out items.
    task : Task
        The users with held-out items.
    size : int
        Number of components of the model.
    k : int
        Length of the lists.
    seed : int
        Draws the users to choose on, and the intervals.
    specs : sequence of str
        The re-rankings to choose from.
    fewest_users : int
        Users with held-out items that are needed: with fewer than 50 in each half, intervals are
        too wide to state anything.
    budget : float
        The share of NDCG that may be lost.
    """
    (lists,) = list_users(model, task, [size], max(k, _POOL))
    held_out = task.held_out.collect().matrix
    users = np.flatnonzero(np.diff(held_out.indptr) > 0)
    if len(users) < fewest_users:
        return f"{_NOT_OFFERED}: fewer than {fewest_users} users have held-out items."
    longest = int((lists[users] >= 0).sum(axis=1).max())
    if longest <= k:
        return (
            f"{_NOT_OFFERED}: the lists have {longest} items. It needs longer ones, e.g. {_POOL}."
        )
    profiles = task.seen.collect().matrix
    order = np.random.default_rng(seed).permutation(len(users))
    first = order < min(_CHOOSING, len(users) // 2)
    context = ItemContext(task.popularity, popularity_groups(task.popularity, "head80"))
    # only the order of the model is known, so relevance falls evenly with the place
    places = np.where(lists >= 0, -np.arange(lists.shape[1], dtype=np.float64), np.nan)
    choosing, measuring = (
        _Part(Candidates(lists[part], places[part], profiles[part]), held_out[part], context, k)
        for part in (users[first], users[~first])
    )
    plain = choosing.scores(choosing.candidates.items[:, :k])
    tried = {spec: choosing.reranked(spec) for spec in specs}
    within = {
        spec: float(np.nanmean(found[1]))
        for spec, found in tried.items()
        if found is not None and np.nanmean(found[0]) >= (1 - budget) * np.nanmean(plain[0])
    }
    spec = max(within, key=within.__getitem__, default="")
    after = measuring.reranked(spec) if spec else None
    if after is not None:
        before = measuring.scores(measuring.candidates.items[:, :k])
        moves = [new - old for new, old in zip(after, before, strict=True)]
        ndcg, tail = mean_intervals(moves, seed)
        means = [float(np.nanmean(each)) for each in before]
        if tail.low > 0:
            return Mitigation(spec, len(specs), tail, means[1], ndcg, means[0], k)
    return (
        f"{_NOT_OFFERED}: none of {len(specs)} that were tried shows more long-tail items beyond "
        f"chance for at most {budget:.0%} of NDCG@{k}."
    )


class _Part(NamedTuple):
    """The lists of some of the users, and what they held out."""

    candidates: Candidates
    held_out: sp.csr_array
    context: ItemContext
    k: int

    def reranked(self, spec: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return NDCG and tail share per user; None if floors cannot be met."""
        method, context = make_reranker(spec), self.context
        try:
            if method.learns:
                learned = method.learn(lambda: [self.candidates], context)
                context = replace(context, learned=learned)
        except InfeasibleError:
            return None
        length = min(self.k, self.candidates.items.shape[1])
        order = method.rerank(self.candidates, length, context)
        return self.scores(new_lists(self.candidates, order).ids)

    def scores(self, lists: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return NDCG and tail share per user."""
        ndcg = ndcg_at_k(lists, self.held_out, self.k).per_user
        return np.asarray(ndcg), np.asarray(average_tail_share(lists, self.context.groups).per_user)
