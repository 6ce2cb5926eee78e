"""Exact arithmetic on small matrices, so that a counter-example is a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import NamedTuple

Matrix = tuple[tuple[Fraction, ...], ...]
Function = Callable[[Matrix], Fraction]


def matrix(rows: Iterable[Iterable[int | Fraction]]) -> Matrix:
    """Read rows of whole numbers or fractions."""
    return tuple(tuple(Fraction(value) for value in row) for row in rows)


def diagonal(values: Sequence[int | Fraction]) -> Matrix:
    """The square matrix with these values on its diagonal."""
    size = range(len(values))
    return matrix([[values[i] if i == j else 0 for j in size] for i in size])


def combine(*terms: tuple[int | Fraction, Matrix]) -> Matrix:
    """Σ c·A over pairs (c, A)."""
    rows, columns = len(terms[0][1]), len(terms[0][1][0])
    return matrix(
        [[sum(c * A[i][j] for c, A in terms) for j in range(columns)] for i in range(rows)]
    )


def dot(x: Sequence[int | Fraction], y: Sequence[int | Fraction]) -> Fraction:
    """xᵀy."""
    return sum((Fraction(a) * b for a, b in zip(x, y, strict=True)), Fraction(0))


def transpose(A: Matrix) -> Matrix:
    """Aᵀ."""
    return tuple(zip(*A, strict=True))


def product(*factors: Matrix) -> Matrix:
    """A·B·…, exactly.

    Examples
    --------
    >>> half = matrix([[Fraction(1, 2)]])
    >>> product(half, half, matrix([[4]]))[0][0]
    Fraction(1, 1)
    """
    result = factors[0]
    for factor in factors[1:]:
        columns = transpose(factor)
        result = tuple(tuple(dot(row, column) for column in columns) for row in result)
    return result


def trace(A: Matrix) -> Fraction:
    """Sum of the diagonal."""
    return sum((A[i][i] for i in range(len(A))), Fraction(0))


def line_projection(direction: Sequence[int]) -> Matrix:
    """ddᵀ / dᵀd: the projection onto a line.

    Examples
    --------
    >>> line_projection([1, 2])[0]
    (Fraction(1, 5), Fraction(2, 5))
    """
    square = sum(d * d for d in direction)
    return matrix([[Fraction(a * b, square) for b in direction] for a in direction])


def is_positive_semidefinite(A: Matrix) -> bool:
    """Decide xᵀAx ≥ 0 for all x, by exact elimination of a symmetric A.

    A negative pivot is a direction of negative curvature. So is a pivot of zero beside anything
    else, since the 2 × 2 minor is negative then.

    Examples
    --------
    >>> is_positive_semidefinite(matrix([[1, 1], [1, 1]]))
    True
    >>> is_positive_semidefinite(matrix([[0, 1], [1, 5]]))
    False
    """
    if not A:
        return True
    pivot, first = A[0][0], A[0][1:]
    if pivot < 0 or (pivot == 0 and any(first)):
        return False
    below = [row[1:] for row in A[1:]]
    if pivot > 0:
        below = [
            tuple(value - first[i] * first[j] / pivot for j, value in enumerate(row))
            for i, row in enumerate(below)
        ]
    return is_positive_semidefinite(tuple(below))


def hessian(q: Function, m: int) -> Matrix:
    """Second derivatives of a quadratic q over the symmetric m × m matrices.

    Entry (a, b) is q(A + B) − q(A) − q(B) + q(0) for basis matrices A and B: the bilinear form of
    q, whatever the expression that computes it. q is convex if and only if this is positive
    semidefinite: the set {0 ⪯ P ⪯ I, tr P ≤ r} has inner points, so convexity on it is no weaker.
    """
    basis = [
        matrix([[int({i, j} == {a, b}) for j in range(m)] for i in range(m)])
        for a, b in combinations_with_replacement(range(m), 2)
    ]
    zero = q(combine((0, basis[0])))
    return matrix([[q(combine((1, A), (1, B))) - q(A) - q(B) + zero for B in basis] for A in basis])


class CircleForm(NamedTuple):
    """A quadratic q of a 2 × 2 matrix on P = ½(I + u₁Z + u₂S): q = a + bᵀu + uᵀAu.

    Z = diag(1, −1) and S swaps the axes; |u| = 1 are the projections of rank one.
    """

    a: Fraction
    b: tuple[Fraction, Fraction]
    A: Matrix

    @classmethod
    def of(cls, q: Function) -> CircleForm:
        """Read a, b and A off six values of q."""

        def at(u1: int, u2: int) -> Fraction:
            return q(combine((Fraction(1, 2), matrix([[1 + u1, u2], [u2, 1 - u1]]))))

        a = at(0, 0)
        b = ((at(1, 0) - at(-1, 0)) / 2, (at(0, 1) - at(0, -1)) / 2)
        A11, A22 = (at(1, 0) + at(-1, 0)) / 2 - a, (at(0, 1) + at(0, -1)) / 2 - a
        A12 = (at(1, 1) - at(1, 0) - at(0, 1) + a) / 2
        return cls(a, b, matrix([[A11, A12], [A12, A22]]))

    def is_least_at(self, u: tuple[int, int]) -> bool:
        """Prove that no projection of rank one has a smaller q than the one at u, |u| = 1.

        With λ the multiplier of |v| = 1 at u, q(v) − q(u) + λ(1 − |v|²) is a quadratic of v; it is
        nowhere negative if its 3 × 3 matrix is positive semidefinite.
        """
        linear, quadratic = dot(self.b, u), dot(u, [dot(row, u) for row in self.A])
        multiplier = linear / 2 + quadratic
        corner = multiplier - linear - quadratic
        (b1, b2), ((A11, A12), (_, A22)) = self.b, self.A
        rows = [
            [corner, b1 / 2, b2 / 2],
            [b1 / 2, A11 - multiplier, A12],
            [b2 / 2, A12, A22 - multiplier],
        ]
        return is_positive_semidefinite(matrix(rows))
