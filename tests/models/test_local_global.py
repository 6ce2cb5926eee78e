"""The local + global model: its limits, its formula, its invariances, its explanations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import Interactions, LocalGlobal, VanillaPCA
from equipoise.exceptions import InvalidParameterError, SolverWarning
from equipoise.spectral.co_occurrence import largest_co_occurrences

EXACT = {"solver": "dense", "tol": 1e-12}


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    """60 users × 12 items, popular and niche, all values different: no ties."""
    rng = np.random.default_rng(3)
    chosen = rng.random((60, 12)) < np.linspace(0.7, 0.15, 12)
    return chosen * rng.uniform(0.5, 2.0, (60, 12))


def scaled_gram(X: np.ndarray, gamma: float, a: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C = XᵀR²X, the weights p^γ and the norms p, by definition."""
    norms = np.linalg.norm(X, axis=0)
    rows = X / np.count_nonzero(X, axis=1)[:, None] ** a
    return rows.T @ rows, norms**gamma, norms


def by_formula(
    X: np.ndarray, *, r: int, gamma: float, a: float, rho: float, mu: float, c: float, k: int
) -> np.ndarray:
    """The item × item matrix S as the class documents it, dense."""
    C, w, p = scaled_gram(X, gamma, a)
    G = np.sqrt(w)[:, None] * C * np.sqrt(w)
    values, vectors = np.linalg.eigh(G)
    values, vectors = values[::-1], vectors[:, ::-1]
    G, lam, U = G / values[0], values[:r] / values[0], vectors[:, :r]
    slope = mu / (lam[-1] + rho)
    off = C - np.diag(C.diagonal())
    kept = off >= -np.sort(-off, axis=1)[:, [k - 1]]
    local = np.where(kept & (off > 0), G, 0)
    inner = slope * local + (U * (lam / (lam + rho) - slope * lam)) @ U.T
    return np.sqrt(w)[:, None] * inner / np.sqrt(w) * p**-c


@pytest.mark.parametrize("k", [11, 3])
def test_scores_follow_the_formula(X, k):
    S = by_formula(X, r=4, gamma=-1.4, a=0.5, rho=0.03, mu=0.8, c=0.2, k=k)
    model = LocalGlobal(
        4, gamma=-1.4, user_scaling=0.5, ridge=0.03, local_weight=0.8, popularity_discount=0.2,
        n_neighbors=k, **EXACT,
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(model.score_items(X), X @ S, rtol=1e-9, atol=1e-12)


def test_without_local_part_ridge_and_weights_it_is_pca(X):
    plain = {"gamma": 0.0, "user_scaling": 0.0, "ridge": 0.0, "local_weight": 0.0}
    ours = LocalGlobal(4, **plain, **EXACT).fit(X)
    pca = VanillaPCA(4, solver="dense").fit(X)
    np.testing.assert_allclose(ours.score_items(X), pca.score_items(X), atol=1e-10)


def test_at_full_rank_it_is_the_weighted_ridge_off_the_diagonal(X):
    rho, (C, w, _) = 0.07, scaled_gram(X, -1.2, 0.25)
    model = LocalGlobal(12, gamma=-1.2, ridge=rho, n_neighbors=None, **EXACT).fit(X)
    largest = np.linalg.eigvalsh(np.sqrt(w)[:, None] * C * np.sqrt(w))[-1]
    # where the derivative of ‖R(X − XB)W^½‖² + ρλ_1‖W^−½BW^½‖² vanishes
    B = np.linalg.solve(C + rho * largest * np.diag(1 / w), C)
    S = model.score_items(np.eye(12))
    off = ~np.eye(12, dtype=bool)
    np.testing.assert_allclose(S[off], B[off], atol=1e-9)


def test_a_fit_serves_other_filters_discounts_and_smaller_ranks(X):
    free = {"ridge": 0.3, "local_weight": 1.0, "popularity_discount": 0.4}
    changed = LocalGlobal(8, **EXACT).fit(X).truncate(3).set_params(**free)
    fitted = LocalGlobal(3, **free, **EXACT).fit(X)
    np.testing.assert_allclose(changed.score_items(X), fitted.score_items(X), rtol=1e-9)
    assert changed.get_params() == fitted.get_params()


def test_ranks_beyond_what_the_data_have_keep_all_components(X):
    few = X[:, [0, 0, 1, 1, 2, 2]]  # three different columns
    with pytest.warns(SolverWarning, match="3 of the 6 requested components"):
        model = LocalGlobal(6, user_scaling=0.0, **EXACT).fit(few)
    shorter = model.truncate(4)
    assert (shorter.n_components, shorter.n_components_) == (4, 3)
    np.testing.assert_array_equal(shorter.score_items(few), model.score_items(few))
    with pytest.raises(InvalidParameterError, match="n_components"):
        model.truncate(7)


def test_evidence_sums_to_the_score_over_items_and_components(X):
    data = Interactions.from_sparse(sp.csr_array(X), item_ids=[f"item-{j}" for j in range(12)])
    model = LocalGlobal(5, popularity_discount=0.1, **EXACT).fit(data)
    user = data.select_users([7])
    for item in ("item-0", "item-11"):
        found = model.evidence(user, item)
        score = model.score_items(user)[0, data.item_index([item])[0]]
        assert found.score == pytest.approx(score)
        assert found.local.sum() + found.by_component.sum() == pytest.approx(score)
        why = dict(zip(*model.explain(user, item, k=None)[1:3], strict=True))
        parts = found.local + found.by_component.sum(axis=1)
        assert why == pytest.approx(dict(zip(found.ids, parts, strict=True)))


def test_permuting_the_items_permutes_the_scores(X):
    order = np.random.default_rng(0).permutation(12)
    scores = LocalGlobal(4, n_neighbors=5, **EXACT).fit(X).score_items(X)
    permuted = LocalGlobal(4, n_neighbors=5, **EXACT).fit(X[:, order]).score_items(X[:, order])
    np.testing.assert_allclose(permuted, scores[:, order], atol=1e-10)


@pytest.mark.parametrize(("dtype", "factor"), [(float, 1e150), ("f", 1e30), ("f", 1e-30)])
@pytest.mark.medium
def test_data_of_any_unit_give_the_same_lists(X, dtype, factor):
    ours = (X * factor).astype(dtype)
    found = LocalGlobal(4).fit(ours).recommend(ours, k=5).ids
    np.testing.assert_array_equal(found, LocalGlobal(4).fit(X).recommend(X, k=5).ids)


def test_scaling_the_data_changes_no_list(X):
    lists = [
        LocalGlobal(4, popularity_discount=0.2).fit(X * s).recommend(X * s).ids for s in (1, 8)
    ]
    np.testing.assert_array_equal(*lists)


def test_the_self_reconstruction_is_the_diagonal_of_the_global_part(X):
    model = LocalGlobal(4, ridge=0.2, **EXACT).fit(X)
    lam = model.eigenvalues_ / model.eigenvalues_[0]
    P = (model.components_.T * (lam / (lam + 0.2))) @ model.components_
    np.testing.assert_allclose(model.self_reconstruction(), P.diagonal(), atol=1e-12)
    assert not model.co_occurrences_.diagonal().any()


def test_items_without_users_and_users_without_items_score_zero(X):
    empty = np.hstack([X, np.zeros((60, 1))])
    scores = LocalGlobal(4, popularity_discount=0.3).fit(empty).score_items(empty)
    assert not scores[:, -1].any()
    assert not LocalGlobal(4).fit(X).score_items(np.zeros(12)).any()


def test_an_item_of_weight_zero_is_not_used_and_not_scored(X):
    weights = np.ones(12)
    weights[2] = 0.0
    model = LocalGlobal(4, item_weights=weights, **EXACT).fit(X)
    assert not model.score_items(X)[:, 2].any()
    only = np.zeros(12)
    only[2] = 1.0
    assert not model.score_items(only).any()


def test_the_compiled_product_gives_the_same_scores():
    rng = np.random.default_rng(5)
    X = sp.random_array((2100, 1000), density=0.01, random_state=rng, format="csr")
    model = LocalGlobal(8, n_neighbors=20).fit(X)
    many = model.score_items(X)  # two million scores: the compiled loop
    for user in (0, 777):
        np.testing.assert_allclose(model.score_items(X[[user]])[0], many[user], atol=1e-12)


@pytest.fixture(scope="module")
def plays() -> sp.csr_array:
    """400 users × 300 items, 0/1, many ties; everybody has item 4."""
    rng = np.random.default_rng(11)
    chosen = rng.random((400, 300)) < rng.uniform(0.02, 0.3, 300)
    chosen[:, 4] = True
    return sp.csr_array(chosen.astype(np.float64))


def cut_by_definition(X: sp.csr_array, k: int) -> np.ndarray:
    """The k largest of each row of XᵀX off the diagonal; of ties the smaller columns."""
    C = (X.T @ X).toarray()
    np.fill_diagonal(C, 0)
    kept = np.zeros_like(C)
    for row, out in zip(C, kept, strict=True):
        best = np.lexsort((np.arange(len(row)), -row))[:k]
        out[best] = row[best]
    return kept


@pytest.mark.medium
@pytest.mark.parametrize("k", [1, 7, 299, 500])
def test_the_largest_co_occurrences_are_those_of_the_full_matrix(plays, k):
    found = largest_co_occurrences(plays, k)
    np.testing.assert_array_equal(found.toarray(), cut_by_definition(plays, k))
    assert np.diff(found.indptr).max() <= k
    assert not found.diagonal().any()
    assert found.has_canonical_format


@pytest.mark.medium
@pytest.mark.parametrize(("threads", "task_bytes"), [(1, 1), (3, 5000), (2, 10**9)])
def test_the_cut_depends_neither_on_threads_nor_on_tasks(plays, threads, task_bytes):
    rows = sp.csr_array(plays.multiply(1 / np.sqrt(plays.sum(axis=1))[:, None]))
    found = largest_co_occurrences(rows, 6, threads=threads, task_bytes=task_bytes)
    expected = largest_co_occurrences(rows, 6)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


@pytest.mark.medium
def test_the_uncut_matrix_is_never_in_memory():
    n_items = 3000  # one user has every item: the uncut matrix takes 9 million entries
    X = sp.csr_array(np.ones((2, n_items)))
    largest_co_occurrences(X, 3)  # compile first
    tracemalloc.start()
    try:
        largest_co_occurrences(X, 3, task_bytes=2**16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n_items**2 / 10


@pytest.mark.medium
@pytest.mark.parametrize(("memory", "n_blocks"), [("1GB", 5), ("1MB", 5), ("1GB", 1)])
def test_data_in_blocks_give_the_same_model(plays, tmp_path, memory, n_blocks):
    users, items = plays.nonzero()
    pl.DataFrame({"user": users, "item": items}).write_parquet(tmp_path / "plays.parquet")
    here = Interactions.read(tmp_path / "plays.parquet")
    # 1 MB holds some rows of XᵀX at a time: several passes over the blocks
    blocks = Interactions.read(tmp_path / "plays.parquet", memory=memory, n_blocks=n_blocks)
    settings = {"n_neighbors": 9, "solver": "matrix_free", "tol": 1e-9}
    ours, theirs = (LocalGlobal(6, **settings).fit(data) for data in (here, blocks))
    np.testing.assert_array_equal(ours.co_occurrences_.indices, theirs.co_occurrences_.indices)
    np.testing.assert_allclose(ours.score_items(here), theirs.score_items(here), atol=1e-8)


@pytest.mark.medium
def test_all_neighbors_are_kept_where_they_are_few(X):
    auto, all_kept = (LocalGlobal(4, n_neighbors=k, **EXACT).fit(X) for k in ("auto", None))
    np.testing.assert_array_equal(
        auto.co_occurrences_.toarray(), all_kept.co_occurrences_.toarray()
    )
    many = sp.csr_array(np.ones((2, 5200)))  # 27 million pairs
    assert np.diff(LocalGlobal(1).fit(many).co_occurrences_.indptr).max() == 400
