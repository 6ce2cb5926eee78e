"""Checks of the contract that every model keeps, for models of other packages too.

In a test of your package::

    from equipoise.testing import check_recommender

    def test_my_model_keeps_the_contract():
        check_recommender(MyModel(n_components=8))
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from equipoise.data.interactions import Interactions
from equipoise.exceptions import EquipoiseError
from equipoise.models import Recommender, load
from equipoise.models.registry import entry_of

_K = 5
# Scores of one user may differ in the last digits from those of many: BLAS adds in another order.
_ROUNDING = 1e-5


def check_recommender(model: Recommender) -> None:
    """Check that a model keeps the contract of `Recommender`; raise AssertionError if not.

    Parameters
    ----------
    model : Recommender
        An unfitted model. It is fitted about ten times on 200 users × 160 items, so choose
        parameters that make a fit fast. The model itself is not changed.

    Raises
    ------
    AssertionError
        Names the check that failed, what was expected and what was found.

    Examples
    --------
    >>> from equipoise import EASE
    >>> check_recommender(EASE())
    """
    for check in CHECKS:
        try:
            check(clone(model))
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}({model}): {error}") from error


def check_parameters(model: Recommender) -> None:
    """The constructor only stores its arguments, and `clone` copies them."""
    _require(isinstance(model, Recommender), "the class must be a subclass of Recommender")
    copy = clone(model)
    _require(repr(copy) == repr(model), "clone must give a model with the same parameters")
    learned = sorted(_learned(copy))
    _require(not learned, f"an unfitted model must not have the attributes {learned}")


def check_unfitted(model: Recommender) -> None:
    """An unfitted model refuses to serve and to be saved."""
    row = np.ones(3)
    served = dict.fromkeys(("score_items", "rank", "recommend"), row)
    for name, argument in {**served, "similar_items": 0, "save": os.devnull}.items():
        try:
            getattr(model, name)(argument)
        except NotFittedError:
            continue
        raise AssertionError(f"{name} of an unfitted model must raise NotFittedError")


def check_fit(model: Recommender) -> None:
    """`fit` returns the model, learns the items, and leaves the data unchanged."""
    data = example_data()
    before = data.matrix.copy()
    _require(model.fit(data) is model, "fit must return the model")
    same = np.array_equal(before.data, data.matrix.data)
    _require(same, "fit must not change the data")
    _require(model.n_features_in_ == data.n_items, "n_features_in_ must be the number of items")
    ids = np.asarray(model.item_ids_)
    _require(np.array_equal(ids, data.item_ids), "item_ids_ must be those of the data")
    model.fit(data.matrix)
    _require(model.item_ids_ is None, "item_ids_ must be None after a fit on a matrix")


def check_same_results(model: Recommender) -> None:
    """Equal data give equal scores: twice, after another fit, sparse and dense, by id and not."""
    data = example_data()
    expected = model.fit(data).score_items(data)
    other = clone(model).fit(data.select_users(data.user_ids[:150]))
    fits = {
        "a second fit": clone(model).fit(data),
        "a fit after a fit on other data": other.fit(data),
        "a fit on a sparse matrix": clone(model).fit(data.matrix),
        "a fit on a dense matrix": clone(model).fit(data.matrix.toarray()),
    }
    for name, fitted in fits.items():
        rows = data if fitted.item_ids_ is not None else data.matrix
        _require(np.array_equal(fitted.score_items(rows), expected), f"{name} gave other scores")


def check_scores(model: Recommender) -> None:
    """Scores are finite floats, one row per user, and do not depend on the other users."""
    data = example_data()
    scores = model.fit(data.matrix).score_items(data.matrix)
    _require(scores.shape == data.shape, f"scores must have shape {data.shape}, not {scores.shape}")
    _require(scores.dtype.kind == "f", f"scores must be floats, not {scores.dtype}")
    _require(bool(np.isfinite(scores).all()), "scores must be finite")
    one = model.score_items(data.matrix[[7]].toarray()[0])
    _require(one.shape == (data.n_items,), "scores of one dense row must be 1-D")
    _require(_close(one, scores[7]), "the scores of one user must not depend on other users")
    empty = model.score_items(np.zeros(data.n_items))
    _require(bool(np.isfinite(empty).all()), "scores of a user without items must be finite")


def check_lists(model: Recommender) -> None:
    """Lists contain the unseen items of the highest scores, best first."""
    data = example_data()
    X = data.matrix
    model.fit(X)
    seen, every = X.toarray() > 0, model.score_items(X)
    ids, scores = model.rank(X, _K, seen=X)
    _require(ids.shape == scores.shape == (data.n_users, _K), f"lists must have {_K} columns")
    _require(not np.take_along_axis(seen, ids, 1).any(), "lists must not contain seen items")
    _require(_close(scores, np.take_along_axis(every, ids, 1)), "lists must carry their scores")
    best = -np.sort(-np.where(seen, -np.inf, every), axis=1)[:, :_K]
    _require(_close(scores, best), "lists must contain the items of the highest scores")
    _require(bool(np.all(np.diff(scores, axis=1) <= 0)), "lists must begin with the best item")
    again = model.recommend(X, _K)
    _require(np.array_equal(again.ids, ids), "recommend and rank must agree")
    one = model.recommend(X[[3]].toarray()[0], _K)
    _require(_close(one.scores, scores[3]), "the list of one user must not depend on other users")


def check_candidates(model: Recommender) -> None:
    """`items` and `filter_items` restrict the lists, which are padded where too few are left."""
    data = example_data()
    model.fit(data)
    some = data.item_ids[:4].tolist()
    options: dict[str, Any] = {"filter_already_liked_items": False, "items": some}
    ids = model.recommend(data, 4, **options).ids
    _require(set(ids.ravel()) == set(some), "items must be the only items of the lists")
    ids, scores = model.recommend(data, 4, filter_items=some[:1], **options)
    _require(set(ids[:, :3].ravel()) == set(some[1:]), "filter_items must not be in the lists")
    padded = set(ids[:, 3]) == {None} and bool(np.isnan(scores[:, 3]).all())
    _require(padded, "lists without enough items must be padded with None and NaN")


def check_ids(model: Recommender) -> None:
    """Rows are aligned by item id; unknown items are refused."""
    data = example_data()
    model.fit(data)
    reversed_items = data.select_items(data.item_ids[::-1])
    same = np.array_equal(model.recommend(reversed_items).ids, model.recommend(data).ids)
    _require(same, "rows must be aligned by item id")
    unknown = Interactions.from_pairs(["user"], ["not an item"])
    _require_refusal(lambda: model.recommend(unknown), "an unknown item")
    _require_refusal(lambda: model.similar_items("not an item"), "an unknown item")


def check_bad_data(model: Recommender) -> None:
    """Data that are negative, not finite or empty are refused, in `fit` and when serving."""
    X = example_data().matrix.toarray()
    for name, bad in {"NaN": np.nan, "infinite": np.inf, "negative": -1.0}.items():
        spoiled = X.copy()
        spoiled[3, 5] = bad
        _require_refusal(partial(clone(model).fit, spoiled), f"{name} values")
    _require_refusal(lambda: clone(model).fit(0 * X), "data without interactions")
    model.fit(X)
    _require_refusal(lambda: model.recommend(-X), "negative values")
    _require_refusal(lambda: model.recommend(X[:, 1:]), "rows of another number of items")
    _require_refusal(lambda: model.recommend(X, 0), "k=0")


def check_similar_items(model: Recommender) -> None:
    """`similar_items` lists each item once, the most similar first, and not the item itself."""
    data = example_data()
    item = data.item_ids[5]
    ids, scores = model.fit(data).similar_items(item, 20)
    found = [one for one in ids.tolist() if one is not None]
    _require(item not in found, "similar_items must not list the item itself")
    _require(len(found) == len(set(found)), "similar_items must list an item only once")
    kept = scores[: len(found)]
    _require(bool(np.all(np.diff(kept) <= 0)), "similar_items must begin with the most similar")
    _require(bool(np.isnan(scores[len(found) :]).all()), "missing items must have the score NaN")


def check_explanations(model: Recommender) -> None:
    """Contributions and the rest add up to the score."""
    data = example_data()
    model.fit(data.matrix)
    row = data.matrix[[3]]
    scores = model.score_items(row)[0]
    for item in (0, int(scores.argmax())):
        why = model.explain(row, item, k=None)
        _require(_close(np.array([why.score]), scores[[item]]), "explain must give the score")
        _require(set(why.ids) == set(row.indices), "explain must list the items of the user")
        total = float(why.contributions.sum()) + why.rest
        _require(bool(np.isclose(total, why.score)), "contributions and rest must be the score")


def check_views(model: Recommender) -> None:
    """`factors`, `item_item` and `low_rank` give the scores, where they are not None."""
    data = example_data()
    X = data.matrix
    scores = model.fit(X).score_items(X)
    vectors, matrix, low_rank = model.factors(), model.item_item(), model.low_rank()
    if vectors is not None:
        found = vectors.users(X) @ vectors.items.T
        _require(_close(found, scores), "factors: users(rows) @ items.T must be the scores")
    if matrix is not None:
        found = sp.csr_array(matrix.prepare(X) @ matrix.coefficients).toarray()
        _require(_close(found, scores), "item_item: prepare(rows) @ B must be the scores")
    if low_rank is not None:
        weighted = low_rank.coordinates(X) * low_rank.component_weights
        found = weighted @ low_rank.components
        _require(_close(found, scores), "low_rank must give the scores")


def check_saving(model: Recommender) -> None:
    """A saved model loads with the same lists; equal models give equal files."""
    data = example_data()
    model.fit(data)
    with tempfile.TemporaryDirectory() as folder:
        fits = (model, clone(model).fit(data))
        paths = [one.save(Path(folder) / f"{i}.eqp") for i, one in enumerate(fits)]
        _require(paths[0].read_bytes() == paths[1].read_bytes(), "equal models must be equal files")
        loaded = [type(model).load(paths[0])]
        if entry_of(type(model)) is not None:
            loaded.append(load(paths[0]))
    for one in loaded:
        _require(type(one) is type(model), "a loaded model must have the class of the saved one")
        saved, found = model.get_params(deep=False), one.get_params(deep=False)
        plain = {k for k, value in saved.items() if isinstance(value, int | float | str)}
        same = all(found[k] == saved[k] for k in plain)
        _require(same, "a loaded model must have the same parameters")
        lost = sorted(_learned(model) - _learned(one))
        _require(not lost, f"save did not write the learned attributes {lost}")
        before, after = model.recommend(data, _K), one.recommend(data, _K)
        same = np.array_equal(before.ids, after.ids) and np.array_equal(before.scores, after.scores)
        _require(same, "a loaded model must give the same lists")


#: every check; each takes an unfitted model and raises AssertionError
CHECKS: tuple[Callable[[Recommender], None], ...] = (
    check_parameters,
    check_unfitted,
    check_fit,
    check_same_results,
    check_scores,
    check_lists,
    check_candidates,
    check_ids,
    check_bad_data,
    check_similar_items,
    check_explanations,
    check_views,
    check_saving,
)


def example_data(n_users: int = 200, n_items: int = 160) -> Interactions:
    """Return small counts with popular and niche items, with ids that are text."""
    rng = np.random.default_rng(7)
    counts = rng.poisson(0.3 * (rng.pareto(1.5, n_items) + 0.2), (n_users, n_items))
    counts[np.arange(n_users), np.arange(n_users) % n_items] += 1
    users = [f"user-{i}" for i in range(n_users)]
    items = [f"item-{j}" for j in range(n_items)]
    return Interactions(sp.csr_array(counts.astype(np.float64)), users, items)


def _learned(model: Recommender) -> set[str]:
    """Return the names of learned attributes: those that end with an underscore."""
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_refusal(call: Callable[[], Any], what: str) -> None:
    """Require an error of this package, or a ValueError of scikit-learn's checks."""
    try:
        call()
    except (EquipoiseError, ValueError):
        return
    raise AssertionError(f"{what} must be refused with an error of equipoise.exceptions")


def _close(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    return bool(np.allclose(found, expected, rtol=_ROUNDING, atol=_ROUNDING * largest))
