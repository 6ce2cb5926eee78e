"""Thick-restart block Lanczos with a check for missed copies of repeated eigenvalues.

The iteration uses the operator's working precision: float32 for large data if the tolerance allows
it. The last step is always Rayleigh–Ritz in float64, which gives true values and residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.exceptions import SolverError
from equipoise.progress import Progress
from equipoise.spectral.krylov import KrylovBasis
from equipoise.spectral.lapack import Eigenpairs, Operator, keep_positive, rayleigh_ritz
from equipoise.spectral.matmul import Block, Floats

# An eigenvalue below this share of the largest is rounding, not signal: float32 vectors contain
# about 1e-6 of the leading directions, which adds the square of that, 1e-12, to their Rayleigh
# quotients.
LANCZOS_ZERO = 1e-10

# Float32 products leave residuals of about this size. For a smaller tolerance the whole iteration
# is in float64: starting it from float32 vectors would need blocks as wide as the rank.
_FLOAT32_RESIDUAL = 8e-7

# The check for missed copies of a repeated eigenvalue: block width and passes. A missed copy of a
# leading eigenvalue dominates the rest of the spectrum, so a few passes are enough to see it.
_PROBE_WIDTH, _PROBE_PASSES = 8, 6

# Ritz values within this many tolerances of each other may be copies of one eigenvalue. Under a
# loose tolerance, different eigenvalues are as close as that: the second number bounds it.
_COPIES_WITHIN, _LOOSEST = 10, 1e-5


def lanczos_eigenpairs(
    operator: Operator,
    rank: int,
    *,
    tol: float = 1e-6,
    rng: np.random.Generator,
    start: Block | None = None,
    block: int | None = None,
    max_passes: int = 500,
    progress: Progress | None = None,
) -> Eigenpairs:
    """Leading eigenpairs by thick-restart block Lanczos.

    Parameters
    ----------
    operator : Operator
        Products with M.
    rank : int
        How many eigenpairs, at most the operator's size.
    tol : float
        Largest ‖M u − θ u‖ allowed, relative to the largest |θ|.
    rng : numpy.random.Generator
        Draws the first block.
    start : ndarray of shape (size, any), optional
        Vectors near the solution, e.g. the solution for a similar γ.
    block : int, optional
        Vectors per pass; wider blocks need fewer passes and more arithmetic.
    max_passes : int
        Stop after this many passes over the data.
    progress : Progress, optional
        Gets a note after each convergence check.

    Raises
    ------
    SolverError
        If `tol` is not reached within `max_passes`.
    """
    first = operator.passes
    width = block or block_width(rank)
    dtype = operator.working_dtype if tol >= _FLOAT32_RESIDUAL else np.dtype(np.float64)
    search = _Search(operator, rank, rng, width, first + max_passes, progress)
    ritz = search.run(dtype, tol, start)
    ritz = search.complete(ritz, dtype, tol, always=start is not None)
    found = rayleigh_ritz(operator, ritz.vectors, ritz.next_value)
    if _relative(found, ritz.scale) > tol:
        ritz = search.run(np.dtype(np.float64), tol, found.vectors)
        found = rayleigh_ritz(operator, ritz.vectors, ritz.next_value)
    if (left := _relative(found, ritz.scale)) > tol:
        raise SolverError(
            f"the eigensolver stopped at residual {left:.1e} after {operator.passes - first} "
            f"passes over the data, above tol={tol:.1e}. Raise tol, or fit fewer components."
        )
    return keep_positive(replace(found, passes=operator.passes - first), LANCZOS_ZERO)


def block_width(rank: int) -> int:
    """Vectors per pass: wider blocks need fewer passes and more arithmetic.

    Powers of two suit the vector instructions of the parallel loops: a pass with 12 or 24 vectors
    takes longer than one with 16 or 32.
    """
    return 8 if rank < 64 else 16 if rank < 256 else 32


def wide_block(rank: int) -> int:
    """Vectors per pass where reading the data dominates: the rank, and at least 32.

    This takes a third to a half of the passes of `block_width`, for twice the arithmetic. Wider
    blocks save few more passes, and the vectors sent and the basis grow in proportion.
    """
    return max(32, rank)


@dataclass(frozen=True)
class _Ritz:
    """Ritz pairs of one Lanczos run, in working precision."""

    values: Floats
    vectors: Block
    next_value: float
    scale: float


class _Search:
    """One search for the leading eigenpairs, up to a last pass over the data."""

    def __init__(
        self,
        operator: Operator,
        rank: int,
        rng: np.random.Generator,
        width: int,
        last_pass: int,
        progress: Progress | None,
    ) -> None:
        self.operator = operator
        self.rank = rank
        self.rng = rng
        self.width = width
        self.last_pass = last_pass
        self.progress = progress

    def run(self, dtype: np.dtype[Any], tol: float, start: Block | None) -> _Ritz:
        """Expand, check and restart until the wanted pairs converge or no passes are left."""
        rank = self.rank
        first = self._first_block(dtype, start)
        width = first.shape[1]
        basis = KrylovBasis(first, basis_columns(rank, width), self.rng)
        pace = _Pace(rank, width)
        columns = 0
        while True:
            basis.expand(self.operator)
            columns += basis.last_width
            exhausted = self.operator.passes >= self.last_pass
            if not (basis.full or basis.complete or exhausted or pace.due(columns)):
                continue
            values, S = basis.ritz(rank + width)
            residuals = basis.residuals(S)
            wanted = residuals[: min(rank, len(values))]
            relative = float(wanted.max() / basis.scale)
            if self.progress is not None:
                passes = self.operator.passes
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
        """Return the given vectors, if any, and random ones.

        The given ones alone may span an invariant subspace that is not the leading one (two
        audiences without common items). Random vectors overlap with every eigenvector.
        """
        size = self.operator.size
        fresh = self.rng.standard_normal((size, min(self.width, size))).astype(dtype)
        if start is None:
            return fresh
        return np.hstack([start.astype(dtype), fresh])[:, :size]

    def complete(self, ritz: _Ritz, dtype: np.dtype[Any], tol: float, *, always: bool) -> _Ritz:
        """Find copies of a repeated eigenvalue that a narrow block can miss.

        A random block of width b finds up to b copies of each eigenvalue, so copies can be missing
        only where b Ritz values are equal. In that case, or `always`, the deflated operator is
        searched for larger eigenvalues than the smallest found.
        """
        spread = _COPIES_WITHIN * min(tol, _LOOSEST) * ritz.scale
        suspicious = always or _has_run(ritz.values, self.width, spread)
        room = self.operator.size - len(ritz.values)
        while suspicious and room > 0:
            if self.operator.passes >= self.last_pass:
                raise SolverError(
                    f"the eigensolver used all {self.last_pass} passes over the data before it "
                    "could rule out missed copies of a repeated eigenvalue. Fit fewer components."
                )
            deflated = _Deflated(self.operator, ritz.vectors)
            best, error = self._probe(deflated, self._random(deflated, room, dtype))
            if best <= ritz.values[-1] + tol * ritz.scale:
                known = min(best + error, float(ritz.values[-1]))
                return replace(ritz, next_value=max(ritz.next_value, known))
            missed = min(max(_PROBE_WIDTH, self.rank // 2), room)
            hidden = _Search(
                deflated, missed, self.rng, _PROBE_WIDTH, self.last_pass, self.progress
            ).run(dtype, tol, self._random(deflated, room, dtype))
            ritz = self._merge(ritz, hidden)
        return ritz

    def _probe(self, deflated: _Deflated, start: Block) -> tuple[float, float]:
        """The largest Ritz value after a few passes, and its residual."""
        basis = KrylovBasis(start, (_PROBE_PASSES + 1) * start.shape[1], self.rng)
        for _ in range(_PROBE_PASSES):
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
    """Estimate the next eigenvalue from above: its Ritz value plus the residual.

    It is at most the smallest eigenvalue found, unless one was missed.
    """
    if len(values) <= rank:
        return -np.inf
    return float(min(values[rank] + residuals[rank], values[rank - 1]))


def basis_columns(rank: int, width: int) -> int:
    """Columns of the basis before a restart.

    At high ranks the basis is smaller relative to the rank: its memory and the small eigenproblem,
    which grows with the cube of its size, dominate there.
    """
    return 2 * rank + 6 * width if rank >= 64 else 3 * rank + 8 * width


class _Deflated:
    """The operator restricted to the complement of the vectors already found."""

    def __init__(self, operator: Operator, found: Block) -> None:
        self.operator = operator
        self.found = found
        self.size = operator.size
        self.working_dtype = operator.working_dtype

    @property
    def passes(self) -> int:
        return self.operator.passes

    def project(self, V: Block) -> Block:
        U = self.found.astype(V.dtype, copy=False)
        return V - U @ (U.T @ V)

    def __call__(self, V: Block) -> Block:
        return self.project(self.operator(self.project(V)))


class _Pace:
    """When to check convergence. Each check solves a small dense eigenproblem.

    Checks after every pass would take a quarter of the time of a small fit, and most of the time at
    high ranks. The next check is due where the residuals, extrapolated log-linearly, come near the
    tolerance. Wide blocks are used where a pass costs more than a check: there every pass is
    checked.
    """

    def __init__(self, rank: int, width: int) -> None:
        self.width = width
        self.every_pass = width >= max(rank, 32)
        self.next_check = max(2 * rank, rank + 2 * width)
        self.last: tuple[int, float] | None = None

    def due(self, columns: int) -> bool:
        return self.every_pass or columns >= self.next_check

    def saw(self, columns: int, relative: float, tol: float) -> None:
        step = 2 * self.width
        if self.last is not None and relative < self.last[1]:
            slope = np.log(self.last[1] / relative) / (columns - self.last[0])
            # residuals fall faster towards the end: check at three quarters of the way
            step = int(0.75 * np.log(relative / tol) / slope)
            step = min(max(self.width, step), 16 * self.width)  # the slope may be an outlier
        self.next_check = columns + step
        self.last = (columns, relative)


def _relative(found: Eigenpairs, scale: float) -> float:
    """The largest residual, relative to the scale that the iteration uses."""
    return float(found.residuals.max()) / scale


def _has_run(values: Floats, length: int, spread: float) -> bool:
    """Whether `length` consecutive values (sorted, largest first) lie within `spread`."""
    positive = values[values > spread]
    if len(positive) < length:
        return False
    return bool(np.any(positive[: len(positive) - length + 1] - positive[length - 1 :] <= spread))
