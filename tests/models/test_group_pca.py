"""PCAs with groups of items or users: goals, floors, disparities, hidden means, certificates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import equipoise
from equipoise import (
    FairPCA,
    Groups,
    HiddenGroupsPCA,
    Interactions,
    ItemWeightedPCA,
    MaxMinItemWeightedPCA,
    VanillaPCA,
)
from equipoise.exceptions import (
    InfeasibleError,
    InvalidDataError,
    InvalidParameterError,
)
from equipoise.models import price_of_floors
from tests.recorded_progress import Recorded


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    tastes = rng.integers(0, 4, 120)
    likes = 0.15 + 0.6 * (np.arange(20) % 4 == tastes[:, None])
    return (rng.random((120, 20)) < likes * np.linspace(1.2, 0.3, 20)).astype(float)


def shares_by_hand(model, X, membership) -> np.ndarray:
    """Σ_{j∈g}⟨X_·j, X̂_·j⟩ / Σ_{j∈g}‖X_·j‖² from the reconstruction."""
    products = np.einsum("uj,uj->j", X, model.reconstruct(X))
    return (products @ membership) / ((X**2).sum(axis=0) @ membership)


def losses_by_hand(model, X, codes, rank) -> np.ndarray:
    """Average squared error of each group beyond its own best."""
    errors = ((X - model.reconstruct(X)) ** 2).sum(axis=1)
    losses = []
    for g in np.unique(codes):
        least = (np.linalg.svd(X[codes == g], compute_uv=False)[rank:] ** 2).sum()
        losses.append((errors[codes == g].sum() - least) / (codes == g).sum())
    return np.array(losses)


class TestMaxMin:
    def test_reported_shares_are_those_of_the_reconstruction(self, X):
        model = MaxMinItemWeightedPCA(4, groups=5).fit(X)
        S = Groups.by_popularity(Interactions.wrap(sp.csr_array(X)), 5).membership.toarray()
        np.testing.assert_allclose(model.certificate_.values, shares_by_hand(model, X, S))

    def test_no_other_model_has_a_larger_smallest_share(self, X):
        model = MaxMinItemWeightedPCA(4, groups=5).fit(X)
        S = Groups.by_popularity(Interactions.wrap(sp.csr_array(X)), 5).membership.toarray()
        best = shares_by_hand(model, X, S).min()
        for gamma in (0.0, -0.5, -1.0, -1.5, -2.0):
            other = ItemWeightedPCA(4, gamma=gamma).fit(X)
            assert shares_by_hand(other, X, S).min() <= best + 1e-9
        assert best <= model.certificate_.dual_bound

    def test_learned_weights_give_the_same_objective_in_item_weighted_pca(self, X):
        model = MaxMinItemWeightedPCA(4, groups=3, tol=1e-9).fit(X)
        weighted = ItemWeightedPCA(4, item_weights=model.item_weights_).fit(X)
        assert weighted.certificate_.objective == pytest.approx(
            model.certificate_.dual_bound, rel=1e-7
        )

    def test_an_alpha_fair_sum_of_single_items_has_the_weights_of_its_derivative(self, X):
        # w_j = (CP)_jj^−α at the optimum, in the units of ‖X‖²
        model = MaxMinItemWeightedPCA(6, groups=np.arange(20), welfare=0.5, tol=1e-9).fit(X)
        kept = np.array(model.certificate_.values)
        weights = model.item_weights_ * (X**2).sum()
        np.testing.assert_allclose(weights, kept**-0.5, rtol=1e-3)
        np.testing.assert_allclose(model.shares_, kept * (X**2).sum() / (X**2).sum(axis=0))

    def test_floors_hold_and_cost_no_more_than_necessary(self, X):
        plain = MaxMinItemWeightedPCA(4, groups=4, floors=0.0).fit(X)
        weighted = ItemWeightedPCA(4, gamma=-1.0).fit(X)
        floor = min(plain.certificate_.values[1:]) + 0.01
        model = MaxMinItemWeightedPCA(4, groups=4, floors=floor).fit(X)
        S = Groups.by_popularity(Interactions.wrap(sp.csr_array(X)), 4).membership.toarray()
        np.testing.assert_allclose(
            shares_by_hand(plain, X, S), shares_by_hand(weighted, X, S), atol=1e-6
        )
        assert shares_by_hand(model, X, S).min() >= floor - 1e-7
        assert model.certificate_.objective < plain.certificate_.objective
        assert len(model.certificate_.binding) >= 2  # the objective and the raised group

    def test_a_floor_for_one_group_by_name(self, X):
        labels = ["hits"] * 15 + ["indie"] * 5
        model = MaxMinItemWeightedPCA(4, groups=labels, floors={"indie": 0.4}).fit(X)
        indie = np.array([label == "indie" for label in labels], dtype=float)[:, None]
        assert shares_by_hand(model, X, indie)[0] >= 0.4 - 1e-7
        assert model.certificate_.names == ("objective", "indie")

    def test_a_floor_out_of_reach_is_refused_with_what_can_be_reached(self, X):
        best = MaxMinItemWeightedPCA(4, groups=4).fit(X).certificate_.dual_bound
        with pytest.raises(InfeasibleError, match="reaches at most") as refused:
            MaxMinItemWeightedPCA(4, groups=4, floors=best + 0.05).fit(X)
        assert best + 0.05 + refused.value.best >= best - 1e-6  # a bound, not below the optimum
        assert set(refused.value.dual_weights) == {f"popularity {i}/4" for i in range(1, 5)}

    def test_a_larger_alpha_gives_a_larger_smallest_part(self, X):
        kept = [
            min(MaxMinItemWeightedPCA(4, groups=5, welfare=w).fit(X).certificate_.values)
            for w in (0.1, 1.0, 4.0)
        ]
        assert np.all(np.diff(kept) >= -1e-12)  # equal ones differ by rounding

    def test_items_may_be_in_several_groups_or_in_none(self, X):
        groups = Groups.from_labels([["a", "b"], "a", None, "b"] * 5, share=True)
        model = MaxMinItemWeightedPCA(4, groups=groups).fit(X)
        S = groups.membership.toarray()
        np.testing.assert_allclose(model.certificate_.values, shares_by_hand(model, X, S))

    @pytest.mark.medium
    def test_a_fractional_map_has_the_shares_of_its_certificate(self):
        rng = np.random.default_rng(0)
        X = sp.random_array((300, 80), density=0.1, random_state=rng).toarray()
        X *= np.linspace(1, 0.05, 80)
        model = MaxMinItemWeightedPCA(8, groups=5, fractional="map").fit(X)
        rounded = MaxMinItemWeightedPCA(8, groups=5).fit(X)
        assert (model.certificate_.outcome, rounded.certificate_.outcome) == ("map", "rounded")
        assert model.n_components_ > 8
        assert rounded.n_components_ == 8
        S = Groups.by_popularity(Interactions.wrap(sp.csr_array(X)), 5).membership.toarray()
        np.testing.assert_allclose(shares_by_hand(model, X, S), model.certificate_.values)
        assert rounded.certificate_.objective < model.certificate_.objective

    def test_a_projection_that_attains_the_optimum_is_preferred_to_a_map(self):
        X = np.kron(np.eye(3), np.ones((4, 1)))  # the diagonal of three items serves all alike
        model = MaxMinItemWeightedPCA(1, groups=["a", "b", "c"], fractional="map").fit(X)
        assert model.certificate_.outcome == "projector"
        np.testing.assert_allclose(shares_by_hand(model, X, np.eye(3)), 1 / 3, atol=1e-6)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"floors": {"c": 0.1}, "groups": ["a", "b"] * 10}, "do not exist"),
            ({"floors": {"a": 1.5}, "groups": ["a", "b"] * 10}, "between 0 and 1"),
            ({"base_gamma": -1.0}, "pass floors too"),
            ({"groups": None}, "needs groups of items"),
            ({"groups": Groups.from_labels(["a"] * 20, of="users")}, "takes groups of items"),
        ],
    )
    def test_wrong_parameters_are_refused(self, X, options, words):
        with pytest.raises(InvalidParameterError, match=words):
            MaxMinItemWeightedPCA(3, **options).fit(X)

    def test_a_group_without_interactions_is_refused_by_name(self, X):
        X[:, 3] = 0
        labels = ["other"] * 20
        labels[3] = "silent"
        with pytest.raises(InvalidDataError, match=r"no interactions.*: silent"):
            MaxMinItemWeightedPCA(3, groups=labels).fit(X)


class TestFairPCA:
    @pytest.fixture
    def codes(self) -> np.ndarray:
        return np.random.default_rng(1).integers(0, 3, 120)

    def test_reported_losses_are_those_of_the_reconstruction(self, X, codes):
        model = FairPCA(4, groups=codes).fit(X)
        order = [int(name) for name in model.certificate_.names]
        losses = losses_by_hand(model, X, codes, 4)[order]
        np.testing.assert_allclose(-np.array(model.certificate_.values), losses, atol=1e-8)

    def test_the_largest_loss_is_below_that_of_pca(self, X, codes):
        fair, plain = FairPCA(4, groups=codes).fit(X), VanillaPCA(4).fit(X)
        largest = losses_by_hand(fair, X, codes, 4).max()
        assert largest < losses_by_hand(plain, X, codes, 4).max()
        assert largest <= -fair.certificate_.dual_bound + 1e-5

    def test_two_groups_have_equal_losses(self, X):
        model = FairPCA(4, groups=np.arange(120) % 2, tol=1e-9).fit(X)
        first, second = losses_by_hand(model, X, np.arange(120) % 2, 4)
        assert first == pytest.approx(second, abs=1e-5)
        assert model.certificate_.outcome == "projector"

    def test_one_group_of_everyone_is_pca(self, X):
        model = FairPCA(4, groups=1, balance="variance").fit(X)
        P = model.components_.T @ model.components_
        plain = VanillaPCA(4).fit(X)
        np.testing.assert_allclose(P, plain.components_.T @ plain.components_, atol=1e-5)

    @pytest.mark.parametrize("balance", ["loss", "variance", "share"])
    @pytest.mark.parametrize("center", [False, True])
    def test_matrix_free_equals_dense(self, X, codes, balance, center):
        options = {"groups": codes, "balance": balance, "center": center, "tol": 1e-8}
        dense = FairPCA(4, solver="dense", **options).fit(X)
        free = FairPCA(4, solver="matrix_free", **options).fit(X)
        assert (dense.solver_, free.solver_) == ("dense", "matrix_free")
        unit = abs(dense.certificate_.objective) + 1
        assert free.certificate_.objective == pytest.approx(
            dense.certificate_.objective, abs=1e-6 * unit
        )

    def test_centered_variance_is_that_of_the_groups_about_their_means(self, X, codes):
        model = FairPCA(4, groups=codes, balance="variance", center=True).fit(X)
        U = model.components_.T
        for name, value in zip(model.certificate_.names, model.certificate_.values, strict=True):
            Y = X[codes == int(name)]
            assert value == pytest.approx(((Y - Y.mean(axis=0)) @ U).var(axis=0).sum(), rel=1e-6)

    def test_a_disparity_is_kept(self, X, codes):
        losses = losses_by_hand(VanillaPCA(4).fit(X), X, codes, 4)
        allowed = np.ptp(losses) / 3
        model = FairPCA(4, groups=codes, max_disparity=allowed, fractional="map").fit(X)
        assert np.ptp(losses_by_hand(model, X, codes, 4)) <= allowed + 1e-6
        assert model.certificate_.names[0] == "variance"

    @pytest.mark.medium
    def test_a_fractional_map_has_the_errors_of_its_certificate(self):
        # five groups compete for few components: some of the six optima are fractional
        rows = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
        X = np.vstack([rows, rows[:, ::-1], np.eye(4)])
        codes = np.arange(10) % 5
        found = 0
        for rank in (1, 2, 3):
            for balance in ("share", "variance"):
                model = FairPCA(rank, groups=codes, balance=balance, fractional="map").fit(X)
                kept = (X**2).sum(axis=1) - ((X - model.reconstruct(X)) ** 2).sum(axis=1)
                totals = (X**2).sum(axis=1) if balance == "share" else np.ones(10)
                names = [int(name) for name in model.certificate_.names]
                by_hand = [kept[codes == g].sum() / totals[codes == g].sum() for g in names]
                np.testing.assert_allclose(by_hand, model.certificate_.values, atol=1e-6)
                found += model.certificate_.outcome == "map"
        assert found

    def test_users_in_no_group_count_for_nobody(self, X, codes):
        labels = [None if u < 30 else int(codes[u]) for u in range(120)]
        with_outsiders = FairPCA(3, groups=Groups.from_labels(labels, of="users")).fit(X)
        without = FairPCA(3, groups=codes[30:]).fit(X[30:])
        np.testing.assert_allclose(
            sorted(with_outsiders.certificate_.values),
            sorted(without.certificate_.values),
            atol=1e-8,
        )

    def test_a_product_of_losses_is_refused(self, X):
        with pytest.raises(InvalidParameterError, match="positive utilities"):
            FairPCA(3, welfare="nash").fit(X)

    def test_groups_match_users_by_id(self, X, codes):
        ids = np.array([f"u{n}" for n in range(120)])
        plays = Interactions.from_sparse(sp.csr_array(X), user_ids=ids, item_ids=np.arange(20))
        order = np.random.default_rng(0).permutation(120)
        groups = Groups.from_labels([str(codes[n]) for n in order], ids[order], of="users")
        by_id = FairPCA(3, groups=groups).fit(plays)
        by_position = FairPCA(3, groups=codes).fit(X)
        assert by_id.certificate_.objective == pytest.approx(by_position.certificate_.objective)


class TestUsersAndItems:
    def test_the_smallest_share_over_both_kinds_of_groups_is_maximal(self, X):
        cp = pytest.importorskip("cvxpy")
        items, users = np.arange(20) % 3, np.array([f"u{i % 2}" for i in range(120)])
        model = MaxMinItemWeightedPCA(4, groups=items, user_groups=users, tol=1e-9).fit(X)
        C = X.T @ X
        parts = []
        for g in range(3):
            D = np.diag((items == g).astype(float))
            parts.append((D @ C + C @ D) / 2 / (C.diagonal() @ (items == g)))
        for name in ("u0", "u1"):
            Y = X[users == name]
            parts.append(Y.T @ Y / (Y**2).sum())
        P, least = cp.Variable((20, 20), symmetric=True), cp.Variable()
        shares = [cp.trace(A @ P) >= least for A in parts]
        problem = cp.Problem(
            cp.Maximize(least), [P >> 0, np.eye(20) - P >> 0, cp.trace(P) <= 4, *shares]
        )
        problem.solve(solver=cp.CLARABEL)
        assert model.certificate_.dual_bound == pytest.approx(problem.value, abs=1e-6)
        assert model.certificate_.names == ("0", "1", "2", "u0", "u1")

    def test_a_floor_for_a_group_of_users_holds(self, X):
        users = np.where(np.arange(120) < 15, "few", "many")
        free = MaxMinItemWeightedPCA(3, groups=2, user_groups=users, floors=0.0).fit(X)
        floor = dict(zip(free.certificate_.names, free.certificate_.values, strict=True))["few"]
        model = MaxMinItemWeightedPCA(
            3, groups=2, user_groups=users, floors={"few": floor + 0.005}
        ).fit(X)
        few = X[users == "few"]
        kept = np.einsum("uj,uj->", few, model.reconstruct(few)) / (few**2).sum()
        assert kept >= floor + 0.005 - 1e-6
        assert model.certificate_.names == ("objective", "few")

    def test_who_is_in_a_group_of_users_is_not_saved(self, X, tmp_path):
        users = np.where(np.arange(120) < 15, "few", "many")
        model = MaxMinItemWeightedPCA(3, groups=2, user_groups=users).fit(X)
        path = model.save(tmp_path / "model.eqp")
        assert equipoise.load(path).user_groups is None
        assert b"many" not in path.read_bytes().replace(b'"many"', b"")  # a name, no members

    def test_groups_of_one_name_are_refused(self, X):
        with pytest.raises(InvalidParameterError, match="different names"):
            MaxMinItemWeightedPCA(2, groups=np.arange(20) % 2, user_groups=np.arange(120) % 2).fit(
                X
            )


class TestPriceOfFloors:
    def test_prices_are_those_of_fits_with_the_floor_and_end_below_the_limit(self, X):
        data = Interactions.wrap(sp.csr_array(X))
        groups = Groups.by_popularity(data, 3)
        prices = price_of_floors(data, groups, 4, points=3)
        free = MaxMinItemWeightedPCA(4, groups=groups, floors=0.0).fit(data).certificate_
        C = X.T @ X
        for g, price in enumerate(prices):
            D = np.diag(groups.membership.toarray()[:, g])
            A = (D @ C + C @ D) / 2 / (C.diagonal() @ D.diagonal())
            assert price.limit == pytest.approx(np.linalg.eigvalsh(A)[-4:].sum(), rel=1e-4)
            assert price.kept[0] == 1.0
            assert list(price.kept) == sorted(price.kept, reverse=True)
            floors = {price.group: price.floors[1]}
            model = MaxMinItemWeightedPCA(4, groups=groups, floors=floors).fit(data)
            expected = model.certificate_.objective / free.objective
            assert price.kept[1] == pytest.approx(expected, abs=2e-4)
            assert price.floors[-1] < price.limit

    def test_floors_are_shares_even_where_the_limit_is_above_one(self):
        # all users of the niche item have the popular one: ½(DC + CD)/12 = [[0, ½], [½, 1]]
        X = np.zeros((60, 2))
        X[:, 0], X[:12, 1] = 1, 1
        data = Interactions.wrap(sp.csr_array(X))
        prices = price_of_floors(data, Groups.from_labels(["hit", "niche"]), 1, points=3)
        niche = prices[[price.group for price in prices].index("niche")]
        assert niche.limit == pytest.approx((1 + np.sqrt(2)) / 2)
        assert max(niche.floors) <= 1


class TestHiddenGroups:
    @pytest.fixture
    def codes(self, X) -> np.ndarray:
        # membership depends on the data: plain coordinates reveal it
        return (X[:, :4].sum(axis=1) + np.random.default_rng(0).random(120) > 2).astype(int)

    def test_group_means_of_the_coordinates_agree(self, X, codes):
        for solver in ("dense", "matrix_free"):
            Y = HiddenGroupsPCA(4, groups=codes, solver=solver).fit_transform(X)
            np.testing.assert_allclose(
                Y[codes == 0].mean(axis=0), Y[codes == 1].mean(axis=0), atol=1e-10
            )

    def test_a_linear_classifier_learns_nothing_from_the_coordinates(self, X, codes):
        majority = max(codes.mean(), 1 - codes.mean())
        hidden = HiddenGroupsPCA(4, groups=codes).fit_transform(X)
        plain = VanillaPCA(4).fit_transform(X)
        assert LogisticRegression().fit(hidden, codes).score(hidden, codes) <= majority + 1e-12
        assert LogisticRegression().fit(plain, codes).score(plain, codes) > majority

    def test_it_equals_pca_in_the_null_space_of_the_centered_labels(self, X, codes):
        # the published construction of Kleindessner et al.
        Xc, z = X - X.mean(axis=0), codes - codes.mean()
        _, _, Vt = np.linalg.svd((z @ Xc)[None, :])
        R = Vt[1:].T
        W = np.linalg.eigh(R.T @ Xc.T @ Xc @ R)[1][:, ::-1][:, :3]
        U = HiddenGroupsPCA(3, groups=codes, tol=1e-9).fit(X).components_.T
        np.testing.assert_allclose(U @ U.T, R @ W @ W.T @ R.T, atol=1e-7)

    def test_the_covariance_budget_bounds_the_gap_between_covariances(self, X, codes):
        free = HiddenGroupsPCA(4, groups=codes).fit(X)
        covariances = [np.cov(X[codes == g], rowvar=False, bias=True) for g in (0, 1)]
        Q = (covariances[0] - covariances[1]) / 2  # Σ_0 − Σ̄

        def gap(model):
            U = model.components_.T * np.sqrt(model.occupations_)
            return np.linalg.norm(U.T @ Q @ U, 2)

        budget = gap(free) / 2
        model = HiddenGroupsPCA(4, groups=codes, covariance=budget).fit(X)
        assert gap(model) <= budget + 1e-8
        assert model.covariance_gap_ == pytest.approx(gap(model), rel=1e-6)
        assert model.certificate_.objective <= free.certificate_.objective

    def test_the_covariance_budget_without_dense_matrices_has_the_same_optimum(self, X, codes):
        dense = HiddenGroupsPCA(4, groups=codes, covariance=0.1, solver="dense").fit(X)
        free = HiddenGroupsPCA(
            4, groups=codes, covariance=0.1, covariance_directions=20, solver="matrix_free"
        ).fit(X)
        assert free.certificate_.objective == pytest.approx(dense.certificate_.objective, rel=1e-5)
        assert dense.covariance_gap_ <= dense.covariance_bound_ == pytest.approx(0.1)

    def test_with_few_directions_the_stated_bound_still_holds(self, X, codes):
        model = HiddenGroupsPCA(
            4, groups=codes, covariance=0.02, covariance_directions=2, solver="matrix_free"
        ).fit(X)
        assert model.covariance_bound_ > 0.02
        assert model.covariance_gap_ <= model.covariance_bound_

    @pytest.mark.parametrize("solver", ["dense", "matrix_free"])
    def test_soft_mean_matching_equals_a_semidefinite_solver(self, solver, X, codes):
        cp = pytest.importorskip("cvxpy")
        means = np.stack([X[codes == g].mean(axis=0) for g in (0, 1)])
        F = (means - means.mean(axis=0)).T
        gap = HiddenGroupsPCA(3, groups=codes, mean_gap=10.0).fit(X).mean_gap_ / 2
        C = np.cov(X, rowvar=False, bias=True)
        P = cp.Variable((20, 20), symmetric=True)
        limits = [f @ P @ f <= gap**2 for f in F.T]
        problem = cp.Problem(
            cp.Maximize(cp.trace(C @ P)),
            [P >> 0, np.eye(20) - P >> 0, cp.trace(P) <= 3, *limits],
        )
        problem.solve(solver=cp.CLARABEL)
        model = HiddenGroupsPCA(3, groups=codes, mean_gap=gap, solver=solver, tol=1e-9).fit(X)
        assert model.certificate_.objective == pytest.approx(problem.value, rel=1e-6)
        assert model.mean_gap_ == pytest.approx(gap, rel=1e-4)
        U = model.components_.T * np.sqrt(model.occupations_)
        assert np.linalg.norm(U.T @ F, axis=0).max() == pytest.approx(gap, rel=1e-4)

    def test_a_smaller_mean_gap_keeps_less_variance(self, X, codes):
        kept = [
            HiddenGroupsPCA(3, groups=codes, mean_gap=gap).fit(X).certificate_.objective
            for gap in (0.0, 0.1, 0.3, 10.0)
        ]
        assert np.all(np.diff(kept) >= -1e-12)  # equal ones differ by rounding
        centered = X - X.mean(axis=0)
        pca = (np.linalg.svd(centered, compute_uv=False)[:3] ** 2).sum() / len(X)
        assert kept[-1] == pytest.approx(pca, rel=1e-6)

    def test_equal_opportunity_matches_the_means_of_the_chosen_users(self, X, codes):
        chosen = np.arange(120) % 3 == 0
        model = HiddenGroupsPCA(4, groups=codes, equal_opportunity=chosen)
        Y = model.fit_transform(X)
        first, second = (Y[chosen & (codes == g)].mean(axis=0) for g in (0, 1))
        np.testing.assert_allclose(first, second, atol=1e-10)
        with pytest.raises(InvalidDataError, match="one bool for each"):
            model.set_params(equal_opportunity=[True]).fit(X)

    def test_too_many_components_for_the_complement_are_refused(self, X, codes):
        with pytest.raises(InvalidParameterError, match="must be at most 19"):
            HiddenGroupsPCA(20, groups=codes).fit(X)


class TestErrorBudget:
    BUDGETED = (
        MaxMinItemWeightedPCA(4, groups=5),
        MaxMinItemWeightedPCA(4, groups=5, welfare="nash"),
        MaxMinItemWeightedPCA(4, groups=3, floors=0.3),
        MaxMinItemWeightedPCA(4, groups=3, user_groups=3),
        FairPCA(4, groups=3),
        FairPCA(4, groups=3, solver="matrix_free"),
        FairPCA(4, groups=3, balance="share", welfare=2.0),
    )

    @pytest.mark.medium
    @pytest.mark.parametrize("model", BUDGETED, ids=repr)
    def test_the_error_stays_within_the_budget_and_the_goal_pays_for_it(self, model, X):
        least = (np.linalg.svd(X, compute_uv=False)[4:] ** 2).sum()

        def excess(fitted) -> float:
            return float(((X - fitted.reconstruct(X)) ** 2).sum() / least - 1)

        free = clone(model).fit(X)
        budget = excess(free) / 2
        bounded = clone(model).set_params(error_budget=budget).fit(X)
        assert excess(bounded) <= budget + 1e-6
        assert bounded.certificate_.names[-1] == "error budget"
        assert bounded.certificate_.objective <= free.certificate_.objective + 1e-9
        assert bounded.certificate_.gap <= 1e-6
        loose = clone(model).set_params(error_budget=10.0).fit(X)
        assert loose.certificate_.objective == pytest.approx(free.certificate_.objective, rel=1e-5)

    def test_the_optimum_within_a_budget_equals_that_of_a_semidefinite_solver(self, X):
        cp = pytest.importorskip("cvxpy")
        codes, budget = np.arange(120) % 3, 0.001
        C = [X[codes == g].T @ X[codes == g] for g in range(3)]
        values = np.linalg.eigvalsh(sum(C))
        P = cp.Variable((20, 20), symmetric=True)
        kept = [cp.trace(M @ P) / np.trace(M) for M in C]
        limit = cp.trace(sum(C) @ P) >= values.sum() - (1 + budget) * values[:-4].sum()
        cone = [P >> 0, np.eye(20) - P >> 0, cp.trace(P) <= 4, limit]
        program = cp.Problem(cp.Maximize(cp.min(cp.hstack(kept))), cone)
        program.solve(solver=cp.CLARABEL)
        model = FairPCA(4, groups=codes, balance="share", error_budget=budget, tol=1e-9).fit(X)
        assert model.certificate_.dual_bound == pytest.approx(program.value, rel=1e-6)
        assert "error budget" in model.certificate_.binding

    def test_learned_weights_include_the_multiplier_of_the_budget(self, X):
        model = MaxMinItemWeightedPCA(4, groups=2, error_budget=0.01, tol=1e-9).fit(X)
        weighted = ItemWeightedPCA(4, item_weights=model.item_weights_).fit(X)
        slack = np.array(model.certificate_.values) @ model.certificate_.dual_weights
        least = (np.linalg.svd(X, compute_uv=False)[4:] ** 2).sum() * 1.01 / (X**2).sum()
        shift = model.certificate_.dual_weights[-1] * (1 - least)
        assert weighted.certificate_.objective == pytest.approx(slack + shift, rel=1e-6)

    def test_a_floor_that_the_budget_rules_out_is_refused(self, X):
        labels = ["hits"] * 15 + ["indie"] * 5
        limit = MaxMinItemWeightedPCA(4, groups=labels, floors={"indie": 0.4})
        limit.fit(X)
        with pytest.raises(InfeasibleError, match=r"error_budget=0\.001"):
            limit.set_params(error_budget=0.001).fit(X)

    def test_a_disparity_that_the_budget_rules_out_is_refused(self, X):
        model = FairPCA(4, groups=3, balance="variance", max_disparity=0.6).fit(X)
        with pytest.raises(InfeasibleError, match=r"max_disparity=0.6 and error_budget=0\.01"):
            model.set_params(error_budget=0.01).fit(X)

    def test_a_budget_of_zero_is_pca(self, X):
        model = FairPCA(4, groups=3, balance="share", error_budget=0.0).fit(X)
        pca = VanillaPCA(4).fit(X)
        kept = (model.transform(X) ** 2).sum(), (pca.transform(X) ** 2).sum()
        assert kept[0] == pytest.approx(kept[1], rel=1e-5)


MODELS = [
    MaxMinItemWeightedPCA(3, groups=4),
    FairPCA(3, groups=4, balance="share", fractional="map"),
    HiddenGroupsPCA(3, groups=2),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
class TestShared:
    def test_smaller_ranks_are_refused_without_a_fit(self, model, X):
        with pytest.raises(InvalidParameterError, match="no nested ranks"):
            model.fit(X).truncate(2)

    def test_a_saved_model_keeps_its_certificate_and_forgets_who_is_in_a_group(
        self, model, X, tmp_path
    ):
        labels = np.arange(20 if isinstance(model, MaxMinItemWeightedPCA) else 120) % 3
        fitted = type(model)(3, groups=labels).fit(X)
        loaded = equipoise.load(fitted.save(tmp_path / "model.eqp"))
        assert loaded.certificate_ == fitted.certificate_
        np.testing.assert_array_equal(loaded.score_items(X), fitted.score_items(X))
        assert loaded.groups is None
        with pytest.raises(InvalidParameterError, match="not saved with a model"):
            loaded.fit(X)

    def test_the_same_seed_gives_the_same_bits_and_progress_is_reported(self, model, X):
        recorded = Recorded()
        first, second = (
            clone(model).set_params(solver="matrix_free", random_state=3) for _ in range(2)
        )
        first.fit(X, progress=recorded)
        second.fit(X)
        np.testing.assert_array_equal(first.components_, second.components_)
        assert first.certificate_ == second.certificate_
        assert any("passes over the data" in str(call) for call in recorded.calls)

    def test_the_certificate_prints_every_group(self, model, X):
        text = str(model.fit(X).certificate_)
        assert "upper bound" in text
        assert all(name[:20] in text for name in model.certificate_.names)

    def test_data_in_blocks_give_the_same_solution(self, model, X, tmp_path):
        import polars as pl

        users, items = np.nonzero(X)
        pl.DataFrame({"user": users, "item": items}).write_parquet(tmp_path / "plays.parquet")
        memory = Interactions.read(tmp_path / "plays.parquet")
        blocks = Interactions.read(tmp_path / "plays.parquet", memory="1GB", n_blocks=3)
        ours = type(model)(3, solver="matrix_free").fit(blocks).certificate_
        theirs = type(model)(3, solver="matrix_free").fit(memory).certificate_
        assert ours.objective == pytest.approx(theirs.objective, abs=1e-6)
