from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from equipoise.exceptions import SolverError
from equipoise.progress import NoProgress
from equipoise.spectral.certificate import certify
from equipoise.spectral.gram import SparseGram
from equipoise.spectral.lapack import dense_eigenpairs
from equipoise.spectral.solve import choose_solver, solve


def matrix(n: int, m: int, density: float, seed: int = 0) -> sp.csr_array:
    X = sp.random_array(
        (n, m), density=density, random_state=np.random.default_rng(seed), format="csr"
    )
    return sp.csr_array(X)


def test_few_items_are_solved_by_lapack_and_many_without_a_dense_matrix():
    assert choose_solver(matrix(2000, 100, 0.05), 32) == "dense"
    wide = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 5, 49_999])), shape=(3, 50_000))
    assert choose_solver(wide, 2) == "matrix_free"


def test_many_fits_on_one_matrix_favor_a_shared_gram_matrix():
    X = matrix(9000, 1000, 0.05)
    assert choose_solver(X, 8) == "matrix_free"
    assert choose_solver(X, 8, fits=50) == "gram"


def test_blas_is_limited_to_one_thread_during_the_fit_and_restored_after():
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    X = matrix(200, 60, 0.1)
    seen: list[list[int]] = []

    class Threads(NoProgress):
        def note(self, text):  # noqa: ARG002
            seen.append(threads())

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        solve(
            SparseGram(X),
            np.ones(60),
            4,
            solver="matrix_free",
            rng=np.random.default_rng(0),
            progress=Threads(),
        )
        assert threads() == before
    assert seen
    assert all(set(during) == {1} for during in seen)


def test_matrix_free_path_builds_no_items_by_items_and_no_users_by_items_array():
    n, m = 6_000, 5_000
    X = matrix(n, m, 0.001)
    tracemalloc.start()
    gram = SparseGram(X)
    solve(gram, gram.squared_norms + 1, 4, solver="matrix_free", rng=np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < m * m * 8 / 5
    assert peak < n * m * 8 / 5


@pytest.mark.medium
def test_blas_threads_are_restored_after_fits_in_several_threads():
    X = matrix(300, 80, 0.1)

    def fit(seed: int) -> float:
        rng = np.random.default_rng(seed)
        found = solve(SparseGram(X), np.ones(80), 4, solver="matrix_free", rng=rng)
        return found.certificate.objective

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        for _ in range(2):
            with ThreadPoolExecutor(4) as pool:
                objectives = list(pool.map(fit, range(8)))
            assert threads() == before
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-9)


def test_contradiction_between_solution_and_bound_is_an_error_not_a_gap_of_zero():
    pairs = dense_eigenpairs(np.diag([3.0, 2.0, 1.0]), 2)
    with pytest.raises(SolverError, match="exceeds its own upper bound"):
        certify(pairs, objective=5.0, bound=4.9, scale=1.0, passes=1)


@pytest.mark.parametrize("rank", [3, 20, 40])
def test_eigenpairs_are_the_same_if_the_matrix_may_be_overwritten(rank):
    A = np.random.default_rng(2).standard_normal((40, 40))
    M = A + A.T  # indefinite
    values = np.linalg.eigvalsh(M)[::-1]
    kept, overwritten = M.copy(), M.copy()
    expected = dense_eigenpairs(kept, rank)
    found = dense_eigenpairs(overwritten, rank, overwrite=True)
    np.testing.assert_array_equal(kept, M)
    np.testing.assert_allclose(found.values, values[: len(found.values)], atol=1e-12)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-10)
    assert max(found.residuals.max(), expected.residuals.max()) < 1e-12
    assert found.next_value == pytest.approx(expected.next_value, abs=1e-12)
