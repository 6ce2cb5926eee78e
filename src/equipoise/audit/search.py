"""The search: every model over the same preparations of the values, on the validation part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from equipoise.audit.formatting import plain, symbol
from equipoise.audit.jobs import side_by_side
from equipoise.audit.plan import (
    ALS_RANK,
    ALS_SEARCH_ITERATIONS,
    AS_GIVEN,
    Preparation,
    als_seconds,
    ease_seconds,
    fit_seconds,
    preparations,
)
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.plan import Fit, KeptFits, expand, plan
from equipoise.evaluation.task import Task
from equipoise.evaluation.tuning import Trial, search
from equipoise.models.base import Recommender, possible_sizes
from equipoise.models.registry import find_model
from equipoise.progress import Progress
from equipoise.progress import task as progress_task

PCA, NORMALIZED, WEIGHTED, EASE, ALS = "pca", "normalized", "item-weighted", "ease", "weighted-mf"
# Item-Weighted PCA with equal weights and a power filter: the filter is not a merit of the weights.
FILTERED = "filtered-pca"
_TITLES = {FILTERED: "PCA with power filter", ALS: "ALS"}

# Preparations are compared at the first ranks; the best of each model is then tried at all, and at
# the last ones if the best is at the edge.
_FIRST_RANKS, _RANKS, _BEYOND = (8, 32), (4, 16, 64, 128), (256, 512)
_FIRST_EXPONENT, _EXPONENTS, _BEYOND_EXPONENTS = -1.0, (-0.5, -1.5), (-2.0, -2.5, -3.0)
# A model below this share of the best NDCG is not tried at larger ranks, except PCA, the reference.
_REACH = 0.9
# Ranks beyond are tried if NDCG still rose by this factor at the last one.
_RISE = 1.02
_FILTERS = {"spectral_filter": ("power",), "filter_strength": (0.5, 1.0)}

# λ of EASE relative to the mean squared norm of an item; then a step further while that is better.
_RIDGES, _MORE_RIDGES = (1.0, 3.0), {1.0: (0.3, 0.1, 0.03), 3.0: (10.0, 30.0)}
# Of ALS, from those that the registry's search has.
_ALPHAS, _PENALTIES = (1.0, 8.0), (3.0, 30.0)
# Of the time that is left: a shorter search tries ALS only where it takes no more. On MovieLens its
# three fits take longer than the rest of the search.
_ALS_SHARE = 0.25
# Settings of EASE, and of ALS, besides their preparations.
_OTHER_SETTINGS = 3

# Residual of the components of a shorter search. Compared with 1e-5, it moves NDCG at the largest
# rank of a fit by at most 0.1 % on MovieLens and Last.fm, and a fit takes a tenth less. With 1e-3,
# NDCG moves by 2 %.
_TOLERANCE = 1e-4

# Seconds per multiplication of scores, and per score to rank: one core, measured on CiteULike.
_PER_PRODUCT, _PER_SCORE = 5e-11, 2e-9


class Attempt(NamedTuple):
    """A model and a grid of its settings."""

    model: str
    grid: Mapping[str, Sequence[Any]]


class Best(NamedTuple):
    """The best trial of a model.

    Attributes
    ----------
    family : str
        Name in the registry of models, or "filtered-pca".
    settings : mapping of str to value
        Parameters that differ from the defaults, and the number of components.
    score : float
        NDCG@k on validation.
    edge : tuple of str
        Parameters whose best value is the last that was tried.
    """

    family: str
    settings: Mapping[str, Any]
    score: float
    edge: tuple[str, ...]

    @property
    def model(self) -> str:
        """Name in the registry of models."""
        return WEIGHTED if self.family == FILTERED else self.family

    @property
    def title(self) -> str:
        """Its name for people."""
        return _TITLES.get(self.family) or find_model(self.model).title

    @property
    def preparation(self) -> Preparation:
        """How rows are prepared."""
        return Preparation.of(self.settings)


@dataclass(eq=False)
class Search:
    """Tries models × preparations × settings on the validation part within a time budget.

    Attributes
    ----------
    task : Task
        The validation part.
    k : int
        Length of the lists.
    seconds : float
        The budget, by estimate; what was tried is subtracted.
    every_model : bool
        Try every model with all preparations and at the largest ranks. Otherwise user scaling is
        tried with the best transform of the values, Normalized PCA with the best preparation of the
        PCAs, EASE and ALS with it and 0/1 values, ALS with one penalty and fewer iterations, and
        larger ranks of models that are not far behind the best one.
    progress : Progress or None
        Receives the progress.
    tried : list of (str, Trial)
        All trials with the family of the model.
    left_out : dict of str to list of str
        What the budget did not allow, and of which models.
    missing : list of str
        Models that are not installed, with the command that installs them.
    """

    task: Task
    k: int
    seconds: float
    every_model: bool = True
    progress: Progress | None = None
    tried: list[tuple[str, Trial]] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    _kept: KeptFits = field(default_factory=KeptFits)
    _fit_estimates: dict[int, float] = field(default_factory=dict)

    def run(self) -> None:
        """Search: preparations first, then all else at the best of them."""
        normalized = self._compare_preparations()
        others = {EASE: self._ease, ALS: self._als}
        together = [model for model in others if self._is_cheap(model)]
        self._try_in_turn(self._pcas(normalized), *(others.pop(model)() for model in together))
        self._try_in_turn(*(chain() for chain in others.values()))

    def _is_cheap(self, model: str) -> bool:
        """Whether a model may be tried next to the PCAs, which come first where time is short."""
        settings = len(self._for_others()) + _OTHER_SETTINGS
        return settings * self._fit_seconds(model, find_model(model).make()) <= self.seconds / 4

    def _pcas(self, first: Sequence[Attempt]) -> Iterator[list[Attempt]]:
        """Yield what to try of the PCAs, step by step: `first`, then exponents, ranks, filters."""
        ranks = {"n_components": possible_sizes(self.task.n_items, _RANKS)}
        if self.every_model:
            yield from self._more_ranks(ranks)
            yield self._widen([self.best(WEIGHTED)], {"gamma": (*_EXPONENTS, _BEYOND_EXPONENTS[0])})
        else:  # a fit at the largest rank serves ranks and filters: at the best exponent only
            yield [*first, *self._widen([self.best(WEIGHTED)], {"gamma": _EXPONENTS})]
        for exponent in _BEYOND_EXPONENTS:
            if "gamma" in self.best(WEIGHTED).edge:
                yield self._widen([self.best(WEIGHTED)], {"gamma": (exponent,)})
        if not self.every_model:
            yield from self._more_ranks(ranks)
        # the same filter for equal and for unequal weights, each at its own best setting
        yield self._widen([self.best(PCA), self.best(WEIGHTED)], {**ranks, **_FILTERS})
        for size in _BEYOND:
            found = [one for one in self.best_of_all() if one.family not in (EASE, ALS)]
            at_edge = [
                one
                for one in found
                if "n_components" in one.edge
                and size <= self.task.n_items
                and (self.every_model or self._still_rises(one, found[0]))
            ]
            yield self._widen(at_edge, {"n_components": (size,)})

    def best(
        self,
        family: str,
        preparation: Preparation | None = None,
        *,
        filtered: bool = True,
        largest: int | None = None,
    ) -> Best:
        """Return the best trial of a model; of equals the first.

        Parameters
        ----------
        family : str
            The model.
        preparation : Preparation, optional
            Only trials with this preparation.
        filtered : bool
            Whether trials with a spectral filter count.
        largest : int, optional
            Only trials with at most so many components.
        """
        trials = [trial for name, trial in self.tried if name == family]
        if preparation is not None:
            trials = [t for t in trials if Preparation.of(t.settings) == preparation]
        if not filtered:
            trials = [t for t in trials if "spectral_filter" not in t.settings]
        if largest is not None:
            trials = [t for t in trials if t.settings["n_components"] <= largest]
        chosen = max(trials, key=self._score)
        edge = _edges(chosen, trials, self.task.n_items)
        return Best(family, _parameters(family, chosen), self._score(chosen), edge)

    def as_given(self) -> Best:
        """Return the best trial of PCA of values as given."""
        return self.best(PCA, AS_GIVEN)

    def best_of_all(self) -> list[Best]:
        """Return the best trial of every model, best first."""
        families = dict.fromkeys([PCA, *(name for name, _ in self.tried)])
        return sorted(map(self.best, families), key=lambda each: -each.score)

    def notes(self) -> list[str]:
        """Return what was tried and what was not, as sentences."""
        found = [
            f"{len(self.tried)} settings were tried on the validation part. Preparations are "
            "compared at ranks up to 32, then the best one of each model at larger ranks."
        ]
        if not self.every_model:
            found.append(
                "User scaling is tried with the best transform of the values, Normalized PCA with "
                "the preparation that suits PCAs best, EASE and ALS with it and with 0/1 values, "
                "ALS with one penalty and fewer iterations where it takes little time, and larger "
                "ranks where a model is within 10 % of the best one and gains 2 % by the last "
                "doubling. --depth deep tries all of them."
            )
        if self.left_out:
            parts = [f"{what}: {', '.join(models)}" for what, models in self.left_out.items()]
            found.append(f"The time budget (--budget, --depth) left out {'; '.join(parts)}.")
        if self.missing:
            found.append(f"Not tried, because it is not installed: {', '.join(self.missing)}.")
        return found

    def _leave_out(self, what: str, model: str) -> None:
        models = self.left_out.setdefault(what, [])
        if model not in models:
            models.append(model)

    def _score(self, trial: Trial) -> float:
        return trial.scores[f"ndcg@{self.k}"]

    def _compare_preparations(self) -> list[Attempt]:
        """Try the PCAs with all preparations; return what is still to be tried at the best one."""
        different = preparations(self.task.fitted)
        if self.every_model:
            self._compare(different)
            return []
        self._compare([each for each in different if not each.user_scaling])
        values = self.best(WEIGHTED).preparation.value_transform
        same = None if values == "shares" else values  # shares are scaling by 1
        self._compare(
            [one for one in different if one.user_scaling and one.value_transform == same]
        )
        chosen = _fixed(self.best(WEIGHTED).preparation._asdict())
        normalized = Attempt(NORMALIZED, {**chosen, "n_components": self._first_sizes()})
        self.seconds -= self._cost(normalized)
        return [normalized]

    def _still_rises(self, best: Best, leader: Best) -> bool:
        """Whether a model is not far behind, and its last rank was notably better than others."""
        family, rank = best.family, best.settings["n_components"]
        same = [
            trial
            for name, trial in self.tried
            if name == family
            and _parameters(family, trial) | {"n_components": rank} == best.settings
            and trial.settings["n_components"] < rank
        ]
        before = max(map(self._score, same), default=0.0)
        return best.score >= max(_REACH * leader.score, _RISE * before)

    def _first_sizes(self) -> Sequence[int]:
        return possible_sizes(self.task.n_items, _FIRST_RANKS)

    def _compare(self, different: Sequence[Preparation]) -> None:
        """Try the PCAs with these preparations of the values, until the budget is spent."""
        attempts = [] if self.tried else [Attempt("popularity", {})]
        for number, each in enumerate(different):
            grid = {**_fixed(each._asdict()), "n_components": self._first_sizes()}
            both = [Attempt(WEIGHTED, {**grid, "gamma": (0.0, _FIRST_EXPONENT)})]
            both += [Attempt(NORMALIZED, grid)] * self.every_model
            cost = sum(map(self._cost, both))
            if (self.tried or number) and cost > self.seconds:
                for left in different[number:]:
                    self._leave_out("these preparations", str(left))
                break
            self.seconds -= cost
            attempts += both
        self._try(attempts)

    def _more_ranks(self, ranks: Mapping[str, Sequence[Any]]) -> Iterator[list[Attempt]]:
        """Yield more ranks of the models that are not far behind at the first ones, or of all."""
        scores = {family: self.best(family).score for family in (PCA, NORMALIZED, WEIGHTED)}
        families, least = list(scores), _REACH * max(scores.values())
        if not self.every_model:  # the best first: the budget may end between them
            families.sort(key=lambda family: -scores[family])
        near = [one for one in families if self.every_model or scores[one] >= least]
        together = [self.as_given(), *(self.best(family) for family in near if family != PCA)]
        fewer = {"n_components": ranks["n_components"][:-1] or ranks["n_components"]}
        whole, less = (
            sum(self._cost(_around(one, each)) for one in together) for each in (ranks, fewer)
        )
        if whole > self.seconds >= less:  # all models rather than all ranks of the first one
            ranks = fewer
        prepared = self.best(PCA)
        both = [*together, prepared] if prepared != self.as_given() else together
        yield self._widen(both, ranks)

    def _widen(self, around: Iterable[Best], grid: Mapping[str, Sequence[Any]]) -> list[Attempt]:
        """Return more values around the best settings of models, as far as time allows."""
        attempts = []
        for best in around:
            attempt = _around(best, grid)
            known = [trial.settings for family, trial in self.tried if family == best.family]
            if all(one in known for one in expand(attempt.grid)):
                continue
            if not self._afford(attempt):
                values = {name: ", ".join(map(plain, each)) for name, each in grid.items()}
                axes = [
                    f"{symbol(name)} {text}"
                    for name, text in values.items()
                    if name not in _FILTERS
                ]
                axes += ["a power filter"] * (not _FILTERS.keys().isdisjoint(grid))
                self._leave_out(" with ".join(axes), best.title)
                continue
            attempts.append(attempt)
        return attempts

    def _ease(self) -> Iterator[list[Attempt]]:
        """Yield what to try of EASE, step by step."""
        first, *others = self._for_others()

        def attempt(preparation: Preparation, ridges: Iterable[float]) -> Attempt:
            """Return λ relative to the scale of these values."""
            scale = self._mean_squared_norm(preparation)
            values = tuple(float(f"{ridge * scale:.3g}") for ridge in ridges)
            return Attempt(EASE, {**_fixed(preparation._asdict()), "regularization": values})

        start = attempt(first, _RIDGES)
        if self._cost(start) / len(_RIDGES) * (len(_RIDGES) + len(others)) > self.seconds:
            self._leave_out("all settings", "EASE")
            return
        self._afford(start)
        yield [start]
        relative = dict(zip(start.grid["regularization"], _RIDGES, strict=True))
        best = relative[self._ridge()]
        for further in _MORE_RIDGES.get(best, ()):
            step = attempt(first, [further])
            if not self._afford(step):
                break
            yield [step]
            if self._ridge() not in step.grid["regularization"]:
                break
            best = further
        yield list(filter(self._afford, (attempt(one, [best]) for one in others)))
        if self.every_model:
            scaled = self._scaled(self.best(EASE).preparation)
            yield list(filter(self._afford, (attempt(one, [best]) for one in scaled)))

    def _ridge(self) -> float:
        """Return the best λ of EASE so far."""
        trials = [trial for family, trial in self.tried if family == EASE]
        return float(max(trials, key=self._score).settings["regularization"])

    def _als(self) -> Iterator[list[Attempt]]:
        """Yield what to try of ALS, step by step."""
        entry = find_model(ALS)
        if not entry.installed:
            self.missing.append(f"ALS ({entry.install_command})")
            return
        first, *others = self._for_others()

        def around(steps: Iterable[Mapping[str, Sequence[Any]]]) -> list[Attempt]:
            """Return these values at the best setting, as far as time allows."""
            best = _fixed(self.best(ALS).settings)
            wanted = [Attempt(ALS, {**best, **step}) for step in steps]
            affordable = list(filter(self._afford, wanted))
            if len(affordable) < len(wanted):
                self._leave_out("more settings", "ALS")
            return affordable

        rank = min(ALS_RANK, self.task.n_items)
        grid = {"n_components": (rank,), "regularization": (10.0,), **_fixed(first._asdict())}
        start = Attempt(ALS, {**grid, "alpha": _ALPHAS})
        whole = self._cost(start) / len(_ALPHAS) * (len(_ALPHAS) + len(others))
        if whole > self.seconds * (1.0 if self.every_model else _ALS_SHARE):
            self._leave_out("all settings", "ALS")
            return
        self._afford(start)
        yield [start]
        yield around(_fixed(one._asdict()) for one in others)
        if self.every_model:
            scaled = self._scaled(self.best(ALS).preparation)
            yield around(_fixed(one._asdict()) for one in scaled)
            yield around([{"regularization": _PENALTIES}])

    def _for_others(self) -> list[Preparation]:
        """Return what EASE and ALS try: all unscaled preparations, or 0/1 and the PCAs' best."""
        unscaled = self._unscaled()
        if self.every_model:
            return unscaled
        best = max((self.best(one, filtered=False) for one in (PCA, WEIGHTED)), key=_score_of)
        return list(dict.fromkeys([unscaled[0], best.preparation]))

    def _unscaled(self) -> list[Preparation]:
        """Return the preparations without user scaling that were tried, 0/1 values first."""
        found = [each for each in self._prepared() if not each.user_scaling]
        return sorted(found, key=lambda each: each.value_transform != "binary")

    def _scaled(self, unscaled: Preparation) -> list[Preparation]:
        """Return those that were tried with the same values and user scaling."""
        return [
            each
            for each in self._prepared()
            if each.user_scaling and each.value_transform == unscaled.value_transform
        ]

    def _prepared(self) -> list[Preparation]:
        """Return the preparations that were tried."""
        return list(dict.fromkeys(Preparation.of(trial.settings) for _, trial in self.tried))

    def _mean_squared_norm(self, preparation: Preparation) -> float:
        model = find_model(EASE).make(**preparation._asdict())
        squares = self.task.fitted.prepared(model.preprocess).popularity("norm") ** 2
        return float(squares[squares > 0].mean())

    def _try_in_turn(self, *chains: Iterator[list[Attempt]]) -> None:
        """Try the next step of every chain together, until all have ended."""
        while chains:
            steps = [next(chain, None) for chain in chains]
            chains = tuple(c for c, step in zip(chains, steps, strict=True) if step is not None)
            self._try([attempt for step in steps for attempt in step or ()])

    def _try(self, attempts: Sequence[Attempt]) -> None:
        """Fit and score, a few at a time; results do not depend on how many."""
        fits = [(one.model, fit) for one in attempts for fit in self._fits(one)]
        jobs = [partial(self._trials, model, fit, self._kept.branch()) for model, fit in fits]
        dense = any(model == EASE for model, _ in fits)
        with (
            progress_task(self.progress, "Trying settings", len(fits)) as trying,
            closing(side_by_side(jobs, self.task.fitted, dense=dense)) as results,
        ):
            for (model, _), (trials, kept) in zip(fits, results, strict=True):
                self._kept.join(kept)
                self.tried += [(_family(model, trial), trial) for trial in trials]
                trying.note(f"{max(map(self._score, trials)):.4f} with {find_model(model).title}")
                trying.advance()

    def _trials(self, model: str, fit: Fit, kept: KeptFits) -> tuple[list[Trial], KeptFits]:
        goal = Goal.parse(f"ndcg@{self.k}", None, (), self.k)
        grid = [_fixed(one) for one in fit.settings]
        trials, complete = search(self.task, self._searched(model), grid, goal, kept=kept)
        if not complete:  # in one thread, an interruption reaches the search itself
            raise KeyboardInterrupt
        return trials, kept

    def _fits(self, attempt: Attempt) -> list[Fit]:
        return plan({attempt.model: self._searched(attempt.model)}, attempt.grid, self.task.n_items)

    def _searched(self, model: str) -> Recommender:
        """Return the unfitted model of a search."""
        searched: Recommender = find_model(model).make().for_search()
        if not self.every_model:
            if model == ALS:
                searched.set_params(iterations=ALS_SEARCH_ITERATIONS)
            elif model in (PCA, NORMALIZED, WEIGHTED):
                searched.set_params(tol=_TOLERANCE)
        return searched

    def _afford(self, attempt: Attempt) -> bool:
        """Take the cost of an attempt from the budget, if that is large enough."""
        cost = self._cost(attempt)
        if cost > self.seconds:
            return False
        self.seconds -= cost
        return True

    def _cost(self, attempt: Attempt) -> float:
        """Estimate the seconds of a grid; fits that are kept cost only their lists."""
        return sum(
            (0.0 if self._kept.find(fit.model) else self._fit_seconds(attempt.model, fit.model))
            + self._list_seconds(fit)
            for fit in self._fits(attempt)
            if isinstance(fit.model, Recommender)
        )

    def _fit_seconds(self, model: str, unfitted: Recommender) -> float:
        if model == EASE:
            return ease_seconds(self.task.fitted)
        if model == ALS:
            return als_seconds(self.task.fitted)
        size = unfitted.get_params().get("n_components", 0)
        if size and size not in self._fit_estimates:
            (self._fit_estimates[size],) = fit_seconds(self.task.fitted, [size])
        return self._fit_estimates.get(size, 0.0)

    def _list_seconds(self, fit: Fit) -> float:
        scores = self.task.seen.n_users * self.task.n_items
        rank = max(int(one.get("n_components", 1)) for one in fit.settings)
        return scores * (rank * _PER_PRODUCT + len(fit.settings) * _PER_SCORE)


def _around(best: Best, grid: Mapping[str, Sequence[Any]]) -> Attempt:
    """Return more values around the best settings of a model."""
    settings, model = dict(best.settings), best.model
    if best.family == PCA:  # one eigenproblem serves both, and more settings
        model, settings["gamma"] = WEIGHTED, 0.0
    return Attempt(model, {**_fixed(settings), **grid})


def _score_of(best: Best) -> float:
    return best.score


def _fixed(settings: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    return {name: (value,) for name, value in settings.items()}


def _family(model: str, trial: Trial) -> str:
    """Return what a trial is: Item-Weighted PCA with equal weights is PCA."""
    if model != WEIGHTED or trial.settings.get("gamma") != 0:
        return model
    return FILTERED if "spectral_filter" in trial.settings else PCA


def _parameters(family: str, trial: Trial) -> dict[str, Any]:
    """Return the parameters of a trial that differ from the model's defaults, and its size."""
    default = find_model(Best(family, {}, 0.0, ()).model).make().get_params(deep=False)
    always = ("n_components", "gamma")
    return {
        name: value
        for name, value in trial.settings.items()
        if name in default and (name in always or value != default[name])
    }


def _edges(chosen: Trial, trials: Iterable[Trial], n_items: int) -> tuple[str, ...]:
    """Return the numbers whose chosen value is the last that was tried, but for natural limits."""
    found = []
    for name in ("n_components", "gamma", "regularization", "alpha"):
        value = chosen.settings.get(name)
        compared = [t for t in trials if name in t.settings]
        if name == "regularization":  # its scale is that of the values
            own = Preparation.of(chosen.settings)
            compared = [t for t in compared if Preparation.of(t.settings) == own]
        values = {t.settings[name] for t in compared}
        if len(values) < 2 or value is None:
            continue
        ends = {"n_components": {max(values)} - {n_items}, "gamma": {min(values)}}
        if value in ends.get(name, {min(values), max(values)}):
            found.append(name)
    return tuple(found)
