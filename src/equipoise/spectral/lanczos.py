"""Thick-restart block Lanczos with a probe for copies of repeated eigenvalues it may have missed.

The iteration runs in the operator's working precision, float32 for large data where the tolerance
allows it; a Rayleigh–Ritz step in float64 always ends it, so that the values and residuals returned
are true ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.exceptions import SolverError
from equipoise.progress import Progress
from equipoise.spectral.eigen import Eigenpairs, Operator, keep_positive, rayleigh_ritz
from equipoise.spectral.krylov import KrylovBasis
from equipoise.spectral.tall import Block, Floats

# Relative to the largest, an eigenvalue below this is rounding, not signal: float32 vectors carry
# about 1e-6 of the leading directions, whose Rayleigh quotient is the square of that.
LANCZOS_ZERO = 1e-10

# Float32 products leave residuals of about this size; for a smaller tolerance the iteration is in
# float64 from its start: to begin it with what float32 has found would take blocks of full rank.
_FLOAT32_FLOOR = 8e-7

# The probe for missed copies of a repeated eigenvalue: a block of this width, so many sweeps.
_PROBE_WIDTH, _PROBE_SWEEPS = 8, 6


def lanczos_eigenpairs(
    operator: Operator,
    rank: int,
    *,
    tol: float = 1e-6,
    rng: np.random.Generator,
    start: Block | None = None,
    block: int | None = None,
    max_sweeps: int = 500,
    progress: Progress | None = None,
) -> Eigenpairs:
    """Leading eigenpairs by thick-restart block Lanczos.

    Parameters
    ----------
    operator : Operator
        M, by its products.
    rank : int
        How many eigenpairs, at most the operator's size.
    tol : float
        Largest ‖M u − θ u‖ allowed, relative to the largest |θ|.
    rng : numpy.random.Generator
        Draws the first block.
    start : ndarray of shape (size, any), optional
        Vectors near the wanted ones, e.g. the solution for a near-by γ.
    block : int, optional
        Vectors a sweep; wider blocks need fewer sweeps and more arithmetic.
    max_sweeps : int
        After so many reads of the data, give up.
    progress : Progress, optional
        Gets a note after each convergence check.

    Raises
    ------
    SolverError
        If `tol` is not reached within `max_sweeps`.
    """
    first = operator.sweeps
    width = block or block_width(rank)
    dtype = operator.working_dtype if tol >= _FLOAT32_FLOOR else np.dtype(np.float64)
    search = _Search(operator, rank, rng, width, first + max_sweeps, progress)
    ritz = search.run(dtype, tol, start)
    ritz = search.complete(ritz, dtype, tol, always=start is not None)
    found = rayleigh_ritz(operator, ritz.vectors, ritz.next_value)
    if _relative(found, ritz.scale) > tol:
        ritz = search.run(np.dtype(np.float64), tol, found.vectors)
        found = rayleigh_ritz(operator, ritz.vectors, ritz.next_value)
    if (left := _relative(found, ritz.scale)) > tol:
        raise SolverError(
            f"the eigen-solver stopped at residual {left:.1e} after "
            f"{operator.sweeps - first} sweeps, above tol={tol:.1e}. "
            "Raise tol, or lower n_components."
        )
    return keep_positive(replace(found, sweeps=operator.sweeps - first), LANCZOS_ZERO)


def block_width(rank: int) -> int:
    """Vectors a sweep: wider blocks need fewer sweeps and more arithmetic.

    A power of two, for which the compiled loops have no remainders: with 12 or 24 vectors a sweep
    takes longer than with 16 or 32.
    """
    return 8 if rank < 64 else 16 if rank < 256 else 32


def wide_block(rank: int) -> int:
    """Vectors a sweep where reading the data is what costs: as many as are wanted, at least 32.

    A third to a half of the sweeps of `block_width`, for twice its arithmetic. Still wider blocks
    save few sweeps more: they widen what is sent round, and the basis, in proportion.
    """
    return max(32, rank)


@dataclass(frozen=True)
class _Ritz:
    """What one Lanczos run found, in working precision."""

    values: Floats
    vectors: Block
    next_value: float
    scale: float


class _Search:
    """One search: the operator, what is wanted, and what it may cost."""

    def __init__(
        self,
        operator: Operator,
        rank: int,
        rng: np.random.Generator,
        width: int,
        last_sweep: int,
        progress: Progress | None,
    ) -> None:
        self.operator = operator
        self.rank = rank
        self.rng = rng
        self.width = width
        self.last_sweep = last_sweep
        self.progress = progress

    def run(self, dtype: np.dtype[Any], tol: float, start: Block | None) -> _Ritz:
        """Expand, look, restart, until the wanted pairs have converged or sweeps run out."""
        rank = self.rank
        first = self._first_block(dtype, start)
        width = first.shape[1]
        basis = KrylovBasis(first, basis_columns(rank, width), self.rng)
        pace = _Pace(rank, width)
        columns = 0
        while True:
            basis.expand(self.operator)
            columns += basis.last_width
            exhausted = self.operator.sweeps >= self.last_sweep
            if not (basis.full or basis.complete or exhausted or pace.due(columns)):
                continue
            values, S = basis.ritz(rank + width)
            residuals = basis.residuals(S)
            wanted = residuals[: min(rank, len(values))]
            relative = float(wanted.max() / basis.scale)
            if self.progress is not None:
                passes = self.operator.sweeps
                self.progress.note(
                    f"{passes} passes over the data, residual {relative:.1e} (target {tol:.0e})"
                )
            if relative <= tol or basis.complete or exhausted:
                vectors = basis.vectors(S[:, :rank])
                return _Ritz(values[:rank], vectors, _beyond(values, residuals, rank), basis.scale)
            pace.saw(columns, relative, tol)
            if basis.full:
                basis.restart(values, S, rank + max(width, rank // 4))

    def _first_block(self, dtype: np.dtype[Any], start: Block | None) -> Block:
        """Random vectors, beside those given.

        Given ones alone may span an invariant subspace that is not the leading one (two audiences
        with nothing in common): only random vectors have a part in every eigenvector.
        """
        size = self.operator.size
        fresh = self.rng.standard_normal((size, min(self.width, size))).astype(dtype)
        if start is None:
            return fresh
        return np.hstack([start.astype(dtype), fresh])[:, :size]

    def complete(self, ritz: _Ritz, dtype: np.dtype[Any], tol: float, *, always: bool) -> _Ritz:
        """Find the copies of a repeated eigenvalue that a block narrower than it can miss.

        A random block of width b holds b copies of each eigenvalue, so only runs of b equal
        Ritz values can hide more. Where there is one, or `always`, the operator with what was
        found taken out is probed, and whatever beats the smallest found is merged in.
        """
        suspicious = always or _has_run(ritz.values, self.width, 10 * tol * ritz.scale)
        room = self.operator.size - len(ritz.values)
        while suspicious and room > 0:
            if self.operator.sweeps >= self.last_sweep:
                raise SolverError(
                    "the eigen-solver ran out of sweeps before it could rule out missed copies of "
                    "a repeated eigenvalue. Lower n_components."
                )
            deflated = _Deflated(self.operator, ritz.vectors)
            best, error = self._probe(deflated, self._random(deflated, room, dtype))
            if best <= ritz.values[-1] + tol * ritz.scale:
                known = min(best + error, float(ritz.values[-1]))
                return replace(ritz, next_value=max(ritz.next_value, known))
            missed = min(max(_PROBE_WIDTH, self.rank // 2), room)
            hidden = _Search(
                deflated, missed, self.rng, _PROBE_WIDTH, self.last_sweep, self.progress
            ).run(dtype, tol, self._random(deflated, room, dtype))
            ritz = self._merge(ritz, hidden)
        return ritz

    def _probe(self, deflated: _Deflated, start: Block) -> tuple[float, float]:
        """The largest Ritz value of a few sweeps, and its residual."""
        basis = KrylovBasis(start, (_PROBE_SWEEPS + 1) * start.shape[1], self.rng)
        for _ in range(_PROBE_SWEEPS):
            basis.expand(deflated)
            if basis.complete or basis.full:
                break
        values, S = basis.ritz(1)
        return float(values[0]), float(basis.residuals(S)[0])

    def _random(self, deflated: _Deflated, room: int, dtype: np.dtype[Any]) -> Block:
        shape = (deflated.size, min(_PROBE_WIDTH, room))
        return deflated.project(self.rng.standard_normal(shape).astype(dtype))

    def _merge(self, ritz: _Ritz, hidden: _Ritz) -> _Ritz:
        together = np.hstack([ritz.vectors, hidden.vectors])
        best = rayleigh_ritz(self.operator, together)
        return replace(
            ritz,
            values=best.values[: self.rank],
            vectors=best.vectors[:, : self.rank].astype(ritz.vectors.dtype),
            next_value=max(ritz.next_value, float(best.values[self.rank])),
        )


def _beyond(values: Floats, residuals: Floats, rank: int) -> float:
    """An estimate of the next eigenvalue, rather too large: its Ritz value plus the residual.

    It is no larger than the smallest eigenvalue found, as long as none was missed.
    """
    if len(values) <= rank:
        return -np.inf
    return float(min(values[rank] + residuals[rank], values[rank - 1]))


def basis_columns(rank: int, width: int) -> int:
    """Columns of the basis before a restart: less often, where a restart keeps many."""
    return 2 * rank + 6 * width if rank >= 64 else 3 * rank + 8 * width


class _Deflated:
    """The operator on the complement of vectors that were found already."""

    def __init__(self, operator: Operator, found: Block) -> None:
        self.operator = operator
        self.found = found
        self.size = operator.size
        self.working_dtype = operator.working_dtype

    @property
    def sweeps(self) -> int:
        return self.operator.sweeps

    def project(self, V: Block) -> Block:
        U = self.found.astype(V.dtype, copy=False)
        projected: Block = V - U @ (U.T @ V)
        return projected

    def __call__(self, V: Block) -> Block:
        return self.project(self.operator(self.project(V)))


class _Pace:
    """When to look whether the pairs have converged: looking costs a small eigenproblem.

    That problem is a quarter of the time of a small fit and dominates at larger ranks, so the
    next look is put where the residuals, extrapolated log-linearly over the vectors multiplied,
    should have come near the tolerance; they fall faster towards the end. Blocks as wide as the
    rank are taken where a sweep costs more than a look: then every sweep is followed by one.
    """

    def __init__(self, rank: int, width: int) -> None:
        self.width = width
        self.every_sweep = width >= max(rank, 32)
        self.next_look = max(2 * rank, rank + 2 * width)
        self.last: tuple[int, float] | None = None

    def due(self, columns: int) -> bool:
        return self.every_sweep or columns >= self.next_look

    def saw(self, columns: int, relative: float, tol: float) -> None:
        step = 2 * self.width
        if self.last is not None and relative < self.last[1]:
            slope = np.log(self.last[1] / relative) / (columns - self.last[0])
            step = int(0.75 * np.log(relative / tol) / slope)
            step = min(max(self.width, step), 16 * self.width)
        self.next_look = columns + step
        self.last = (columns, relative)


def _relative(found: Eigenpairs, scale: float) -> float:
    """The largest residual, by the scale that the iteration measures its own with."""
    return float(found.residuals.max()) / scale


def _has_run(values: Floats, length: int, spread: float) -> bool:
    """Whether some `length` consecutive values (sorted, largest first) lie within `spread`."""
    positive = values[values > spread]
    if len(positive) < length:
        return False
    return bool(np.any(positive[: len(positive) - length + 1] - positive[length - 1 :] <= spread))
