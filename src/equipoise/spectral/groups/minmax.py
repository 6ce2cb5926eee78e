"""Maximize a welfare of group utilities over projections: max–min, α-fair, or with constraints.

    maximize φ(u),  u_g = ⟨A_g, P⟩ + b_g,  over {0 ⪯ P ⪯ I, tr P ≤ r}.

Its dual is min over y of f(y) = S_r(A(y)) + b·y + ψ(y), A(y) = Σ y_g A_g: one leading-eigenpairs
problem per y. The subspace method keeps a basis V of the eigenvectors of all y visited. The problem
within V is small and is solved to optimality: its P is feasible and gives the lower bound, its y is
visited next and gives an upper bound. The difference of the two is the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from equipoise.exceptions import InfeasibleError
from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress
from equipoise.spectral.certificate import suboptimality
from equipoise.spectral.groups.faces import Face, ascend, purify
from equipoise.spectral.groups.families import Combined, Family, FamilyOperator
from equipoise.spectral.groups.reduced import Reduced, positive_sum, solve_reduced, utilities
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.lanczos import lanczos_eigenpairs
from equipoise.spectral.lapack import BoundMethod, Eigenpairs, dense_eigenpairs, fix_signs
from equipoise.spectral.matmul import Floats

Outcome = Literal["projector", "map", "rounded"]
Fractional = Literal["auto", "map", "projector"]

# Eigenvectors per eigenproblem beyond the rank: eigenvalues coincide at the cut where groups
# compete for the last components, and the next vectors are those that the next y needs.
_EXTRA = 2

# Vectors of the first basis, in units of those of one eigenproblem. More save an eigenproblem at
# most, and make every problem within the basis larger.
_START = 2

# The basis is cut down when it has more than this many times the vectors of one eigenproblem.
_KEEP = 4

# Directions shorter than this after orthogonalization are rounding, not new.
_NEW = 1e-10

# An operator whose unit is below this is zero: all its weights vanish.
_ZERO = 1e-290

# Constraints whose best worst value is zero up to the tolerance are relaxed by so many
# tolerances: the barrier needs a strictly feasible point.
_RELAX = 3.0

# Residuals of the first eigenproblems, relative to the largest eigenvalue; more for a tolerance
# above 1e-6. The basis may consist of any vectors, and the bound includes the residuals, squared:
# only the last ones must be accurate.
_LOOSE = 1e-5


# The search ends after so many; the certificate then shows the gap that is left.
_MOST_EIGENPROBLEMS = 60


class EigenSolver:
    """Solves for leading eigenpairs by LAPACK where the operator is dense, else by block Lanczos.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the first block of each run.
    block : int, optional
        Vectors per pass; see `lanczos_eigenpairs`.
    progress : Progress, optional
        Receives notes.
    lapack : bool
        Use LAPACK where the operator has a dense form.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        block: int | None = None,
        progress: Progress | None = None,
        lapack: bool = True,
    ) -> None:
        self.rng, self.block, self.progress, self.lapack = rng, block, progress, lapack
        self.solved = 0
        self.passes = 0

    def __call__(self, operator: FamilyOperator, count: int, tol: float) -> Eigenpairs:
        """Return eigenpairs in the units of the data."""
        self.solved += 1
        with one_blas_thread():
            return self._solve(operator, count, tol)

    def _solve(self, operator: FamilyOperator, count: int, tol: float) -> Eigenpairs:
        if operator.scale < _ZERO:
            return _no_eigenpairs(operator.size)
        matrix = operator.dense() if self.lapack else None
        if matrix is not None:
            if not matrix.any():
                return _no_eigenpairs(operator.size)
            found = dense_eigenpairs(matrix, count)
        else:
            found = lanczos_eigenpairs(
                operator,
                count,
                tol=tol,
                rng=self.rng,
                block=self.block,
                progress=self.progress,
            )
        self.passes += found.passes
        return found.in_units(operator.scale)


def _no_eigenpairs(size: int) -> Eigenpairs:
    empty = np.zeros(0)
    return Eigenpairs(empty, np.zeros((size, 0)), empty, 0.0, passes=0, method="lapack")


def ky_fan_bound(pairs: Eigenpairs, rank: int) -> float:
    """An upper bound on S_r(M) that holds for inexact eigenpairs, of any number."""
    return positive_sum(pairs.values, rank) + suboptimality(pairs, rank)


@dataclass(frozen=True)
class FairSolution:
    """A solution with its proof, in the units of the family.

    Attributes
    ----------
    vectors : ndarray of shape (size, c)
        Orthonormal, by falling ⟨A(y), vvᵀ⟩; c = r, or fewer or more (see `outcome`).
    occupations : ndarray of shape (c,)
        Eigenvalues of P: 1, or between 0 and 1 for the fractional directions of a map.
    eigenvalues : ndarray of shape (c,)
        vᵀA(y)v of each vector.
    utilities : ndarray of shape (k,)
        u_g of what is returned.
    value : float
        φ of what is returned.
    upper : float
        No P has a larger φ.
    relaxed : float
        φ of the best P found, fractional or not.
    unit : float
        What gaps are relative to: the size of S_r(A(y)) and its terms.
    dual_weights : ndarray of shape (k,)
        y at the upper bound.
    n_fractional : int
        Fractional directions of the optimal P.
    outcome : {"projector", "map", "rounded"}
        "projector": nothing is fractional, the optimal projection. "map": the optimal linear map
        I − (I − P)^½ of a rank above r. "rounded": a projection of rank r near the optimum, not
        proven optimal beyond its gap.
    eigenproblems, passes : int
        What the solution cost.
    method : {"lapack", "lanczos"}
        How the next eigenvalue in the bound was obtained.
    next_value : float
        That eigenvalue, of A(y), beyond those that were computed.
    max_residual : float
        Largest residual of the eigenpairs behind the bound, relative to the largest.
    relaxation : float
        By how much constraints were relaxed because no strictly feasible P exists.
    """

    vectors: Floats
    occupations: Floats
    eigenvalues: Floats
    utilities: Floats
    value: float
    upper: float
    relaxed: float
    unit: float
    dual_weights: Floats
    n_fractional: int
    outcome: Outcome
    eigenproblems: int
    passes: int
    method: BoundMethod
    next_value: float
    max_residual: float
    relaxation: float

    @property
    def gap(self) -> float:
        """How far the value may be from the optimum, relative to the unit."""
        return max(self.upper - self.value, 0.0) / self.unit


def maximize(
    family: Family,
    rank: int,
    solver: EigenSolver,
    *,
    offsets: Floats | None = None,
    welfare: Welfare | None = None,
    tol: float = 1e-8,
    fractional: Fractional = "auto",
    start: Floats | None = None,
) -> FairSolution:
    """Maximize φ(⟨A_g, P⟩ + b_g) over {0 ⪯ P ⪯ I, tr P ≤ r}.

    Parameters
    ----------
    family : Family
        A_g.
    rank : int
        r, at most the size.
    solver : EigenSolver
        Solves the eigenproblems and counts them.
    offsets : ndarray of shape (k,), optional
        b; zero by default.
    welfare : Welfare, optional
        φ; the minimum by default.
    tol : float
        Gap at which to stop, relative to the sum of the r largest eigenvalues.
    fractional : {"auto", "map", "projector"}
        What to return where the optimal P is not a projection. "auto" returns a map where there
        are constraints, which a projection of rank r near it may violate, else a projection.
    start : ndarray of shape (size, any), optional
        Vectors for the first basis, such as eigenvectors of single groups. Of many, the directions
        in which they are longest are taken.

    Raises
    ------
    InfeasibleError
        If no P meets the constraints; it holds the upper bound that proves it.
    """
    goal = welfare or Welfare()
    b = np.zeros(family.k) if offsets is None else np.asarray(offsets, dtype=np.float64)
    with one_blas_thread():
        search = _Search(family, rank, b, goal, solver, tol)
        if start is not None:
            search.begin(start)
        if goal.constrained(family.k):
            search.make_feasible()
        search.run()
        return search.finish(fractional)


class _Incumbent(NamedTuple):
    """The best feasible P so far: VWVᵀ."""

    V: Floats
    W: Floats
    B: Floats


class _Search:
    """The subspace method for one problem."""

    def __init__(
        self,
        family: Family,
        rank: int,
        b: Floats,
        welfare: Welfare,
        solver: EigenSolver,
        tol: float,
    ) -> None:
        self.family, self.rank, self.b, self.welfare = family, rank, b, welfare
        self.solver, self.tol = solver, tol
        self.count = min(rank + _EXTRA, family.size)
        self.V = np.zeros((family.size, 0))
        self.image = np.zeros((0, 0))
        self.upper, self.lower, self.unit = np.inf, -np.inf, 0.0
        self.y = self.y_best = welfare.start(family.k)
        self.incumbent: _Incumbent | None = None
        self.pairs = _no_eigenpairs(family.size)
        self.relaxation = 0.0
        self.eigen_tol = max(_LOOSE, np.sqrt(tol) / 100) if tol >= 1e-10 else 1e-7

    def begin(self, start: Floats) -> None:
        """Take the directions in which these vectors are longest as the first basis."""
        squares, S = np.linalg.eigh(start.T @ start)
        longest = squares > _NEW * squares[-1]
        U = start @ (S[:, longest] / np.sqrt(squares[longest]))
        self._extend(U[:, -_START * self.count :])
        self.unit = self._terms(self._compress(), self.y)

    def run(self, until: float | None = None) -> None:
        """Visit one y after another; stop early where the optimum lies on one side of `until`."""
        if self.welfare.kind == "alpha":
            self._scale_weights()
        if self.V.shape[1]:
            self._improve(self._compress())
        for _ in range(_MOST_EIGENPROBLEMS):
            if until is not None and (self.lower > until or self.upper < until):
                return
            if self._solved():
                return
            B = self._visit(self.y)
            if self._solved():
                return
            inner = self._improve(B)
            if self.V.shape[1] > _KEEP * self.count:
                self._truncate(B, inner)

    def _solved(self) -> bool:
        return self.upper - self.lower <= self.tol * self.unit

    def make_feasible(self) -> None:
        """Extend the basis until the constraints can be met in it, or prove that they cannot."""
        k, goals = self.family.k, self.welfare.goals
        if not self.V.shape[1]:  # the vectors of the goal alone are a start
            self._visit(np.where(np.arange(k) < (goals or k), self.y, 0.0))
        first = _Search(
            Combined(self.family, np.eye(k)[goals:]),
            self.rank,
            self.b[goals:],
            Welfare("min"),
            self.solver,
            self.tol,
        )
        first.V, first.image = self.V, self.image
        # opposite constraints cancel at equal weights: the unit is that of their terms
        first.unit = float(np.linalg.norm(self._compress()[goals:], axis=(1, 2)).max())
        first.run(until=0.0)
        slack = first.tol * first.unit
        if first.upper < -slack:
            raise InfeasibleError(
                f"no projection of rank {self.rank} meets all constraints: the worst of them "
                f"cannot be raised above {first.upper:.6g}, and 0 is required.",
                best=first.upper,
                dual_weights=first.y_best,
            )
        if first.lower <= 0:
            self.relaxation = _RELAX * slack
            self.b = self.b + self.relaxation * self._constraints
        self.V, self.image = first.V, first.image
        if first.incumbent is not None:
            self._extend(first.incumbent.V)

    @property
    def _constraints(self) -> NDArray[np.bool_]:
        """Which of the utilities are constraints."""
        k = self.family.k
        return np.arange(k) >= (k if self.welfare.goals is None else self.welfare.goals)

    def _scale_weights(self) -> None:
        """Set y to u^−α at the PCA of the sum: for α-fair sums the scale of y matters."""
        B = self._visit(self.y)
        T = self.V.T @ self.pairs.vectors[:, : self.rank]
        u = utilities(B, T @ T.T, self.b)[~self._constraints]
        goal = np.maximum(u, 1e-3 * float(u.max())) ** -self.welfare.alpha
        self.y = np.append(goal, np.full(self.family.k - len(goal), goal.mean()))

    def _visit(self, y: Floats) -> Floats:
        """Solve the eigenproblem at y, extend the basis, update the upper bound; return VᵀA_gV."""
        pairs = self.solver(self.family.operator(y), self.count, self.eigen_tol)
        self._extend(pairs.vectors)
        if not self.V.shape[1]:  # no positive eigenvalue: any direction
            self._extend(np.eye(self.family.size)[:, :1])
        B = self._compress()
        exact, top = positive_sum(pairs.values, self.rank), ky_fan_bound(pairs, self.rank)
        bound = top + float(self.b @ y) + self.welfare.conjugate(y).value
        self.unit = max(exact, self._terms(B, y))
        if top - exact > 0.1 * self.tol * self.unit:
            self.eigen_tol = max(self.eigen_tol / 10, 1e-12)
        if bound < self.upper:
            self.upper, self.y_best, self.pairs = bound, y, pairs
        return B

    def _extend(self, U: Floats) -> None:
        """Add to the basis what is new in U."""
        new = _new_directions(self.V, U)
        if new.shape[1]:
            grown = self.family.image(new)
            self.image = np.hstack([self.image, grown]) if self.V.shape[1] else grown
            self.V = np.hstack([self.V, new])

    def _compress(self) -> Floats:
        return self.family.compress(self.V, self.image)

    def _terms(self, B: Floats, y: Floats) -> float:
        """The size of the terms of B(y), which may cancel."""
        terms = float(np.abs(y) @ np.linalg.norm(B, axis=(1, 2)))
        return max(terms, float(np.finfo(np.float64).tiny))

    def _improve(self, B: Floats) -> Reduced:
        """Solve the problem within the basis: it gives the next y, and a feasible P."""
        gap = self.upper - self.lower
        inner = self._reduced(B, gap if np.isfinite(gap) else None)
        self.y = self.welfare.on_equation(inner.y)
        if self.incumbent is None or inner.lower > self.lower:
            self.lower, self.incumbent = inner.lower, _Incumbent(self.V, inner.W, B)
        return inner

    def _reduced(self, B: Floats, gap: float | None) -> Reduced:
        """Solve the problem within the basis, to a fiftieth of the gap that is left."""
        return solve_reduced(
            B,
            self.b,
            self.rank,
            self.welfare,
            self.welfare.inside(self.y),
            tol=max(0.1 * self.tol * self.unit, 0.02 * (gap or 0.0)),
            barrier=None if gap is None else max(gap, 0.0) / (self.V.shape[1] + self.family.k),
        )

    def _truncate(self, B: Floats, inner: Reduced) -> None:
        """Keep what the optimum within the basis uses, and its next eigenvectors."""
        parts = ((inner.W, self.count), (np.tensordot(inner.y, B, 1), _KEEP // 2 * self.count))
        kept = [np.linalg.eigh(M)[1][:, -count:] for M, count in parts]
        Z = np.linalg.qr(np.hstack(kept))[0]
        self.V, self.image = self.V @ Z, self.image @ Z

    def finish(self, fractional: Fractional) -> FairSolution:
        """Decide every eigenvalue of W for 0 or 1 where possible, and return the solution."""
        if self.incumbent is None:
            raise AssertionError  # run always sets one
        V, W, B = self._narrowed(self.incumbent)
        again = solve_reduced(
            B,
            self.b,
            self.rank,
            self.welfare,
            self.welfare.inside(self.y_best),
            tol=1e-13 * self.unit,
            barrier=max(self.upper - self.lower, 1e-9 * self.unit) / len(W),
        )
        outcome: Outcome
        y = self.y_best
        if again.lower >= self.lower - 0.1 * self.tol * self.unit:
            W, y, self.lower = again.W, again.y, again.lower
        else:
            V, W, B = self.incumbent
        face = purify(B, W, y)
        U, value = self._nearest(B, face)
        fractional_left = len(face.weights)
        if value >= min(self.lower, self.upper) - self.tol * self.unit:
            # a projection attains the optimum, although the P found first is not one
            fractional_left, outcome = 0, "projector"
        else:
            constrained = bool(self._constraints.any())
            as_map = fractional == "map" or (fractional == "auto" and constrained)
            outcome = "map" if as_map else "rounded"
        w = np.ones(U.shape[1])
        if outcome == "map":
            U = np.hstack([face.whole, face.fractional])
            w = np.append(np.ones(face.whole.shape[1]), face.weights)
        return self._solution(V, B, U, w, fractional_left, outcome)

    def _narrowed(self, incumbent: _Incumbent) -> _Incumbent:
        """The same P in the span of its own leading eigenvectors; the others have weight ≈ 0."""
        V, W, B = incumbent
        Z = np.linalg.eigh(W)[1][:, -2 * self.count :]
        return _Incumbent(V @ Z, Z.T @ W @ Z, Z.T @ B @ Z)

    def _nearest(self, B: Floats, face: Face) -> tuple[Floats, float]:
        """The best of the projectors next to P, improved where P is fractional, and its value."""

        def value(U: Floats) -> float:
            return self.welfare.value(utilities(B, U @ U.T, self.b), self.unit)

        best = max(face.projectors(self.rank), key=value)
        if best.shape[1] < self.rank:  # the goal needs no more: others may gain
            more = self._completed(B, best)
            best = more if value(more) >= value(best) else best
        if len(face.weights) and self.welfare == Welfare("min"):
            best = ascend(B, self.b, best)
        return best, value(best)

    def _completed(self, B: Floats, U: Floats) -> Floats:
        """U and, up to the rank, the directions that add most to the mean utility of the goal."""
        # SciPy before 1.14 fails on a matrix without rows
        rest = sl.null_space(U.T) if U.shape[1] else np.eye(len(U))
        mean = rest.T @ B[~self._constraints].mean(axis=0) @ rest
        values, Z = np.linalg.eigh(mean)
        gains = values > _NEW * self.unit
        return np.hstack([U, rest @ Z[:, gains][:, U.shape[1] - self.rank :]])

    def _solution(
        self, V: Floats, B: Floats, U: Floats, w: Floats, n_fractional: int, outcome: Outcome
    ) -> FairSolution:
        u = utilities(B, (U * w) @ U.T, self.b)
        M = np.tensordot(self.y_best, B, 1)
        if outcome != "map":  # any rotation spans the same projection: take the Ritz vectors
            U = U @ np.linalg.eigh(U.T @ M @ U)[1]
        values = np.einsum("ia,ij,ja->a", U, M, U)
        order = np.argsort(-values, kind="stable")
        value = self.welfare.value(u, self.unit)
        return FairSolution(
            vectors=fix_signs(V @ U[:, order]),
            occupations=w[order],
            eigenvalues=values[order],
            utilities=u - self.relaxation * self._constraints,
            value=value,
            upper=max(self.upper, self.lower),
            relaxed=self.lower,
            unit=self.unit,
            dual_weights=self.y_best,
            n_fractional=n_fractional,
            outcome=outcome,
            eigenproblems=self.solver.solved,
            passes=self.solver.passes,
            method=self.pairs.method,
            next_value=self.pairs.next_value,
            max_residual=self.pairs.max_residual,
            relaxation=self.relaxation,
        )


def _new_directions(V: Floats, U: Floats) -> Floats:
    """Orthonormal basis of what U adds to the span of V."""
    if not U.shape[1] or V.shape[1] >= V.shape[0]:
        return U[:, :0]
    Q, R, _ = sl.qr(U - V @ (V.T @ U), mode="economic", pivoting=True, check_finite=False)
    new = Q[:, np.abs(R.diagonal()) > _NEW][:, : V.shape[0] - V.shape[1]]
    if not new.shape[1]:
        return U[:, :0]
    return np.linalg.qr(new - V @ (V.T @ new))[0]
