"""Any model with a re-ranker, as a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise import defaults
from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidParameterError
from equipoise.memory import slices
from equipoise.metrics import ItemGroups
from equipoise.models import Ranking, Recommender, VanillaPCA
from equipoise.models.estimator import clone
from equipoise.models.item_vectors import Factors
from equipoise.models.parameters import Count
from equipoise.models.persistence import SavedModel
from equipoise.models.ranking import ItemMask
from equipoise.models.registry import find_model
from equipoise.models.user_rows import by_column
from equipoise.progress import Progress
from equipoise.reranking.base import Candidates, ItemContext, Reranker
from equipoise.reranking.registry import available, make_reranker, spec_of

# Candidates held at a time, for all users of a batch: some tens of MB.
_BATCH = 2**21

# Before the names of the model's arrays in a file, as before its parameters
_OF_MODEL = "model__"

# Components of the PCA whose vectors stand for items where a model has none.
_VECTORS = 32


@dataclass(eq=False, repr=False)
class Reranked(Recommender):
    """A model whose lists are re-ranked.

    The model recommends longer lists of candidates; the re-ranker chooses and orders the items of
    the list. `evaluate`, `tune`, `audit`, `save` and every command treat the result as one model.

    Parameters
    ----------
    model : Recommender or str
        The model, or its name in ``equipoise models``. Its parameters are set by
        ``model__NAME``, as in scikit-learn.
    reranker : str or Reranker
        For example ``"xquad:0.3"``; see ``equipoise rerankers``.
    candidates : int, optional
        Number of candidates per user; by default that of the re-ranker. Lists that are longer have
        as many candidates as items.
    groups : str, int or Groups
        Groups of items: a rule of `equipoise.metrics.popularity_groups`, a number of groups with
        equally many items by popularity, or groups of your own.

    Attributes
    ----------
    model_ : Recommender
        The fitted model, which counts items by column.
    item_counts_ : ndarray of shape (n_items,)
        Number of training users of each item.
    group_names_ : list of str
        Names of the groups.
    membership_ : csr_array of shape (n_items, groups)
        The groups of the items.
    item_vectors_, learned_ : ndarray
        What some re-rankers need.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    The item in place r of a list has the r-th highest score of the user's candidates: the scores of
    a list descend, and remain those of the model's scale.

    Examples
    --------
    >>> from equipoise import EASE
    >>> from equipoise.data.synthetic import listening
    >>> data = listening(n_users=200, n_items=80)
    >>> model = Reranked(EASE(), "fair:0.5,length=10").fit(data)
    >>> tail = model.membership_[:, [1]].toarray().ravel() > 0
    >>> columns = model.rank(data, 10, seen=data.matrix).ids
    >>> bool((tail[columns].sum(axis=1) >= 2).all())
    True
    """

    model: Recommender | str = defaults.MODEL
    reranker: str | Reranker = defaults.RERANKER
    _: KW_ONLY
    candidates: Count | None = None
    groups: str | Count | ItemGroups = defaults.RERANK_GROUPS

    # ------------------------------------------------------------------------------------- fit

    def _fit(self, data: Interactions) -> None:
        make_reranker(self.reranker)  # refused before the model is fitted
        self._learn(self._unfitted().fit(data, progress=self._progress), data)

    @classmethod
    def around(
        cls,
        model: Recommender,
        reranker: str | Reranker,
        data: Interactions,
        *,
        candidates: int | None = None,
        groups: str | int | ItemGroups = defaults.RERANK_GROUPS,
    ) -> Self:
        """Re-rank the lists of a fitted model, without another fit.

        Parameters
        ----------
        model : Recommender
            Fitted.
        reranker, candidates, groups
            As in `Reranked`.
        data : Interactions
            Where popularity is counted, and the lists from which a re-ranker may learn: best the
            training data.
        """
        made = cls(clone(model), reranker, candidates=candidates, groups=groups)
        made._wrap(model, model, model.prepare(data, unknown="drop"))
        return made

    def _wrap(self, fitted: Recommender, like: Recommender, data: Interactions) -> None:
        """Take a fitted model in place of a fit, with the items of another model."""
        self._validate_params()
        self.n_features_in_, self.item_ids_ = like.n_features_in_, like.item_ids_
        self.preparation_ = like.preparation_
        self.item_counts_ = data.popularity("count").astype(np.int32)
        if hasattr(like, "feature_names_in_"):
            self.feature_names_in_ = like.feature_names_in_
        self._learn(fitted, data)

    def _unfitted(self) -> Recommender:
        if isinstance(self.model, str):
            return find_model(self.model).make()
        return clone(self.model)

    def _learn(self, fitted: Recommender, data: Interactions) -> None:
        """Keep the model, and learn what the re-ranker needs."""
        self.model_ = by_column(fitted)
        groups = item_groups(data, self.groups)
        self.group_names_, self.membership_ = list(groups.names), groups.membership
        method = make_reranker(self.reranker)
        self.__dict__.pop("item_vectors_", None)
        self.__dict__.pop("learned_", None)
        if "vectors" in method.needs:
            self.item_vectors_ = item_vectors(data, self.groups, self.model_.factors())
        if method.learns:
            blocks = data.map(_batches_of, self)
            batches = [batch for block in blocks for batch in block]
            learned = method.learn(lambda: batches, self._context())
            if learned is not None:
                self.learned_ = learned

    # ----------------------------------------------------------------------------------- serve

    def _context(self) -> ItemContext:
        groups = ItemGroups(tuple(self.group_names_), self.membership_)
        vectors, learned = (getattr(self, name, None) for name in ("item_vectors_", "learned_"))
        return ItemContext(self.item_counts_.astype(np.float64), groups, vectors, learned)

    def _pool(self, k: int) -> int:
        """Return the number of candidates of a list of length k."""
        asked = make_reranker(self.reranker).pool if self.candidates is None else self.candidates
        pool = self.n_features_in_ if asked is None else min(asked, self.n_features_in_)
        return max(pool, k)

    def _candidates(
        self, rows: sp.csr_array, k: int, seen: sp.csr_array | None, excluded: ItemMask
    ) -> Candidates:
        left_out = None if excluded is None else np.flatnonzero(excluded).tolist()
        items, scores = self.model_.rank(rows, self._pool(k), seen=seen, filter_items=left_out)
        return Candidates(items, scores, rows)

    def _rank(
        self, rows: sp.csr_array, k: int, seen: sp.csr_array | None, excluded: ItemMask
    ) -> Ranking:
        check_whole_number("k", k, least=1)
        context, method = self._context(), make_reranker(self.reranker)
        found = []
        for part in _parts(rows.shape[0], self._pool(k)):
            own = None if seen is None else seen[part]
            lists = self._candidates(rows[part], k, own, excluded)
            found.append(new_lists(lists, method.rerank(lists, k, context)))
        ids, scores = (np.concatenate(each) for each in zip(*found, strict=True))
        return Ranking(ids, scores)

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Return the model's scores; unseen candidates have those of their new places."""
        scores = np.array(self.model_.score_items(user_items))
        seen = user_items.copy()
        lists = self._candidates(user_items, 1, seen, None)
        every = lists.items.shape[1]
        order = make_reranker(self.reranker).rerank(lists, every, self._context())
        items, places = new_lists(lists, order)
        last = np.nanmin(np.where(lists.known, lists.scores, np.nan), axis=1, initial=np.inf)
        unseen = np.ones(scores.shape, dtype=bool)
        unseen[seen.nonzero()] = False
        # the model may treat scores as equal that differ by rounding
        scores = np.where(unseen, np.minimum(scores, last[:, None]), scores)
        users, columns = np.nonzero(items >= 0)
        scores[users, items[users, columns]] = places[users, columns]
        return scores

    def _similarities(self, item: int) -> NDArray[Any]:
        ids, values = self.model_.similar_items(item, self.n_features_in_)
        similarities = np.full(self.n_features_in_, -np.inf)
        similarities[ids[ids >= 0]] = values[ids >= 0]
        return similarities

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        """Return the contributions to the model's own score."""
        why = self.model_.explain(user_items, item, k=None)
        contributions = np.zeros(user_items.nnz)
        contributions[np.searchsorted(user_items.indices, why.ids)] = why.contributions
        return contributions

    # -------------------------------------------------------------- what evaluation uses

    @property
    def size_parameter(self) -> str | None:
        """The parameter that bounds the rank of the model; None for models without."""
        if isinstance(self.model, str):
            return None
        own = self.model.size_parameter
        return None if own is None else f"model__{own}"

    @property
    def free_parameters(self) -> frozenset[str]:
        """The re-ranker, unless it learns from the lists of the training users."""
        method = make_reranker(self.reranker)
        fixed = method.learns or "vectors" in method.needs
        return frozenset({"candidates"} if fixed else {"candidates", "reranker"})

    @property
    def shared_parameters(self) -> frozenset[str]:
        """All but the model: several re-rankers share its fit."""
        return frozenset({"reranker", "candidates", "groups"})

    def fit_many(
        self, X: Any, settings: Sequence[Mapping[str, Any]], *, progress: Progress | None = None
    ) -> list[Self]:
        """Fit the model once, and each re-ranker on its lists."""
        made = [clone(self).set_params(**one) for one in settings]
        first, *others = made
        first.fit(X, progress=progress)
        data = Interactions.accept(X)
        if not isinstance(data, Interactions):
            data = Interactions.wrap(sp.csr_array(data))
        for one in others:
            one._wrap(first.model_, first, data)
        return made

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:  # noqa: ARG002
        """Return the settings of the re-ranker that `tune` tries; the model keeps its own."""
        name = spec_of(self.reranker).partition(":")[0]
        return [{"reranker": available()[name].search or (self.reranker,)}]

    def stored_numbers(self) -> int:
        """Return how many learned numbers a saved model contains."""
        own = sum(np.size(getattr(self, name, ())) for name in ("item_counts_", "learned_"))
        return int(own + self.model_.stored_numbers())

    # ------------------------------------------------------------------------------- save, load

    def _saved_parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = super()._saved_parameters()
        parameters["reranker"] = spec_of(self.reranker)
        if not isinstance(self.model, str):
            parameters["model"] = ""
        if isinstance(self.groups, ItemGroups):
            # the groups themselves are in membership_
            parameters["groups"] = defaults.RERANK_GROUPS
        return parameters

    def _learned(self) -> dict[str, Any]:
        """Return what was learned; that of the model with a prefix, so its arrays can be mapped."""
        learned = {**super()._learned()}
        content = learned.pop("model_").content_to_save()
        arrays = content.pop("arrays")
        return {**learned, "model_": content, **{_OF_MODEL + name: arrays[name] for name in arrays}}

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        of_model = [name for name in saved.arrays if name.startswith(_OF_MODEL)]
        arrays = {name.removeprefix(_OF_MODEL): saved.arrays.pop(name) for name in of_model}
        content = saved.scalars.pop("model_")
        inner = SavedModel(**content, arrays=arrays, version="", verified=saved.verified)
        model = inner.restore("the model in it")
        if not saved.parameters["model"]:
            saved.parameters["model"] = clone(model)
        saved.scalars["model_"] = model
        return super()._deserialize(saved)


def item_groups(data: Interactions, groups: str | int | ItemGroups) -> ItemGroups:
    """Return the groups of the items: those of a rule, or your own in the order of the data."""
    if isinstance(groups, Groups):
        if groups.of != "items":
            raise InvalidParameterError("groups must be groups of items, got groups of users.")
        return groups.align(data)
    return groups if isinstance(groups, ItemGroups) else Groups.by_popularity(data, groups)


def item_vectors(data: Interactions, groups: Any, factors: Factors | None) -> NDArray[np.float64]:
    """Return vectors of the items: their own groups, those of a model, or those of a PCA."""
    if isinstance(groups, ItemGroups):
        return np.asarray(item_groups(data, groups).membership.toarray())
    if factors is None:
        pca = VanillaPCA(min(_VECTORS, data.n_items)).fit(data)
        return np.asarray(pca.components_.T, dtype=np.float64)
    return np.asarray(factors.items, dtype=np.float64)


def _batches_of(block: RowBlock, model: Reranked) -> list[Candidates]:
    """Return the candidates of the training users in a block, with half the digits."""
    found = []
    for rows in _parts(block.matrix.shape[0], model._pool(1)):
        own = block.matrix[rows]
        items, scores, _ = model._candidates(own, 1, own, None)
        found.append(Candidates(items.astype(np.int32), scores.astype(np.float32)))
    return found


def new_lists(lists: Candidates, order: NDArray[np.intp]) -> Ranking:
    """Return the items in their new order; the r-th has the r-th highest score of the candidates.

    Equal scores are made to differ in the last digit, so the order is that of the scores.

    Examples
    --------
    >>> lists = Candidates(np.array([[7, 3, 5]]), np.array([[0.9, 0.4, 0.1]]))
    >>> new_lists(lists, np.array([[0, 2]]))
    Ranking(ids=array([[7, 5]]), scores=array([[0.9, 0.4]]))
    """
    some = order >= 0
    safe = np.where(some, order, 0)
    items = np.where(some, np.take_along_axis(lists.items, safe, axis=1), -1)
    scores = _strictly_descending(lists.scores)[:, : order.shape[1]]
    return Ranking(items, np.where(some, scores, np.nan))


def _strictly_descending(scores: NDArray[Any]) -> NDArray[Any]:
    """Raise each score above the next one, by the last digit if need be."""
    if np.all((np.diff(scores, axis=1) < 0) | np.isnan(scores[:, 1:])):
        return scores
    raised = scores.copy()
    for place in range(scores.shape[1] - 2, -1, -1):
        above = np.nextafter(raised[:, place + 1], np.inf, dtype=scores.dtype)
        raised[:, place] = np.fmax(raised[:, place], above)
    return raised


def _parts(n_users: int, pool: int) -> Iterator[slice]:
    return slices(max(n_users, 1), max(1, _BATCH // max(1, pool)))
