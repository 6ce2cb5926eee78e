from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

from equipoise import ItemWeightedPCA, NormalizedPCA, VanillaPCA, solve_sdp
from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.models.pca.item_weighted_pca import popularity_weights


def heavy_tailed(n: int, m: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(np.minimum(rng.pareto(1.0, m) + 0.1, 6), (n, m)).astype(float)


def weighted_gram(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    C = X.T @ X
    return (w[:, None] * C + C * w) / 2


def projector(model) -> np.ndarray:
    return model.components_.T @ model.components_


INSTANCES = [
    (seed, m, r, gamma, budget)
    for seed, (m, r, gamma, budget) in enumerate(
        [
            (m, r, gamma, budget)
            for m, r in ((6, 1), (9, 4), (14, 2), (20, 8), (30, 5))
            for gamma, budget in (
                (-1.0, None),
                (-2.0, None),
                (-0.5, None),
                (0.5, None),
                (-1.0, 0.01),
                (-1.0, 0.2),
                (-2.0, 0.05),
            )
        ]
    )
]


@pytest.mark.medium
@pytest.mark.parametrize(("seed", "m", "r", "gamma", "budget"), INSTANCES)
def test_closed_form_equals_the_semidefinite_program(seed, m, r, gamma, budget):
    """35 instances: the objective to 1e-6, and the projector where the eigengap is clear."""
    X = heavy_tailed(2 * m, m, seed)
    sdp = solve_sdp(X, r, gamma, budget)
    model = ItemWeightedPCA(r, gamma=gamma, error_budget=budget).fit(X)
    assert model.certificate_.objective == pytest.approx(sdp.objective, rel=1e-6)
    weights = model.item_weights_ + np.where(
        np.isfinite(model.error_budget_multiplier_), model.error_budget_multiplier_, 0
    )
    spectrum = np.linalg.eigvalsh(weighted_gram(X, weights))[::-1]
    clear = spectrum[r - 1] - spectrum[r] > 1e-2 * spectrum[0] and spectrum[r - 1] > 0
    if clear:
        np.testing.assert_allclose(projector(model), sdp.projection, atol=1e-4)


@pytest.mark.medium
def test_some_of_those_instances_have_a_clear_gap_and_a_binding_budget():
    """Without this the projector or the budget could go untested unnoticed."""
    gaps, binding = 0, 0
    for seed, m, r, gamma, budget in INSTANCES:
        X = heavy_tailed(2 * m, m, seed)
        model = ItemWeightedPCA(r, gamma=gamma, error_budget=budget).fit(X)
        spectrum = np.linalg.eigvalsh(weighted_gram(X, model.item_weights_))[::-1]
        gaps += spectrum[r - 1] - spectrum[r] > 1e-2 * spectrum[0]
        binding += model.error_budget_multiplier_ > 0
    assert gaps >= 10
    assert binding >= 5


@pytest.mark.parametrize("solver", ["matrix_free", "gram", "dense"])
def test_gamma_zero_equals_plain_pca_and_truncated_svd(solver):
    X = sp.csr_array(heavy_tailed(80, 30, 1))
    ours = ItemWeightedPCA(5, gamma=0.0, solver=solver).fit(X)
    np.testing.assert_allclose(projector(ours), projector(VanillaPCA(5).fit(X)), atol=1e-5)
    theirs = TruncatedSVD(5, algorithm="arpack").fit(X).components_
    assert np.max(sl.subspace_angles(ours.components_.T, theirs.T)) < 1e-5


def test_gamma_minus_two_equals_normalized_pca_on_item_regular_blocks():
    """Every item of a block has the same popularity, and users keep to one block."""
    shift = np.arange(12)
    cycle = np.isin((shift[:, None] - shift[None, :]) % 12, [0, 1, 3]).astype(float)
    thick = np.isin((shift[:, None] - shift[None, :]) % 12, [0, 1, 2, 3, 5, 8, 9]).astype(float)
    X = sl.block_diag(cycle, thick, np.vstack([thick[:, :7]] * 2))
    C = X.T @ X
    spectrum = np.linalg.eigvalsh(weighted_gram(X, 1 / C.diagonal()))[::-1]
    gaps = spectrum[1:12] - spectrum[2:13]
    r = 2 + int(gaps.argmax())  # a rank at which the subspace is well defined
    assert gaps.max() > 1e-2
    ours, norm = ItemWeightedPCA(r, gamma=-2.0).fit(X), NormalizedPCA(r).fit(X)
    np.testing.assert_allclose(projector(ours), projector(norm), atol=1e-8)
    np.testing.assert_allclose(ours.eigenvalues_, norm.eigenvalues_, rtol=1e-9)


def test_theorem_on_baselines_half_and_half():
    """Popular block ×4 in popularity, twice as many unpopular items, spectra decaying by β."""
    beta, r, n_p, n_u, m_p = 1.2, 2, 16.0, 4.0, 6
    m_u = int(np.sqrt(n_p / n_u) * m_p)

    def block(m: int, popularity: float) -> np.ndarray:
        """Columns of squared norm `popularity`, Gram of rank 2 with eigenvalues λ, λ/β."""
        angle = np.arctan(np.sqrt(1 / beta))
        columns = np.array([[np.cos(angle), np.sin(angle)], [np.cos(angle), -np.sin(angle)]])
        return np.sqrt(popularity) * np.repeat(columns, m // 2, axis=0).T

    X = sl.block_diag(block(m_p, n_p), block(m_u, n_u))
    # the theorem is about the Gram matrix: rotate the rows until no entry is negative
    popular = slice(0, m_p)
    C = X.T @ X
    assert n_u / n_p < beta ** (-2 * (r - 1))
    root = np.linalg.cholesky(C + 1e-13 * np.eye(len(C))).T
    assert root.min() > -1e-6
    root = np.maximum(root, 0)
    vanilla, norm = VanillaPCA(r).fit(root), NormalizedPCA(r).fit(root)
    assert vanilla.self_reconstruction()[popular].sum() == pytest.approx(r, abs=1e-4)
    assert norm.self_reconstruction()[popular].sum() == pytest.approx(0, abs=1e-4)
    weighted = ItemWeightedPCA(2 * r, gamma=-1.0).fit(root)
    assert weighted.self_reconstruction()[popular].sum() == pytest.approx(r, abs=1e-4)
    np.testing.assert_allclose(weighted.eigenvalues_[::2], weighted.eigenvalues_[1::2], rtol=1e-4)


def test_ranks_are_nested_and_truncate_equals_refitting():
    X = heavy_tailed(90, 30, 2)
    model = ItemWeightedPCA(12).fit(X)
    for r in (1, 5, 12):
        small, refit = model.truncate(r), ItemWeightedPCA(r).fit(X)
        np.testing.assert_allclose(projector(small), projector(refit), atol=1e-8)
        assert small.certificate_.objective == pytest.approx(refit.certificate_.objective)
        assert small.certificate_.gap < 1e-9
        assert small.n_components == small.n_components_ == r
    assert model.n_components_ == 12


def test_truncate_refuses_more_components_and_error_budgets():
    X = heavy_tailed(40, 10, 3)
    with pytest.raises(InvalidParameterError, match="from 1 to 3"):
        ItemWeightedPCA(3).fit(X).truncate(4)
    with pytest.raises(InvalidParameterError, match=r"error_budget.*no nested ranks"):
        ItemWeightedPCA(3, error_budget=0.1).fit(X).truncate(2)


def test_item_weights_override_gamma():
    X = heavy_tailed(60, 12, 4)
    w = np.random.default_rng(0).random(12)
    given = ItemWeightedPCA(3, item_weights=w).fit(X)
    expected = np.linalg.eigvalsh(weighted_gram(X, w))[::-1][:3].sum()
    assert given.certificate_.objective == pytest.approx(expected)
    by_function = ItemWeightedPCA(3, item_weights=lambda p: p**-1.0).fit(X)
    by_gamma = ItemWeightedPCA(3, gamma=-1.0).fit(X)
    np.testing.assert_array_equal(by_function.components_, by_gamma.components_)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(4), "one number for each of the 12 items, got shape"),
        (-np.ones(12), "finite and at least 0, got -1.0 for column 0"),
        (np.full(12, np.nan), "finite and at least 0, got nan"),
        (np.zeros(12), "0 for every item"),
        (lambda p: p[:3], "one number for each of the 12 items"),
    ],
)
def test_bad_item_weights_are_refused(weights, message):
    with pytest.raises(InvalidDataError, match=message):
        ItemWeightedPCA(3, item_weights=weights).fit(heavy_tailed(60, 12, 4))


def test_weights_are_powers_of_popularity_and_zero_for_untouched_items():
    X = heavy_tailed(50, 8, 5)
    X[:, 2] = 0
    model = ItemWeightedPCA(3, gamma=-1.5).fit(X)
    norms = np.linalg.norm(X, axis=0)
    np.testing.assert_allclose(model.item_norms_, norms)
    touched = norms > 0
    np.testing.assert_allclose(model.item_weights_[touched], norms[touched] ** -1.5)
    assert model.item_weights_[2] == 0
    assert model.self_reconstruction()[2] == pytest.approx(0)


def test_gamma_beyond_floating_point_is_refused_with_the_range():
    with pytest.raises(InvalidParameterError, match="gives weights beyond floating point"):
        popularity_weights(np.array([1e-200, 1.0]), -2.0)


def test_fewer_positive_eigenvalues_give_fewer_components_and_a_warning():
    X = np.outer([1.0, 2.0, 0.0], [1.0, 1.0, 3.0, 0.0])
    with pytest.warns(SolverWarning, match="1 of the 3 requested components"):
        model = VanillaPCA(3).fit(X)
    assert model.components_.shape == (1, 4)
    assert model.n_components_ == 1


def test_indefinite_matrix_keeps_positive_components_only():
    """At γ = −1 M has negative eigenvalues; at full rank the model must drop them."""
    X = heavy_tailed(40, 15, 6)
    with pytest.warns(SolverWarning, match="requested components were kept"):
        model = ItemWeightedPCA(15, gamma=-1.0).fit(X)
    spectrum = np.linalg.eigvalsh(weighted_gram(X, model.item_weights_))
    assert spectrum[0] < -1e-3
    assert model.n_components_ == np.count_nonzero(spectrum > 1e-9)
    assert model.certificate_.objective == pytest.approx(spectrum[spectrum > 0].sum())


def test_path_over_gamma_equals_single_fits():
    X = sp.csr_array(heavy_tailed(200, 60, 7))
    gammas = [-2.0, -1.0, -0.5, 0.0]
    for solver in ("matrix_free", "dense"):
        base = ItemWeightedPCA(6, solver=solver)
        path = base.fit_path(X, gammas)
        assert not hasattr(base, "components_")
        for gamma, model in zip(gammas, path, strict=True):
            single = ItemWeightedPCA(6, gamma=gamma).fit(X)
            assert model.gamma == gamma
            assert model.certificate_.objective == pytest.approx(
                single.certificate_.objective, rel=1e-9
            )


def test_rigorous_certificate_proves_the_fit():
    X = sp.csr_array(heavy_tailed(200, 60, 8))
    model = ItemWeightedPCA(6, solver="matrix_free").fit(X)
    proof = model.certify(X)
    assert proof.method == "cholesky"
    assert proof.gap < 1e-4
    optimum = np.linalg.eigvalsh(weighted_gram(X.toarray(), model.item_weights_))[::-1][:6].sum()
    assert proof.objective <= optimum * (1 + 1e-12)
    assert proof.dual_bound >= optimum * (1 - 1e-12)
    bound = ItemWeightedPCA(3, error_budget=0.001).fit(X)
    with pytest.raises(InvalidParameterError, match="without a binding error_budget"):
        bound.certify(X)


def test_zero_error_budget_is_pca_and_a_large_one_is_free():
    X = heavy_tailed(80, 20, 9)
    strict, free = ItemWeightedPCA(4, error_budget=0.0).fit(X), ItemWeightedPCA(4).fit(X)
    np.testing.assert_allclose(projector(strict), projector(VanillaPCA(4).fit(X)), atol=1e-8)
    assert strict.error_budget_multiplier_ == np.inf
    loose = ItemWeightedPCA(4, error_budget=50.0).fit(X)
    assert loose.error_budget_multiplier_ == 0
    np.testing.assert_allclose(loose.components_, free.components_, atol=1e-12)


@pytest.mark.parametrize(("name", "strength"), [("power", 0.375), ("ridge", 0.1), ("hard", 9.0)])
def test_spectral_filters_grade_the_components_in_scores(name, strength):
    X = heavy_tailed(60, 12, 10)
    model = ItemWeightedPCA(4, spectral_filter=name, filter_strength=strength).fit(X)
    relative = model.eigenvalues_ / model.eigenvalues_[0]
    f = {"power": relative**strength, "ridge": relative / (relative + strength)}.get(
        name, np.ones(4)
    )
    U = model.components_.T
    np.testing.assert_allclose(model.reconstruct(X), X @ (U * f) @ U.T, atol=1e-10)


def test_value_transform_and_user_scaling_apply_in_fit_and_when_serving():
    X = heavy_tailed(60, 12, 11)
    X[:, 0] = 1  # no user without items
    by_hand = np.where(X > 0, np.log1p(X), 0) / np.count_nonzero(X, axis=1)[:, None] ** 0.25
    ours = ItemWeightedPCA(4, value_transform="log1p", user_scaling=0.25).fit(X)
    plain = ItemWeightedPCA(4).fit(by_hand)
    np.testing.assert_allclose(ours.components_, plain.components_, atol=1e-9)
    np.testing.assert_allclose(ours.transform(X), plain.transform(by_hand), atol=1e-9)
    options = {"k": 5, "filter_already_liked_items": False}
    np.testing.assert_allclose(
        ours.recommend(X, **options).scores, plain.recommend(by_hand, **options).scores, atol=1e-9
    )


def test_normalized_pca_scores_with_the_scaled_matrix_and_rebuilds_in_the_units_of_the_data():
    X = heavy_tailed(60, 12, 12)
    p = np.linalg.norm(X, axis=0)
    scaled = X / p
    V = np.linalg.svd(scaled)[2][:4].T
    model = NormalizedPCA(4).fit(X)
    ids, scores = model.recommend(X, k=12, filter_already_liked_items=False)
    expected = scaled @ V @ V.T
    np.testing.assert_allclose(scores, np.take_along_axis(expected, ids, axis=1), atol=1e-9)
    np.testing.assert_allclose(model.reconstruct(X), expected * p, atol=1e-9)


def test_truncated_vanilla_pca_truncates_all_that_it_learned():
    X = heavy_tailed(60, 12, 13)
    small, refit = VanillaPCA(6).fit(X).truncate(2), VanillaPCA(2).fit(X)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(small, name), getattr(refit, name), rtol=1e-9)


def test_truncated_certificate_bounds_what_a_fit_at_that_rank_reaches():
    X = sp.csr_array(heavy_tailed(300, 60, 14))
    deep = ItemWeightedPCA(20, solver="matrix_free").fit(X)
    for r in (1, 7, 19):
        optimum = ItemWeightedPCA(r, solver="dense").fit(X).certificate_.objective
        certificate = deep.truncate(r).certificate_
        assert certificate.objective <= optimum * (1 + 1e-12)
        assert certificate.dual_bound * (1 + 2e-12) >= optimum
        assert certificate.gap < 1e-4


@pytest.mark.parametrize("n_components", [2.0, "a", True, None, 0])
def test_truncate_refuses_what_is_not_a_number_of_components(n_components):
    with pytest.raises(InvalidParameterError, match="from 1 to 3"):
        ItemWeightedPCA(3).fit(heavy_tailed(40, 10, 3)).truncate(n_components)


def test_truncating_to_what_was_kept_forgets_what_was_asked_for():
    with pytest.warns(SolverWarning):
        model = VanillaPCA(3).fit(np.outer([1.0, 2.0], [1.0, 1.0, 3.0]))
    small = model.truncate(1)
    assert small.n_components == small.n_components_ == 1


def test_path_over_gamma_refuses_weights_that_override_it():
    X = heavy_tailed(40, 10, 3)
    with pytest.raises(InvalidParameterError, match="which item_weights override"):
        ItemWeightedPCA(2, item_weights=np.ones(10)).fit_path(X, [-1.0, -2.0])
    with pytest.raises(InvalidParameterError, match="gammas must be finite"):
        ItemWeightedPCA(2).fit_path(X, [np.nan])


@pytest.mark.parametrize(
    ("factor", "options", "error", "message"),
    [
        (1e-170, {}, InvalidDataError, "squares beyond floating point"),
        (1e170, {}, InvalidDataError, "squares beyond floating point"),
        (1.0, {"gamma": -400.0}, InvalidParameterError, "gamma=-400.0 gives weights beyond"),
        (1.0, {"gamma": 400.0}, InvalidParameterError, "gamma=400.0 gives weights beyond"),
        (1e3, {"item_weights": np.full(10, 1e305)}, InvalidDataError, "lead beyond floating"),
    ],
)
def test_what_leaves_floating_point_is_refused(factor, options, error, message):
    with pytest.raises(error, match=message):
        ItemWeightedPCA(2, **options).fit(heavy_tailed(40, 10, 3) * factor)


def test_refit_on_ids_forgets_feature_names():
    import pandas as pd

    from equipoise import Interactions

    model = VanillaPCA(2).fit(pd.DataFrame(heavy_tailed(20, 3, 1), columns=["a", "b", "c"]))
    plays = Interactions.from_pairs([1, 1, 2, 2, 3], ["x", "y", "y", "z", "x"])
    model.fit(plays)
    assert not hasattr(model, "feature_names_in_")
    assert model.recommend(plays, k=1).ids.shape == (3, 1)


def test_ids_that_cannot_be_negative_are_padded_with_none_and_keep_their_value():
    from equipoise import Interactions

    large = np.array([2**63 + 5, 2**63 + 6, 2**63 + 5, 7], np.uint64)
    plays = Interactions.from_pairs([1, 1, 2, 2], large)
    ids = ItemWeightedPCA(2).fit(plays).recommend(plays, k=2).ids
    assert ids.tolist() == [[7, None], [2**63 + 6, None]]


def test_one_row_of_a_sparse_array_is_served_as_one_row():
    X = heavy_tailed(30, 8, 2)
    model = ItemWeightedPCA(2).fit(X)
    row = sp.coo_array(sp.csr_array(X).toarray()[0])
    assert row.ndim == 1
    np.testing.assert_array_equal(model.recommend(row).ids, model.recommend(X[0]).ids)


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_explaining_a_senseless_number_of_contributions_is_refused(k):
    X = heavy_tailed(30, 8, 2)
    with pytest.raises(InvalidParameterError, match="whole number"):
        ItemWeightedPCA(2).fit(X).explain(X[0], 1, k=k)


def test_items_given_as_one_number_are_refused():
    X = heavy_tailed(30, 8, 2)
    with pytest.raises(InvalidParameterError, match=r"list, got 3. Pass \[3\]"):
        ItemWeightedPCA(2).fit(X).recommend(X, items=3)
