"""Weighted alternating least squares: a low-rank fit in which every cell counts by a weight.

Minimizes Σ_ui w_ui (x_ui − u_uᵀ v_i)² + λ(‖U‖² + ‖V‖²), where an observed cell has its own value
and weight, and all others have the value 0 and one common weight w₀, which may be 0. Given V, each
row of U is a separate ridge regression:

    (w₀ VᵀV + Σ_i (w_ui − w₀) v_i v_iᵀ + λI) u_u = Σ_i w_ui x_ui v_i      over observed i only,

so VᵀV, computed once, covers all the cells that are not stored. Sums are in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from equipoise.exceptions import InvalidDataError, SolverError
from equipoise.models.explanations import PaddedRows, alike
from equipoise.models.parameters import Count, Positive, RandomState
from equipoise.models.peers.base import FactorModel
from equipoise.models.user_rows import TransformsValues
from equipoise.parallel import in_threads, one_blas_thread, thread_count
from equipoise.progress import Progress, task

Floats = NDArray[np.float64]

# Normal equations of a block of rows take about this. Of a row with more entries, so many are added
# at a time: little memory, however popular an item is.
_BLOCK_BYTES, _GATHERED = 4 * 2**20, 4096

# A pivot that lost all digits of its diagonal entry but these is rounding, not curvature.
_SINGULAR = 8 * float(np.finfo(np.float64).eps)


class Cells(NamedTuple):
    """Values and weights of the cells of users × items.

    Attributes
    ----------
    targets : csr_array of shape (n, m)
        x_ui of the observed cells; a stored 0 is observed.
    weights : ndarray of shape (nnz,)
        w_ui ≥ 0, in the order of ``targets.data``.
    unobserved_weight : float
        w₀ ≥ 0 of every other cell, whose value is 0.
    """

    targets: sp.csr_array
    weights: Floats
    unobserved_weight: float

    @classmethod
    def of(cls, targets: sp.csr_array, weights: NDArray[Any], unobserved_weight: float) -> Self:
        """Take values and weights of any precision."""
        parts = (targets.data.astype(np.float64, copy=False), targets.indices, targets.indptr)
        weights = weights.astype(np.float64, copy=False)
        return cls(sp.csr_array(parts, shape=targets.shape), weights, float(unobserved_weight))

    def transposed(self) -> Self:
        """The same cells as items × users."""
        X = self.targets
        places = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape).tocsc()
        parts = (X.data[places.data], places.indices, places.indptr)
        targets = sp.csr_array(parts, shape=X.shape[::-1])
        return self._replace(targets=targets, weights=self.weights[places.data])


class HalfStep(NamedTuple):
    """The solution for one side, given the other.

    Attributes
    ----------
    factors : ndarray of shape (n, r)
        The minimum.
    explained : float
        Σ_u b_uᵀ u_u, b_u being the right-hand sides: what the best rows take off Σ w x², the
        objective of rows that are 0.
    """

    factors: Floats
    explained: float


class Factorization(NamedTuple):
    """A fit, and its progress.

    Attributes
    ----------
    user_factors, item_factors : ndarray of shape (n, r) and (m, r)
        U and V.
    objectives : ndarray of shape (2 · iterations,)
        The objective after each half-step, users first; never rising.
    """

    user_factors: Floats
    item_factors: Floats
    objectives: Floats


@dataclass(eq=False, repr=False)
class WeightedFactorModel(TransformsValues, FactorModel):
    """Base of the matrix factorizations; a subclass provides values and weights of cells, and fits.

    A user's vector minimizes the model's own objective for the learned items, for users of the
    training data and for new users. It is linear in the values of the user's items, so a score is
    exactly the sum of their contributions.
    """

    n_components: Count = 64
    _: KW_ONLY
    regularization: Positive = 0.01
    iterations: Count = 15
    random_state: RandomState = None

    @abstractmethod
    def cells(self, user_items: sp.csr_array) -> Cells:
        """Return values and weights of these users' cells."""

    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Return one vector per row, of shape (n_users, n_components)."""
        solved = solve_rows(self.cells(user_items), self._item_vectors, self.regularization)
        return solved.factors.astype(self.item_factors_.dtype, copy=False)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        cells = self.cells(user_items)
        return contributions(cells, self._item_vectors, self.regularization, item)

    @property
    def _item_vectors(self) -> Floats:
        return np.asarray(self.item_factors_, dtype=np.float64)


def factorize(
    cells: Cells,
    n_components: int,
    *,
    regularization: float,
    iterations: int,
    tol: float = 0.0,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Factorization:
    """Alternate between users and items, from random items on.

    Parameters
    ----------
    cells : Cells
        The data.
    n_components : int
        r, the rank.
    regularization : float
        λ > 0.
    iterations : int
        At most so many solves of both sides.
    tol : float
        Stop when an iteration lowers the objective by this share of it or less.
    rng : Generator
        Draws the first V.
    progress : Progress, optional
        Receives one step per iteration, with the objective.
    """
    by_item = cells.transposed()
    n_items = cells.targets.shape[1]
    # All positive, as the data mostly are: from mixed signs, a fit of observed cells alone can end
    # with items of opposite sign that no user connects.
    V = rng.random((n_items, n_components)) / np.sqrt(n_components)
    objectives: list[float] = []
    # idle BLAS threads would spin, and take the cores from the threads that share the rows
    with one_blas_thread(), task(progress, "Alternating least squares", iterations) as alternating:
        total = weighted_squares(cells)
        for iteration in range(1, iterations + 1):
            U, explained = solve_rows(cells, V, regularization)
            objectives.append(total - explained + regularization * float(np.vdot(V, V)))
            V, explained = solve_rows(by_item, U, regularization)
            objectives.append(total - explained + regularization * float(np.vdot(U, U)))
            alternating.note(f"objective {objectives[-1]:.6g}")
            alternating.advance()
            if iteration > 1 and objectives[-3] - objectives[-1] <= tol * objectives[-1]:
                break
    return Factorization(U, V, np.array(objectives))


def solve_rows(
    cells: Cells,
    V: Floats,
    regularization: float,
    *,
    threads: int | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> HalfStep:
    """Return the best U for given V: each row by its own normal equations.

    Parameters
    ----------
    cells : Cells
        The data.
    V : ndarray of shape (m, r)
        The other side.
    regularization : float
        λ > 0.
    threads, block_bytes : int
        Threads to use, and memory of each; the result does not depend on the threads.

    Examples
    --------
    One user, two items with v = 1, x = 3 seen with weight 2, nothing counted for the other:
    u = 2·3 / (2 + λ).

    >>> seen = Cells.of(sp.csr_array([[3.0, 0.0]]), np.array([2.0]), 0.0)
    >>> round(solve_rows(seen, np.ones((2, 1)), 1.0).factors.item(), 12)
    2.0

    The unseen one counted with weight 1 as well: u = 2·3 / (2 + 1 + λ).

    >>> both = seen._replace(unobserved_weight=1.0)
    >>> round(solve_rows(both, np.ones((2, 1)), 1.0).factors.item(), 12)
    1.5
    """
    with one_blas_thread():
        common = _common_part(cells, V, regularization)
        return _solve_rows(cells, V, common, threads or thread_count(), block_bytes)


def _solve_rows(
    cells: Cells, V: Floats, common: Floats, threads: int, block_bytes: int
) -> HalfStep:
    X, r = cells.targets, V.shape[1]
    U, explained = np.zeros((X.shape[0], r)), np.zeros(X.shape[0])
    places = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape)
    extra, pull = cells.weights - cells.unobserved_weight, cells.weights * X.data

    def solve(rows: NDArray[np.intp]) -> None:
        own = places[rows]
        columns, stored = PaddedRows.of(own)
        extras, pulls = (PaddedRows.spread(each[own.data], stored) for each in (extra, pull))
        A, b = np.tile(common, (len(rows), 1, 1)), np.zeros((len(rows), r))
        for first in range(0, columns.shape[1], _GATHERED):
            part = slice(first, first + _GATHERED)
            G = V[columns[:, part]]
            A += (G * extras[:, part, None]).swapaxes(1, 2) @ G
            b += (pulls[:, None, part] @ G)[:, 0]
        U[rows] = _solved(A, b)
        explained[rows] = np.einsum("ur,ur->u", b, U[rows])

    def bytes_of(width: int) -> int:
        return 8 * r * (r + 2 * min(width, _GATHERED))

    blocks = list(alike(np.diff(X.indptr), bytes_of, block_bytes))
    parts = max(1, min(len(blocks), threads))

    def run(part: int) -> None:
        for rows in blocks[part::parts]:
            solve(rows)

    in_threads(run, parts)
    return HalfStep(U, float(explained.sum()))


def contributions(cells: Cells, V: Floats, regularization: float, item: int) -> Floats:
    """Split u_uᵀ v_item of a single row into what each of its observed cells adds.

    u_u is linear in the values, u_u = A⁻¹ Σ_i w_ui x_ui v_i, so item i adds
    w_ui x_ui v_iᵀ A⁻¹ v_item (Hu, Koren & Volinsky 2008, section 5).
    """
    G, extra = V[cells.targets.indices], cells.weights - cells.unobserved_weight
    A = _common_part(cells, V, regularization) + (G.T * extra) @ G
    return cells.weights * cells.targets.data * (G @ _solved(A[None], V[[item]])[0])


def weighted_squares(cells: Cells) -> float:
    """Return Σ w x², the objective of zero factors; refuse sums beyond floating point."""
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        total = float(cells.weights @ cells.targets.data**2)
    if not np.finfo(np.float64).tiny <= total < np.inf:
        values = np.abs(cells.targets.data)
        raise InvalidDataError(
            f"values from {values.min():.3g} to {values.max():.3g} with weights from "
            f"{cells.weights.min():.3g} to {cells.weights.max():.3g} have a weighted sum of "
            f"squares of {total:.3g}: there is nothing to fit. Rescale the values, or choose "
            "milder weights."
        )
    return total


def _common_part(cells: Cells, V: Floats, regularization: float) -> Floats:
    """The part of the normal matrix that all rows share: w₀ VᵀV + λI."""
    A: Floats = cells.unobserved_weight * (V.T @ V)
    A[np.diag_indices_from(A)] += regularization
    return A


def _solved(A: Floats, b: Floats) -> Floats:
    """Return A_k⁻¹ b_k for every k; the A_k are symmetric, and are overwritten."""
    diagonals, x, failed = np.diagonal(A, axis1=1, axis2=2).copy(), np.empty_like(b), 0
    for k in range(len(b)):  # SciPy's own loop over matrices takes three times as long
        _, x[k], info = dposv(A[k].T, b[k], overwrite_a=True)
        failed |= info
    pivots = np.diagonal(A, axis1=1, axis2=2)
    if failed or np.any(pivots**2 <= _SINGULAR * diagonals):
        raise SolverError(
            "the normal equations of a row are singular in floating point: regularization is too "
            "small for the weights. Raise regularization, or unobserved_weight."
        )
    return x
