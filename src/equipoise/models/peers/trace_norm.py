"""Trace-norm matrix factorization: a convex problem whose penalty determines the rank."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import SolverWarning
from equipoise.models.item_vectors import item_norms
from equipoise.models.parameters import Count, RandomState, Tolerance, interval
from equipoise.models.peers.base import FactorModel
from equipoise.models.user_rows import TransformsValues
from equipoise.spectral.certificate import Components
from equipoise.spectral.gram import Gram
from equipoise.spectral.solve import Solver, solve

# Components sought first; the search doubles them until one falls below the threshold. The solver
# is chosen for the rank that the penalties of use on real data end at.
_FIRST_RANK, _USUAL_RANK = 32, 128

# Iterations in float64 cannot reach smaller residuals, relative to the largest eigenvalue.
_SMALLEST_TOL = 1e-12


@dataclass(eq=False, repr=False)
class TraceNormMF(TransformsValues, FactorModel):
    """The matrix Z that minimizes ½‖X − Z‖²_F + τ‖Z‖_*: the SVD of X, softly thresholded.

        Z = Σ_{i : σ_i > τ} (σ_i − τ) u_i v_iᵀ = X V diag((σ − τ)/σ) Vᵀ.

    where

    - X is users × items, with singular values σ and vectors u, v; V contains the v_i that are kept,
    - ‖Z‖_* is the sum of the singular values of Z, the trace norm: the smallest ½(‖A‖²_F + ‖B‖²_F)
      of all factorizations Z = ABᵀ, of any rank,
    - τ = penalty · σ_1.

    The problem is convex, and the rank of Z is whatever the penalty leaves: it cannot be set. Z is
    linear in the rows of X, so a new row x is scored by the same filter, x V diag((σ − τ)/σ) Vᵀ.

    Parameters
    ----------
    penalty : float, default=0.1
        τ as a share of the largest singular value, from 0.001 to less than 1, where Z vanishes. A
        share does not depend on the units of the values.
    value_transform : {"binary", "log1p", "one_plus"} or None, default=None
        x ↦ 1, log(1 + x) or 1 + x for the stored values.
    max_components : int, default=512
        Largest rank. If more singular values exceed τ, the smallest are left out with a
        `SolverWarning`; the result then minimizes the same sum among matrices of at most this
        rank.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        See `ItemWeightedPCA`.
    tol : float, default=1e-6
        Largest residual ‖XᵀXv − σ²v‖ of a component, relative to τ².
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors of the iteration. None means a fixed seed.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_components_)
        B = V diag((σ − τ)^½). With A = X V diag((σ − τ)^½ / σ), the users' factors, Z = ABᵀ and
        ‖A‖²_F = ‖B‖²_F = ‖Z‖_*.
    singular_values_ : ndarray of shape (n_components_,)
        σ of the components that are kept, largest first; those of Z are σ − τ.
    threshold_ : float
        τ.
    n_components_ : int
        The rank of Z.
    solver_ : str
        The path that was taken.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    Optimality: X − Z = τ(UVᵀ + W) with UᵀW = 0, WV = 0 and ‖W‖₂ ≤ 1, a subgradient of the
    trace norm at Z. Entries that are not stored count as zeros, as in all models here.

    The model is not a projection. A projection has a chosen rank, and one fit gives all smaller
    ranks. Here a smaller rank means another penalty, with another τ in every component.

    Srebro, Rennie and Jaakkola minimize the hinge loss of signs under the same norm, by
    semidefinite programming; with squared loss the minimum is the closed form above (Cai,
    Candès and Shen, Theorem 2.1).

    References
    ----------
    Nathan Srebro, Jason Rennie and Tommi Jaakkola, "Maximum-Margin Matrix Factorization",
    NeurIPS 2004. Jian-Feng Cai, Emmanuel Candès and Zuowei Shen, "A Singular Value Thresholding
    Algorithm for Matrix Completion", SIAM Journal on Optimization 20, 2010.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
    >>> model = TraceNormMF(penalty=0.5).fit(X)
    >>> model.threshold_, model.n_components_
    (2.0, 2)
    >>> (model.user_factors(sp.csr_array(X)) @ model.item_factors_.T).round(6).tolist()
    [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    penalty: Annotated[float, interval("[0.001, 1)")] = 0.1
    _: KW_ONLY
    max_components: Count = 512
    solver: Solver = "auto"
    tol: Tolerance = 1e-6
    random_state: RandomState = None

    def _fit(self, data: Interactions) -> None:
        """Find all singular vectors of users × items above the threshold."""
        user_items = data.require_matrix(type(self).__name__)
        signal = Interactions.wrap(self.preprocess(user_items))
        item_norms(signal)  # refuses squares beyond floating point
        usual = min(_USUAL_RANK, self._largest_rank())
        self.solver_ = signal.fastest_solver(usual) if self.solver == "auto" else self.solver
        found = self._solve(signal.gram(kind=self.solver_))
        self._learn(found, user_items.dtype)

    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """The users' factors A = X V diag((σ − τ)^½ / σ), of shape (n_users, n_components_)."""
        return self.preprocess(user_items) @ self._filters()

    def _filters(self) -> NDArray[Any]:
        filters: NDArray[Any] = self.item_factors_ / self.singular_values_
        return filters.astype(self.item_factors_.dtype, copy=False)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        weights = self._filters()[signal.indices] @ self.item_factors_[item]
        return signal.data * weights

    def _largest_rank(self) -> int:
        """Return one more than may be kept, to find out whether components are cut."""
        return min(self.max_components + 1, self.n_features_in_)

    def _solve(self, gram: Gram) -> Components:
        """Leading components of X: all above the threshold, and at least one more if there is."""
        # LAPACK reduces the whole matrix however few components are wanted
        largest = self._largest_rank()
        rank = largest if self.solver_ == "dense" else min(_FIRST_RANK, largest)
        while True:  # from the start each time: block Lanczos gains nothing from earlier components
            found = solve(
                gram,
                np.ones(gram.n_items),
                rank,
                solver=self.solver_,
                tol=max(_SMALLEST_TOL, self.tol * self.penalty**2),
                rng=self._generator(),
                progress=self._progress,
            )
            values = np.sqrt(found.pairs.values)
            below = len(values) < rank or values[-1] <= self.penalty * values[0]
            if below or rank == largest:
                return found
            rank = min(2 * rank, largest)

    def _learn(self, found: Components, dtype: np.dtype[Any]) -> None:
        values = np.sqrt(found.pairs.values)
        self.threshold_ = float(self.penalty * values[0])
        above = int(np.count_nonzero(values > self.threshold_))
        if above > self.max_components:
            warnings.warn(
                f"more than max_components={self.max_components} singular values exceed the "
                f"threshold {self.threshold_:.4g}: the smaller ones are left out, so Z is the "
                "minimum at this rank and not over all. Raise max_components, or penalty.",
                SolverWarning,
                stacklevel=4,
            )
        self.n_components_ = min(above, self.max_components)
        self.singular_values_ = values[: self.n_components_]
        vectors = found.pairs.vectors[:, : self.n_components_]
        factors = vectors * np.sqrt(self.singular_values_ - self.threshold_)
        self.item_factors_ = np.ascontiguousarray(factors, dtype=dtype)
