"""`audit`: from interactions, and optionally other models, to `Findings`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from equipoise import __version__, defaults
from equipoise.audit import group_section
from equipoise.audit.advice import UNNAMED, advise, mitigation
from equipoise.audit.dossier.manifest import manifest
from equipoise.audit.evidence import better, structure, weigh
from equipoise.audit.findings import Entry, Findings, Floats, Settings
from equipoise.audit.formatting import NOTES, plain
from equipoise.audit.jobs import side_by_side
from equipoise.audit.means import mean_intervals
from equipoise.audit.measure import (
    Measured,
    Subject,
    accuracy,
    measure,
    own_metrics,
    to_variant,
)
from equipoise.audit.models.audited import AuditedModel, Projection
from equipoise.audit.models.given import audited, notes_on, read_models, with_preparation
from equipoise.audit.plan import (
    AS_GIVEN,
    DEPTHS,
    EFFORTS,
    Depth,
    Effort,
    Preparation,
    Study,
    depth_for,
    prepare,
    summarize,
)
from equipoise.audit.sampling import columns_of, items_of, pick_items, view_users
from equipoise.audit.search import NORMALIZED, PCA, WEIGHTED, Best, Search
from equipoise.checks import check_choice, check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.plan import covers, variant_of
from equipoise.evaluation.task import Task
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.intervals import Interval
from equipoise.metrics.metric import Metric
from equipoise.models.base import Recommender
from equipoise.models.registry import find_model
from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress
from equipoise.progress import task as progress_task

# Where nothing can be held out to choose on.
_DEFAULT_RANK, _DEFAULT_GAMMA = 32, -1.0
_SIZE, _EXPONENT = "n_components", "gamma"

_SAW = "it saw the held-out items"


def audit(
    data: Interactions | Split,
    *,
    models: Mapping[str, Any] | Sequence[Any] = (),
    names: Any = None,
    rank: int | Literal["auto"] = defaults.AUDIT_RANK,
    k: int = defaults.MEASURED_K,
    groups: Literal["interactions", "items"] = defaults.GROUPS,
    item_groups: Groups | None = None,
    user_groups: Groups | None = None,
    more_metrics: Sequence[str | Metric] = (),
    seed: int = defaults.SEED,
    depth: Depth = defaults.AUDIT_DEPTH,
    budget: float | None = None,
    source: str = UNNAMED,
    data_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Find which items a model fails, which it memorizes, and which model is better.

    The audited model is the first of `models`, or else PCA. PCA, Normalized PCA, Item-Weighted
    PCA, Popularity and, if time allows, EASE are each chosen on a validation part over the same
    preparations of the values: as given, 0/1, log(1 + x), shares of the row, user scaling. All
    models are measured on the same rows. A finding is stated only if it exceeds what shuffled data
    with as many users per item and items per user give.

    Parameters
    ----------
    data : Interactions or Split
        Users × items, in memory, on disk or on a cluster; the findings are the same. Of a Split,
        given models are taken as fitted on the training part.
    models : mapping of label to model, or sequence of models
        Models of your own to audit. A fitted model of this or another package; any object with
        `item_factors` (implicit) or `components_` (scikit-learn); item factors as an array (items
        are rows or columns), a table with a column `item`, or a PyTorch module or state dict; an
        item × item matrix; lists as a table with columns user, item, and rank or score;
        `Embeddings` for vectors with ids, and for user vectors; or a file of one of these.
    names : mapping, table or path, optional
        Names of the items; see `Interactions.with_names`.
    rank : int or "auto"
        Number of components of PCA as the audited model; "auto" takes the best on validation, or
        that of the first given model.
    k : int
        Length of recommended lists.
    groups : {"interactions", "items"}
        The rule of the popularity groups; see `equipoise.metrics.popularity_groups`. Popularity
        is the number of users.
    item_groups, user_groups : Groups, optional
        Groups of items and of users to report on; by default popularity and activity.
    more_metrics : sequence of str or Metric
        Further metrics of lists, by name (``"epc"``, ``"map@10"``) or as objects. Names may be
        those of other packages.
    seed : int
        Of the hold-out, of every sample and of the bootstrap.
    depth : {"quick", "standard", "deep"}
        How much is computed: sizes, samples, components, time of the search.
    budget : float, optional
        Seconds for the search for better models, by estimate, instead of those of `depth`. With 0,
        only values as given are tried, at two ranks.
    source : str
        Name of the data in the report and in the recommended command.
    data_options : mapping of str to value, optional
        How the data were read, for the recommended calls: names and values of command-line
        options, e.g. ``{"min_items_per_user": 5, "binarize": True}``.
    progress : Progress, optional
        Receives the progress, e.g. `equipoise.progress.display.ProgressBar()`; silent by default.

    Returns
    -------
    Findings
        Equal for equal input.

    Examples
    --------
    >>> from equipoise.data.synthetic import listening
    >>> found = audit(listening(n_users=200, n_items=60), depth="quick")
    >>> found.subject.label
    'PCA, values as given'
    """
    data = data if isinstance(data, Split) else Interactions.accept(data)
    _check(data, rank, groups, k, seed, depth, budget)
    own = own_metrics(more_metrics, k)
    effort = EFFORTS[depth]
    if budget is not None:
        effort = effort._replace(search_seconds=float(budget))
    # models run side by side on one BLAS thread each: two BLAS threads mostly wait for each other
    with one_blas_thread(), progress_task(progress, "Auditing", 5 + len(models)) as auditing:
        step = _Steps(auditing)
        step.begin("Preparing the data")
        whole = data.train if isinstance(data, Split) else data
        named = whole if names is None else whole.with_names(names)
        given = read_models(models, named)
        if isinstance(data, Interactions):
            data = named
        study = prepare(
            data,
            models_given=bool(given),
            groups=groups,
            seed=seed,
            effort=effort,
            n_sizes=len(effort.sizes) + 2,
        )
        given = [with_preparation(each, study.fitted) for each in given]
        step.begin("Choosing models and settings on the validation part")
        search = _search(study, k, effort, auditing)
        chosen = _choose(search, study, given, rank, effort)
        step.begin("Fitting the models to measure")
        subjects, fits = _subjects(study, chosen, given)
        sizes = _sizes(subjects, effort)
        numbers = partial(measure, study=study, common=sizes, k=k, seed=seed, own=own)
        ours = [one for one in subjects if one.model not in given]
        measured = _measure_ours(ours, numbers, study.fitted)
        for each in subjects[len(measured) :]:
            step.begin(f"Measuring {each.model.label}")
            measured.append(numbers(each))
        step.begin("Testing the models, and comparing with shuffled data")
        found_best = [] if search is None else search.best_of_all()
        jobs: list[Callable[[], Any]] = [
            partial(structure, study, seed),
            partial(mitigation, _subject(measured), study.test, k, seed, depth),
            *(partial(_tested, best, study.test, measured, fits, chosen, k) for best in found_best),
        ]
        chance, offer, *tested = side_by_side(jobs, study.fitted)
        contest = _contest(found_best, tested, measured, seed)
        step.begin("Writing the findings")
        settings = Settings(
            audited={_SIZE: _weighted(measured, chosen).size, _EXPONENT: chosen.exponent},
            size_parameter=_SIZE,
            size_chosen_by=chosen.by,
            preparation=str(chosen.preparation),
            k=k,
            groups=groups,
            seed=seed,
            depth=depth,
            metrics={one.metric.name: one.label for one in own},
            notes=(*study.notes, *_notes(search, chosen, study, measured)),
        )
        found = _findings(
            study,
            settings,
            measured,
            chosen,
            contest,
            chance,
            source,
            dict(data_options or {}),
            own_split=isinstance(data, Split),
        )
        compared = [one for one in measured if one.model.key in found.keys]
        items, users = group_section.measure(study, compared, item_groups, user_groups, seed)
        if item_groups is not None and depth != "quick":
            auditing.note("Prices of floors")
            prepared = chosen.preparation.settings()
            items = group_section.with_prices(items, item_groups, study, settings.audited, prepared)
        found = replace(found, groups=(items, users), mitigation=offer)
        found = replace(found, manifest=manifest(data, found))
        auditing.advance()
        return found


class _Steps:
    """The steps of an audit; each ends when the next one begins."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._begun = False

    def begin(self, name: str) -> None:
        """Name the next step; the one before is done."""
        if self._begun:
            self.progress.advance()
        self._begun = True
        self.progress.note(name)


def _check(data: Any, rank: Any, groups: Any, k: Any, seed: Any, depth: Any, budget: Any) -> None:
    if not isinstance(data, Interactions | Split):
        raise InvalidDataError(
            f"audit takes Interactions or a Split, got {type(data).__name__}. Build them with "
            "Interactions.read(path) or Interactions.from_sparse(matrix)."
        )
    whole = data.train if isinstance(data, Split) else data
    if whole.nnz == 0:
        raise InvalidDataError(
            f"there is nothing to audit: {whole.n_users} users × {whole.n_items} "
            "items without any interaction. Check the input and the filters."
        )
    if rank != "auto":
        check_whole_number("rank", rank, least=1)
    check_choice("groups", groups, ("interactions", "items"))
    check_whole_number("k", k, least=1)
    check_whole_number("seed", seed)
    check_choice("depth", depth, DEPTHS)
    if budget is not None and not (isinstance(budget, int | float) and budget >= 0):
        raise InvalidParameterError(f"budget must be a number of seconds, got {budget!r}.")


def _search(study: Study, k: int, effort: Effort, progress: Progress) -> Search | None:
    """Try all models on the validation part; None without one."""
    if study.validation is None:
        return None
    search = Search(study.validation, k, effort.search_seconds, effort.every_model, progress)
    search.run()
    return search


@dataclass(frozen=True)
class _Chosen:
    """What is measured.

    Attributes
    ----------
    preparation : Preparation
        Of the rows of the compared PCAs: that of the best Item-Weighted PCA.
    size, exponent : int, float
        Of the best Item-Weighted PCA.
    reference : int
        Rank of PCA of values as given.
    by : str
        How the size was chosen.
    exponents : tuple of float
        Exponents that are measured.
    depth : int
        Number of components that are computed.
    winner : Best or None
        The best model on validation; None without a validation part.
    """

    preparation: Preparation
    size: int
    exponent: float
    reference: int
    by: str
    exponents: tuple[float, ...]
    depth: int
    winner: Best | None

    @property
    def in_family(self) -> bool:
        """Whether the winner is one of the PCAs that are measured anyway."""
        if self.winner is None:
            return True
        if self.winner.settings.get(_SIZE, 0) > self.depth:
            return False
        own = self.winner.preparation in (self.preparation, AS_GIVEN)
        plain_filter = "spectral_filter" not in self.winner.settings
        return plain_filter and (
            (self.winner.model == PCA and own)
            or (
                self.winner.model in (NORMALIZED, WEIGHTED)
                and self.winner.preparation == self.preparation
            )
        )


def _choose(
    search: Search | None,
    study: Study,
    given: Sequence[AuditedModel],
    rank: int | str,
    effort: Effort,
) -> _Chosen:
    n_items = study.data.n_items
    ranked = [model.depth for model in given if model.depth < n_items]
    if search is None:
        best = _DEFAULT_RANK if rank == "auto" else int(rank)
        preparation, size, exponent, winner = AS_GIVEN, min(best, n_items), _DEFAULT_GAMMA, None
        reference, by = size, "the defaults, as there is no validation part to choose on"
    else:
        # charts are of all ranks, unfiltered; a winner of a larger rank is fitted on its own
        best_weighted = search.best(WEIGHTED, filtered=False, largest=effort.components)
        preparation = best_weighted.preparation
        size = int(best_weighted.settings[_SIZE])
        exponent = float(best_weighted.settings[_EXPONENT])
        reference = int(search.as_given().settings[_SIZE])
        winner, by = search.best_of_all()[0], "the best of them on the validation part"
    if ranked:
        reference = ranked[0]
    if rank != "auto":
        reference = int(rank)
    needed = {min(n_items, each) for each in (size, reference, *ranked)}
    depth = depth_for(study.fitted, at_least=max(needed), effort=effort)
    exponents = tuple(sorted({*effort.exponents, exponent}, reverse=True))
    return _Chosen(preparation, size, exponent, min(reference, depth), by, exponents, depth, winner)


def _subjects(
    study: Study, chosen: _Chosen, given: Sequence[AuditedModel]
) -> tuple[list[Subject], _Fits]:
    """Fit our models on the rows of the given ones, and without the held-out items.

    Returns the models to measure, and the fits without the held-out items.
    """
    fits = _Fits(study.fitted)
    fitted = _family(fits, chosen)
    tested: Sequence[AuditedModel | None]
    if study.test is None:
        tested = [None] * len(fitted)
    elif study.given_are_tested:
        tested = fitted
    else:
        fits = _Fits(study.test.fitted)
        tested = _family(fits, chosen)
    nothing = "" if study.test is not None else "nothing could be held out"
    ours = [
        Subject(model, other, _size_of(model, chosen), nothing)
        for model, other in zip(fitted, tested, strict=True)
    ]
    saw = nothing or ("" if study.given_are_tested else _SAW)
    theirs = [Subject(model, None if saw else model, model.depth, saw) for model in given]
    return ours + theirs, fits


def _size_of(model: AuditedModel, chosen: _Chosen) -> int:
    if model.kind == "advised":
        return model.depth
    is_reference = model.kind == "as-given" or (
        model.kind == PCA and chosen.preparation == AS_GIVEN
    )
    size = chosen.reference if is_reference else chosen.size
    winner = chosen.winner
    if winner is not None and chosen.in_family and winner.model == model.kind:
        same = Preparation.of(model.settings) == winner.preparation
        if same and not is_reference:
            size = int(winner.settings[_SIZE])
    return min(size, model.depth)


class _Fit(NamedTuple):
    """A model to fit: key, kind, label and settings of the variant, its model, and the size."""

    key: str
    kind: str
    label: str
    settings: dict[str, Any]
    model: str
    size: dict[str, int]

    def audited(self, fits: _Fits) -> AuditedModel:
        model = fits.get(self.model, {**self.settings, **self.size})
        return replace(
            audited(model),
            key=self.key,
            label=self.label,
            kind=self.kind,
            settings=self.settings,
            given=self.kind == "advised",  # at its own rank only, as a given model
        )


class _Fits:
    """Fits on the same rows. One serves every smaller size and every filter."""

    def __init__(self, rows: Interactions) -> None:
        self.rows = rows
        self._fitted: list[Recommender] = []

    def add(self, wanted: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Fit models with their settings next to each other, and keep them."""
        missing: list[Recommender] = []
        # the largest first: it serves smaller ones, and the others fill the time next to it
        largest = sorted(wanted, key=lambda one: -one[1].get(_SIZE, 0))
        for one in itertools.starmap(self._unfitted, largest):
            if not any(covers(other, one) for other in (*self._fitted, *missing)):
                missing.append(one)
        jobs = [partial(one.fit, self.rows) for one in missing]
        self._fitted += side_by_side(jobs, self.rows)

    def get(self, name: str, settings: Mapping[str, Any]) -> Recommender:
        """Return a model, from a fit that is kept if one serves it."""
        wanted = self._unfitted(name, settings)
        found = next((one for one in self._fitted if covers(one, wanted)), None)
        return wanted.fit(self.rows) if found is None else variant_of(found, wanted)

    def _unfitted(self, name: str, settings: Mapping[str, Any]) -> Recommender:
        if name == PCA:  # Item-Weighted PCA with equal weights, whose fit also serves filters
            name, settings = WEIGHTED, {**settings, _EXPONENT: 0.0}
        return find_model(name).make(**settings)


def _family(fits: _Fits, chosen: _Chosen) -> list[AuditedModel]:
    """Fit the PCAs at full depth, and the winner if it is none of them."""
    prepared = chosen.preparation.settings()
    suffix = f", {chosen.preparation}" if chosen.preparation != AS_GIVEN else ""
    depth = {_SIZE: chosen.depth}
    plans: list[_Fit] = []
    title = find_model(WEIGHTED).title + suffix
    exponents = (0.0, *(each for each in chosen.exponents if each != 0))
    for exponent in exponents:
        settings = {**prepared, _EXPONENT: exponent}
        key = f"{WEIGHTED}:{plain(exponent)}"
        plans.append(_Fit(key, WEIGHTED, title, settings, WEIGHTED, depth))
    title = find_model(NORMALIZED).title + suffix
    plans.append(_Fit(NORMALIZED, NORMALIZED, title, prepared, NORMALIZED, depth))
    if suffix:
        title = f"{find_model(PCA).title}, {AS_GIVEN}"
        plans.append(_Fit("as-given", "as-given", title, {}, PCA, depth))
    winner = chosen.winner
    if winner is not None and not chosen.in_family:
        settings, details = dict(winner.settings), []
        if "spectral_filter" in settings and winner.family == WEIGHTED:
            details.append(f"{settings['spectral_filter']} filter")
        if settings.get(_SIZE, 0) > chosen.depth:
            details.append(f"rank {settings[_SIZE]}")  # there is the same model at smaller ones
        if details or winner.preparation != AS_GIVEN:
            details.insert(0, str(winner.preparation))
        title = ", ".join([winner.title, *details])
        own_depth = {_SIZE: settings.pop(_SIZE)} if _SIZE in settings else {}
        plans.append(_Fit("advised", "advised", title, settings, winner.model, own_depth))

    fits.add((one.model, {**one.settings, **one.size}) for one in plans)
    fitted = [one.audited(fits) for one in plans]
    first, *weighted = fitted[: len(exponents)]
    pca = replace(first, key=PCA, kind=PCA, label=find_model(PCA).title + suffix, settings=prepared)
    normalized, *others = fitted[len(exponents) :]
    return [pca, normalized, first, *weighted, *others]


def _measure_ours(
    subjects: Sequence[Subject], numbers: Callable[[Subject], Measured], data: Interactions
) -> list[Measured]:
    """Measure our models; Item-Weighted PCA with equal weights is PCA, which is the first."""

    def is_pca(model: AuditedModel) -> bool:  # an advised one may have a filter
        return model.kind == WEIGHTED and model.settings[_EXPONENT] == 0

    different = [one for one in subjects if not is_pca(one.model)]
    measured = side_by_side([partial(numbers, one) for one in different], data)
    found = {one.model.key: one for one in measured}
    return [found.get(one.model.key) or _relabeled(found[PCA], one) for one in subjects]


def _sizes(subjects: Iterable[Subject], effort: Effort) -> tuple[int, ...]:
    """Return the sizes at which all models with components are measured."""
    ours = [each for each in subjects if isinstance(each.model, Projection)]
    available = max(each.model.depth for each in ours if each.model.kind != "advised")
    wanted = {each.size for each in ours} | {size for size in effort.sizes if size <= available}
    return tuple(sorted(size for size in wanted if size <= available))


def _relabeled(measured: Measured, subject: Subject) -> Measured:
    """Return the numbers of one variant as those of another that is the same model."""
    model = subject.model
    rows = tuple(
        replace(row, model=model.label, settings={**model.settings, **row.settings})
        for row in measured.rows
    )
    return replace(measured, subject=subject, rows=rows)


def _contest(
    found: Sequence[Best],
    tested: Sequence[Floats | None],
    measured: Sequence[Measured],
    seed: int,
) -> list[Entry]:
    """Compare every model at its best with the subject, which is the first entry."""
    subject = _subject(measured)
    model, own = subject.model, None if subject.subject.no_accuracy else subject.per_user("ndcg")
    test = _interval(own, seed)
    if model.key.startswith("given:"):
        entries = [Entry(model.key, model.label, {}, "", float("nan"), test, None)]
    else:
        settings = {**model.settings, _SIZE: subject.size}
        entries = [Entry(PCA, model.label, settings, str(AS_GIVEN), float("nan"), test, None)]
    for best, scores in zip(found, tested, strict=True):
        gain = None if scores is None or own is None else _interval(scores - own, seed)
        prepared = str(best.preparation) if best.model != "popularity" else ""
        facts = (best.model, best.title, best.settings, prepared, best.score)
        entries.append(Entry(*facts, _interval(scores, seed), gain, best.edge))
    return entries


def _tested(
    best: Best,
    test: Task | None,
    measured: Sequence[Measured],
    fits: _Fits,
    chosen: _Chosen,
    k: int,
) -> Floats | None:
    """Return NDCG@k of every tested user under a model at its best; None without such users."""
    if test is None:
        return None
    for one in measured:
        if one.subject.tested is not None and _is_variant(one.model, best, chosen):
            size = int(best.settings.get(_SIZE, one.model.depth))
            known = one.per_user("ndcg", size) if size in one.sizes else None
            if known is not None:
                return known
    fresh = audited(fits.get(best.model, best.settings))
    return accuracy(fresh, test, fresh.depth, k)


def _is_variant(model: AuditedModel, best: Best, chosen: _Chosen) -> bool:
    """Whether a measured model is this best one, up to its number of components."""
    if model.kind == "advised":
        return best is chosen.winner or best == chosen.winner
    kind = PCA if model.kind == "as-given" else model.kind
    settings = {name: v for name, v in best.settings.items() if name != _SIZE}
    return kind == best.model and dict(model.settings) == settings


def _interval(values: Floats | None, seed: int) -> Interval | None:
    if values is None or np.count_nonzero(~np.isnan(values)) < 2:
        return None
    return mean_intervals([values], seed)[0]


def _subject(measured: Sequence[Measured]) -> Measured:
    """Return the first given model; PCA of values as given without any."""
    by_key = {one.model.key: one for one in measured}
    return by_key.get("given:0") or by_key.get("as-given") or by_key[PCA]


def _weighted(measured: Sequence[Measured], chosen: _Chosen) -> Measured:
    """Return Item-Weighted PCA at its best exponent."""
    key = f"{WEIGHTED}:{plain(chosen.exponent)}"
    return next(one for one in measured if one.model.key == key)


def _notes(
    search: Search | None, chosen: _Chosen, study: Study, measured: Sequence[Measured]
) -> list[str]:
    """List what was limited or sampled, without the rows."""
    notes = [] if search is None else search.notes()
    if chosen.depth < study.data.n_items:
        notes.append(
            f"The first {chosen.depth:,} components of each model are computed, more only of an "
            "advised model of a larger rank. An item whose error they do not halve counts with all "
            "of them in a mean, which is then a lower bound."
        )
    return [*notes, NOTES["intervals"], *notes_on([one.model for one in measured])]


def _advised(measured: Sequence[Measured], chosen: _Chosen, keep: bool) -> Measured:
    """Return the winner, or the subject if nothing is better."""
    if keep or chosen.winner is None:
        return _subject(measured)
    return next(
        one
        for one in measured
        if (one.model.kind == "advised") != chosen.in_family
        and _is_variant(one.model, chosen.winner, chosen)
    )


def _findings(
    study: Study,
    settings: Settings,
    measured: Sequence[Measured],
    chosen: _Chosen,
    contest: Sequence[Entry],
    chance: Mapping[str, Any],
    source: str,
    data_options: Mapping[str, Any],
    *,
    own_split: bool,
) -> Findings:
    """Return the findings without groups."""
    subject = _subject(measured)
    first, *others = contest
    gain_is_real = bool(others) and better(others[0])
    check = {"metrics": f"ndcg@{settings.k}", "seed": settings.seed}
    advice = advise(
        others,
        first,
        better=gain_is_real,
        source=source,
        data_options=data_options,
        check={} if study.test is None or own_split else check,
    )
    advised = _advised(measured, chosen, advice.keep)
    chosen_keys = (subject.model.key, advised.model.key)
    shown = [one for one in measured if settings.compares(one.model, chosen_keys)]
    views = view_users(study, shown, settings.k, settings.seed)
    columns = pick_items(study, measured, subject, advised, columns_of(views), settings.seed)
    if len(columns) < study.data.n_items:
        note = (
            f"{len(columns):,} of {study.data.n_items:,} items are listed: the most and least "
            "popular, those that change most, owners of components, those of the listed users, and "
            "a random sample. Neighbors are the nearest of these; means are over all items."
        )
        settings = replace(settings, notes=(*settings.notes, note))
    variants = tuple(
        side_by_side(
            [
                partial(to_variant, each, study, columns, neighbors=each in shown)
                for each in measured
            ],
            study.fitted,
        )
    )
    by_key = {each.key: each for each in variants}
    place = {column: position for position, column in enumerate(columns.tolist())}
    summary = summarize(study, source)
    evidence = weigh(by_key[subject.model.key], by_key[PCA], chance, summary, contest)
    return Findings(
        data=summary,
        settings=settings,
        variants=variants,
        subject_key=subject.model.key,
        advised_key=advised.model.key,
        contest=tuple(contest),
        evidence=evidence,
        items=items_of(study, columns),
        users=tuple(view.renamed(place.__getitem__) for view in views),
        advice=advice,
        version=__version__,
    )
