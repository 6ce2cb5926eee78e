"""WeightedMF is implicit's ALS with users folded in exactly, and serves without implicit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from equipoise.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError
from equipoise.models.peers.weighted_mf import WeightedMF


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


@pytest.fixture
def als():
    return pytest.importorskip("implicit.cpu.als")


needs_implicit = pytest.mark.usefixtures("als")


def confidences(X: np.ndarray, of) -> sp.csr_matrix:
    R = sp.csr_matrix(X)
    return sp.csr_matrix((of(R.data), R.indices, R.indptr), R.shape, dtype=np.float32)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    ("model", "of"),
    [
        (WeightedMF(5), lambda r: 1 + r),
        (WeightedMF(5, alpha=40.0, regularization=2.0, iterations=7), lambda r: 1 + 40 * r),
        (WeightedMF(5, confidence="proportional"), lambda r: r),
        (WeightedMF(5, confidence="proportional", alpha=3.0), lambda r: 3 * r),
        (WeightedMF.published(5), lambda r: r + (r > 0)),
        (WeightedMF.published(5, source="text"), lambda r: 1.0 * (r > 0)),
    ],
    ids=["default", "alpha", "proportional", "proportional, alpha", "code", "text"],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.medium
def test_item_factors_are_those_of_implicit_to_the_bit(als, X, model, of, seed, threads):
    direct = als.AlternatingLeastSquares(
        factors=5,
        regularization=model.regularization,
        iterations=model.iterations,
        random_state=seed,
        num_threads=threads,
    )
    direct.fit(confidences(X, of), show_progress=False)
    ours = clone(model).set_params(random_state=seed).fit(X)
    np.testing.assert_array_equal(ours.item_factors_, direct.item_factors)


@needs_implicit
def test_user_scaling_equals_rows_scaled_before_the_fit(X):
    scaled = X / np.maximum((X > 0).sum(axis=1, keepdims=True), 1)
    model, by_hand = WeightedMF(5, user_scaling=1.0).fit(X), WeightedMF(5).fit(scaled)
    np.testing.assert_allclose(model.item_factors_, by_hand.item_factors_, atol=1e-6)
    np.testing.assert_allclose(model.score_items(X), by_hand.score_items(scaled), atol=1e-6)


@needs_implicit
def test_without_a_seed_the_seed_is_zero_and_a_random_state_moves_on(X):
    fits = [WeightedMF(3, random_state=seed).fit(X).item_factors_ for seed in (None, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[1], fits[2])
    state = np.random.RandomState(4)
    moving = [WeightedMF(3, random_state=state).fit(X).item_factors_ for _ in range(2)]
    assert not np.array_equal(*moving)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 25.0])
def test_users_are_those_that_implicit_recalculates(als, X, alpha):
    X[4] = 0  # nobody's items
    model = WeightedMF(4, alpha=alpha, regularization=0.5).fit(X)
    direct = als.AlternatingLeastSquares(factors=4, regularization=0.5)
    direct.item_factors = model.item_factors_.astype(np.float32)
    expected = direct.recalculate_user(np.arange(40), confidences(X, lambda r: 1 + alpha * r))
    np.testing.assert_allclose(model.user_factors(sp.csr_array(X)), expected, atol=2e-5)
    assert not model.user_factors(sp.csr_array(X))[4].any()


@needs_implicit
def test_users_minimize_the_formula_of_hu_koren_and_volinsky(X):
    model = WeightedMF(4, alpha=2.0, regularization=0.5).fit(X)
    V = model.item_factors_
    for row, user in zip(X, model.user_factors(sp.csr_array(X)), strict=True):
        c, p = 1 + 2.0 * row, (row > 0).astype(float)
        gradient = V.T @ (c * (V @ user - p)) + 0.5 * user
        np.testing.assert_allclose(gradient, 0, atol=1e-10)


def test_contributions_are_those_that_implicit_explains(als, X):
    model = WeightedMF(4, regularization=0.5).fit(X)
    direct = als.AlternatingLeastSquares(factors=4, regularization=0.5)
    direct.item_factors = model.item_factors_.astype(np.float32)
    C = confidences(X, lambda r: 1 + r)
    for user in (0, 5):
        for item in (2, 9):
            ours = model.explain(X[user], item, k=None)
            score, theirs, _ = direct.explain(user, C, item, N=14)
            assert ours.score == pytest.approx(score, abs=1e-5)
            assert ours.contributions.sum() == pytest.approx(ours.score, abs=1e-12)
            by_item = dict(zip(ours.ids.tolist(), ours.contributions.tolist(), strict=True))
            assert by_item == pytest.approx(dict(theirs), abs=1e-5)


def test_the_alpha_zero_of_implicit_leaves_no_factors_and_ours_does(als, X):
    direct = als.AlternatingLeastSquares(factors=3, alpha=0.0, random_state=0)
    direct.fit(confidences(X, lambda r: r), show_progress=False)
    assert np.abs(direct.item_factors).max() < 1e-6
    assert np.abs(WeightedMF(3, alpha=0.0).fit(X).item_factors_).max() > 0.1


@needs_implicit
@pytest.mark.medium
def test_a_saved_model_is_served_where_implicit_is_not_installed(X, tmp_path):
    model = WeightedMF.published(3).fit(X)
    path = model.save(tmp_path / "model.eqp")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys; sys.modules['implicit'] = None\n"
        "import numpy as np\n"
        "from equipoise.models.peers.weighted_mf import WeightedMF\n"
        f"X = np.load({str(tmp_path / 'X.npy')!r})\n"
        f"model = WeightedMF.load({str(path)!r})\n"
        "print(model, model.recommend(X, k=4).ids.tolist(), model.explain(X[0], 2).score)\n"
        "print([module for module in sys.modules if module.startswith('implicit.')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = f"{model} {model.recommend(X, k=4).ids.tolist()} {model.explain(X[0], 2).score}"
    assert run.stdout.splitlines() == [expected, "[]"]


def test_fitting_without_implicit_names_what_to_install(X, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(
        MissingExtraError,
        match=r'fitting WeightedMF needs .*implicit.*: pip install "equipoise\[als\]"',
    ):
        WeightedMF(3).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter of WeightedMF must be an int in the range"),
        ({"n_components": 15}, "n_components=15 must be at most the number of items, 14"),
        ({"alpha": -1.0}, "'alpha' parameter of WeightedMF must be a float in the range"),
        ({"confidence": "log"}, "'confidence' parameter of WeightedMF must be a str among"),
        ({"regularization": 0.0}, "'regularization' parameter of WeightedMF must be a float in"),
        ({"iterations": 0}, "'iterations' parameter of WeightedMF must be an int in the range"),
        (
            {"alpha": 0.0, "confidence": "proportional"},
            "alpha=0 with confidence='proportional' makes every confidence 0, and all factors",
        ),
    ],
)
def test_bad_parameters_are_refused(X, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        WeightedMF(**{"n_components": 3, **parameters}).fit(X)


def test_an_unknown_source_is_refused():
    with pytest.raises(InvalidParameterError, match=r"one of \['code', 'text'\], got 'memory'"):
        WeightedMF.published(3, source="memory")


@needs_implicit
@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_confidences_that_float32_cannot_hold_are_refused(X, scale):
    with pytest.raises(InvalidDataError, match="confidences beyond float32"):
        WeightedMF(3, confidence="proportional").fit(X * scale)


def test_a_fit_does_not_scan_the_loaded_libraries(monkeypatch):
    """A scan deadlocks with an import in another thread."""
    pytest.importorskip("implicit")
    scans = []
    monkeypatch.setattr("implicit.utils.threadpoolctl.threadpool_info", lambda: scans.append(1))
    WeightedMF(2, iterations=1).fit(np.eye(4))
    assert scans == []
