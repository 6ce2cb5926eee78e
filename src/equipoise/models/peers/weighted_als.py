"""Weighted alternating least squares: a low-rank fit in which every cell counts by a weight.

Minimizes Σ_ui w_ui (x_ui − u_uᵀ v_i)² + λ(‖U‖² + ‖V‖²), where an observed cell has its own value
and weight, and all others have the value 0 and one common weight w₀, which may be 0. Given V, each
row of U is a separate ridge regression:

    (w₀ VᵀV + Σ_i (w_ui − w₀) v_i v_iᵀ + λI) u_u = Σ_i w_ui x_ui v_i      over observed i only,

so VᵀV, computed once, covers all the cells that are not stored. Sums are in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from equipoise.exceptions import InvalidDataError, SolverError
from equipoise.models.parameters import Count, Positive, RandomState, estimator
from equipoise.models.peers.base import FactorModel
from equipoise.models.user_rows import TransformsValues
from equipoise.parallel import compile_loop, in_threads, one_blas_thread, thread_count
from equipoise.progress import Progress, task
from equipoise.spectral.kernels import user_ranges

Floats = NDArray[np.float64]

# Above these sizes, loading the compiled loop is cheaper than Python's loop over rows (about 20 µs
# per row) with LAPACK. Both give the same numbers.
_MOST_ROWS = 50_000
_MOST_PRODUCTS = 2e10

# Rows of V gathered at a time: enough for BLAS, and little memory however popular an item is.
_GATHERED = 256

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


@estimator
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
    compiled: bool | None = None,
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
    compiled : bool, optional
        As in `solve_rows`.
    progress : Progress, optional
        Receives one step per iteration, with the objective.
    """
    by_item, total = cells.transposed(), weighted_squares(cells)
    if compiled is None:
        compiled = _compiling_pays((cells, by_item), n_components, iterations)
    n_items = cells.targets.shape[1]
    # All positive, as the data mostly are: from mixed signs, a fit of observed cells alone can end
    # with items of opposite sign that no user connects.
    V = rng.random((n_items, n_components)) / np.sqrt(n_components)
    objectives: list[float] = []
    with task(progress, "Alternating least squares", iterations) as alternating:
        for iteration in range(1, iterations + 1):
            U, explained = solve_rows(cells, V, regularization, compiled=compiled)
            objectives.append(total - explained + regularization * float(np.vdot(V, V)))
            V, explained = solve_rows(by_item, U, regularization, compiled=compiled)
            objectives.append(total - explained + regularization * float(np.vdot(U, U)))
            alternating.note(f"objective {objectives[-1]:.6g}")
            alternating.advance()
            if iteration > 1 and objectives[-3] - objectives[-1] <= tol * objectives[-1]:
                break
    return Factorization(U, V, np.array(objectives))


def solve_rows(
    cells: Cells, V: Floats, regularization: float, *, compiled: bool | None = None
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
    compiled : bool, optional
        Whether to take the compiled loop; by default where it pays.

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
    V = np.ascontiguousarray(V)
    if compiled is None:
        compiled = _compiling_pays((cells,), V.shape[1], 1)
    solve = _solve_compiled if compiled else _solve_lapack
    with one_blas_thread():  # the rows are shared among our own threads
        return solve(cells, V, _common_part(cells, V, regularization))


def contributions(cells: Cells, V: Floats, regularization: float, item: int) -> Floats:
    """Split u_uᵀ v_item of a single row into what each of its observed cells adds.

    u_u is linear in the values, u_u = A⁻¹ Σ_i w_ui x_ui v_i, so item i adds
    w_ui x_ui v_iᵀ A⁻¹ v_item (Hu, Koren & Volinsky 2008, section 5).
    """
    G = V[cells.targets.indices]
    A = _normal_matrix(_common_part(cells, V, regularization), G, cells)
    return cells.weights * cells.targets.data * (G @ _solved(A, V[item]))


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


def _compiling_pays(sides: tuple[Cells, ...], n_components: int, repeated: int) -> bool:
    rows = sum(side.targets.shape[0] for side in sides)
    products = n_components**2 * (sum(side.targets.nnz for side in sides) + rows * n_components / 3)
    return bool(rows * repeated > _MOST_ROWS or products * repeated > _MOST_PRODUCTS)


def _common_part(cells: Cells, V: Floats, regularization: float) -> Floats:
    """The part of the normal matrix that all rows share: w₀ VᵀV + λI."""
    A: Floats = cells.unobserved_weight * (V.T @ V)
    A[np.diag_indices_from(A)] += regularization
    return A


def _normal_matrix(common: Floats, G: Floats, cells: Cells) -> Floats:
    return common + (G.T * (cells.weights - cells.unobserved_weight)) @ G


def _solved(A: Floats, b: Floats) -> Floats:
    L, x, info = dposv(A, b)
    if info != 0 or np.any(L.diagonal() ** 2 <= _SINGULAR * A.diagonal()):
        raise _singular()
    return x


def _singular() -> SolverError:
    return SolverError(
        "the normal equations of a row are singular in floating point: regularization is too "
        "small for the weights. Raise regularization, or unobserved_weight."
    )


def _solve_lapack(cells: Cells, V: Floats, common: Floats) -> HalfStep:
    X = cells.targets
    U, explained = np.zeros((X.shape[0], V.shape[1])), 0.0
    for row in np.flatnonzero(np.diff(X.indptr)):
        stored = slice(X.indptr[row], X.indptr[row + 1])
        G, weights = V[X.indices[stored]], cells.weights[stored]
        A = _normal_matrix(common, G, cells._replace(weights=weights))
        b = (weights * X.data[stored]) @ G
        U[row] = _solved(A, b)
        explained += float(b @ U[row])
    return HalfStep(U, explained)


def _solve_compiled(cells: Cells, V: Floats, common: Floats) -> HalfStep:
    X = cells.targets
    U, explained = np.zeros((X.shape[0], V.shape[1])), np.zeros(X.shape[0])
    ranges = user_ranges(X.indptr, thread_count())
    # numba would compile again for read-only arrays, such as those of Interactions
    data = [np.require(part, requirements="W") for part in (X.indptr, X.indices, X.data)]
    weights = np.require(cells.weights, requirements="W")
    operands = (*data, weights, cells.unobserved_weight, np.require(V, requirements="W"), common)
    loop = _loop()

    def run(part: int) -> None:
        loop(*operands, *ranges[part], U, explained)

    try:
        in_threads(run, len(ranges))
    except np.linalg.LinAlgError:
        raise _singular() from None
    return HalfStep(U, float(explained.sum()))


@cache
def _loop() -> Callable[..., None]:
    return compile_loop(_solve_range)


def _solve_range(
    indptr: Any,
    indices: Any,
    data: Any,
    weights: Any,
    unobserved_weight: float,
    V: Any,
    common: Any,
    start: int,
    stop: int,
    U: Any,
    explained: Any,
) -> None:
    """Solve the rows from start to stop: gather V, add G' diag(w - w0) G, Cholesky."""
    r = V.shape[1]
    G, H = np.empty((_GATHERED, r)), np.empty((_GATHERED, r))
    A, update = np.empty((r, r)), np.empty((r, r))
    for row in range(start, stop):
        if indptr[row] == indptr[row + 1]:
            continue
        A[:] = common
        x = U[row]
        for first in range(indptr[row], indptr[row + 1], _GATHERED):
            count = min(_GATHERED, indptr[row + 1] - first)
            for p in range(count):
                v = V[indices[first + p]]
                extra = weights[first + p] - unobserved_weight
                pull = weights[first + p] * data[first + p]
                for k in range(r):
                    G[p, k] = v[k]
                    H[p, k] = extra * v[k]
                    x[k] += pull * v[k]
            np.dot(G[:count].T, H[:count], update)
            A += update
        L = np.linalg.cholesky(A)
        for k in range(r):  # L y = b, where b is in x and y overwrites it
            if L[k, k] * L[k, k] <= _SINGULAR * A[k, k]:
                raise np.linalg.LinAlgError("singular")
            for j in range(k):
                x[k] -= L[k, j] * x[j]
            x[k] /= L[k, k]
            explained[row] += x[k] * x[k]  # bᵀ A⁻¹ b = ‖y‖²
        for k in range(r - 1, -1, -1):  # Lᵀ u = y
            x[k] /= L[k, k]
            for j in range(k):
                x[j] -= L[k, j] * x[k]
