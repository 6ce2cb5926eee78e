from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.linalg as sl

from equipoise.exceptions import SolverError
from equipoise.progress import task
from equipoise.spectral.lanczos import lanczos_eigenpairs
from equipoise.spectral.lapack import dense_eigenpairs, fix_signs, orthonormalize
from tests.recorded_progress import Recorded


@dataclass
class Matrix:
    """A dense symmetric matrix as an operator."""

    M: np.ndarray
    working_dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    passes: int = 0

    @property
    def size(self) -> int:
        return len(self.M)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        self.passes += 1
        return self.M.astype(V.dtype) @ V


def planted(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """A symmetric matrix with exactly these eigenvalues."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T


def solve(M: np.ndarray, rank: int, dtype: type = np.float64, seed: int = 0, **options):
    rng = np.random.default_rng(seed)
    return lanczos_eigenpairs(Matrix(M, np.dtype(dtype)), rank, rng=rng, **options)


def angle(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.max(sl.subspace_angles(A, B)))


DECAY = np.concatenate([2.0 ** -np.arange(20.0), np.linspace(1e-3, -0.5, 280)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 7, 12])
def test_planted_spectrum_is_found_with_true_residuals(rank, dtype):
    M = planted(DECAY)
    found = solve(M, rank, dtype)
    np.testing.assert_allclose(found.values, np.sort(DECAY)[::-1][:rank], atol=1e-9)
    residuals = np.linalg.norm(M @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, residuals, atol=1e-14)
    assert found.max_residual <= 1e-6


def test_largest_algebraic_not_largest_magnitude():
    values = np.concatenate([[-9.0, -8.0, 3.0, 2.0, 1.0], np.linspace(0.5, -7, 95)])
    np.testing.assert_allclose(solve(planted(values), 3).values, [3, 2, 1], atol=1e-9)


def test_early_negative_ritz_values_do_not_stop_the_search():
    values = np.concatenate([[1.0], np.linspace(-0.9, -1, 199)])
    found = solve(planted(values), 1)
    np.testing.assert_allclose(found.values, [1.0], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("copies", [9, 16, 40])
def test_copies_of_a_repeated_eigenvalue_are_not_missed(copies, dtype):
    """A block of 8 vectors holds 8 copies; the others must be found by the probe."""
    values = np.concatenate([np.full(copies, 2.0), [1.9, 1.8], np.linspace(1, 0, 300)])
    found = solve(planted(values), copies + 2, dtype, block=8)
    assert found.values.sum() == pytest.approx(2 * copies + 1.9 + 1.8, rel=1e-9)


def test_repeated_eigenvalue_that_straddles_the_cut_is_filled_up():
    values = np.concatenate([[3.0], np.full(30, 2.0), np.linspace(1, 0, 200)])
    found = solve(planted(values), 20, block=8)
    np.testing.assert_allclose(found.values, [3.0] + [2.0] * 19, atol=1e-9)
    assert found.next_value == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_low_rank_matrix_gives_only_its_own_components(dtype):
    values = np.concatenate([np.linspace(3, 1, 13), np.zeros(187)])
    found = solve(planted(values), 32, dtype)
    assert len(found.values) == 13
    np.testing.assert_allclose(found.values, values[:13], atol=1e-9)


def test_rank_one_matrix_survives_the_breakdown_of_its_krylov_space():
    ones = np.ones((150, 150))
    found = solve(ones, 10, np.float32)
    np.testing.assert_allclose(found.values, [150.0], rtol=1e-12)


def test_fewer_positive_eigenvalues_than_asked_for_give_fewer_pairs():
    values = np.concatenate([[3.0, 2.0], np.linspace(-0.1, -1, 98)])
    for found in (solve(planted(values), 6), dense_eigenpairs(planted(values), 6)):
        np.testing.assert_allclose(found.values, [3, 2], atol=1e-9)
        assert found.next_value == 0.0


def test_float32_iteration_is_finished_in_float64_when_it_cannot_reach_the_tolerance():
    M = planted(DECAY)
    found = solve(M, 8, np.float32, tol=1e-10)
    assert found.max_residual <= 1e-10


@pytest.mark.parametrize("size", [2, 3, 9, 17, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_spaces_are_exhausted_exactly(size, dtype):
    values = np.linspace(5, 1, size)
    for rank in {1, size // 2 or 1, size}:
        np.testing.assert_allclose(
            solve(planted(values), rank, dtype).values, values[:rank], rtol=1e-10
        )


def test_same_seed_gives_the_same_bits_and_another_seed_the_same_subspace():
    M = planted(DECAY)
    first, again, other = solve(M, 8), solve(M, 8), solve(M, 8, seed=1)
    np.testing.assert_array_equal(first.vectors, again.vectors)
    np.testing.assert_array_equal(first.values, again.values)
    assert angle(first.vectors, other.vectors) < 1e-4
    assert np.all(np.sum(first.vectors * other.vectors, axis=0) > 0.99)


def test_warm_start_takes_fewer_passes():
    M = planted(np.concatenate([np.linspace(2, 1.5, 10), np.linspace(1.2, -1, 390)]))
    cold = solve(M, 10)
    nearby = M + 1e-4 * planted(np.ones(400), seed=2)
    warm = solve(nearby, 10, start=cold.vectors)
    assert warm.passes < cold.passes
    np.testing.assert_allclose(warm.values, np.linalg.eigvalsh(nearby)[::-1][:10], atol=1e-9)


def test_next_value_bounds_the_first_eigenvalue_left_out():
    M = planted(DECAY)
    truth = np.sort(DECAY)[::-1]
    for rank in (3, 8):
        assert truth[rank] - 1e-9 <= solve(M, rank).next_value <= truth[rank] + 1e-3


def test_a_solver_that_stops_early_reports_its_residual_and_what_to_do():
    M = planted(np.linspace(1, 0.9, 500))
    with pytest.raises(SolverError, match=r"stopped at residual .* Raise tol"):
        solve(M, 5, tol=1e-9, max_passes=3)


def test_progress_has_a_note_after_every_convergence_check():
    seen = Recorded()
    with task(seen, "Solving"):
        found = solve(planted(DECAY), 8, progress=seen)
    residuals = [float(re.search(r"residual (\S+)", note)[1]) for note in seen.notes()]
    assert residuals[-1] <= 1e-6
    assert len(residuals) <= found.passes


def test_signs_make_every_sum_positive_or_the_largest_entry_where_the_sum_vanishes():
    U = np.array([[-0.6, -0.5], [0.5, 0.5], [0.5, 0.0]])
    fixed = fix_signs(U)
    np.testing.assert_allclose(fixed[:, 0], [-0.6, 0.5, 0.5])  # the largest entry is negative
    np.testing.assert_allclose(fixed[:, 1], [0.5, -0.5, 0.0])


# at 3e-4 a Cholesky factor exists in float32, but is mostly rounding
@pytest.mark.parametrize(
    ("dtype", "apart"), [(np.float32, 1e-9), (np.float64, 1e-9), (np.float32, 3e-4)]
)
def test_nearly_dependent_columns_are_orthonormalized_by_householder(dtype, apart):
    rng = np.random.default_rng(0)
    column = rng.standard_normal((200, 1))
    W = np.hstack([column, column + apart * rng.standard_normal((200, 1))]).astype(dtype)
    Q, R = orthonormalize(W)
    np.testing.assert_allclose(Q.T @ Q, np.eye(2), atol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(Q @ R, W, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_start_that_is_invariant_but_not_leading_is_left_behind(dtype):
    """Two audiences with nothing in common: vectors of the one say nothing about the other."""
    weak, strong = planted(np.linspace(1, 0.1, 40)), planted(np.linspace(9, 0.5, 60), seed=1)
    M = sl.block_diag(weak, strong)
    trap = np.linalg.eigh(M)[1]
    trap = trap[:, np.abs(trap[:40]).sum(axis=0) > 0.5][:, -4:]  # eigenvectors of the weak one
    assert np.linalg.norm(trap[40:]) < 1e-10
    found = solve(M, 4, dtype, start=trap)
    np.testing.assert_allclose(found.values, np.linspace(9, 0.5, 60)[:4], rtol=1e-9)


@pytest.mark.parametrize("size", [40, 300])
@pytest.mark.parametrize("rank", [1, 8, 9, 16])
def test_identity_matrix_has_as_many_components_as_are_asked_for(size, rank):
    found = solve(np.eye(size), rank)
    np.testing.assert_allclose(found.values, np.ones(rank), rtol=1e-10)
    np.testing.assert_allclose(dense_eigenpairs(np.eye(size), rank).values, np.ones(rank))


def test_clustered_tail_is_solved_from_a_start_and_in_the_float64_finish():
    values = np.concatenate([np.linspace(2, 1.2, 10), 1.19 - 1e-3 * np.arange(190)])
    M = planted(values)
    cold = solve(M, 10)
    warm = solve(M + 1e-6 * planted(np.ones(200), seed=3), 10, start=cold.vectors)
    assert warm.max_residual <= 1e-6
    fine = solve(M, 10, np.float32, tol=1e-10)
    np.testing.assert_allclose(fine.values, values[:10], rtol=1e-12)


def test_probing_for_missed_copies_needs_no_square_array():
    import tracemalloc

    m = 3000

    class Copies:
        """A diagonal matrix with 40 copies of its largest eigenvalue."""

        size, working_dtype, passes = m, np.dtype(np.float64), 0
        diagonal = np.concatenate([np.full(40, 2.0), np.linspace(1, 0, m - 40)])

        def __call__(self, V):
            self.passes += 1
            return self.diagonal[:, None] * V

    tracemalloc.start()
    found = lanczos_eigenpairs(Copies(), 20, rng=np.random.default_rng(0), block=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found.values, np.full(20, 2.0), rtol=1e-9)
    assert peak < m * m * 8 / 4
