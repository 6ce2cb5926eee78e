"""The matrix M = ½(DC + CD) as an operator; its leading eigenvectors are the components.

Here C = XᵀX and D = diag(w). M is symmetric and *indefinite*. It is formed only for small catalogs;
otherwise `WeightedGram` computes products MV and counts the passes over the data.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from equipoise.spectral.gram import DenseGram, Gram, Product
from equipoise.spectral.matmul import Block, Floats

# The smallest normal float32 is 1e-38. Sums over entries of M / scale that are all below this value
# would involve subnormal numbers, which have fewer digits.
_FLOAT32_LEAST = 1e-28


class WeightedGram:
    """Products with M / scale, and the number of passes over the data they took.

    Parameters
    ----------
    gram : Gram
        Products XᵀXV.
    weights : ndarray of shape (n_items,)
        w, one weight per item, of any sign. If all are equal, M is a multiple of C and the
        cheaper unweighted product is used.

    Attributes
    ----------
    scale : float
        Eigenvalues of M in the units of the data are `scale` times those of the operator.
    passes, columns : int
        Passes over the data so far, and vectors multiplied in them.
    """

    def __init__(self, gram: Gram, weights: Floats) -> None:
        self.gram = gram
        self.size = gram.n_items
        # all zero weights give a zero matrix, not a division by zero
        largest = max(float(np.abs(weights).max()), np.finfo(np.float64).tiny)
        self.weights = weights / largest
        self.scale = gram.scale * largest
        self.passes = 0
        self.columns = 0

    @cached_property
    def _product(self) -> Product:
        """Built on first use: a dense Gram matrix forms M for it, and LAPACK needs no products."""
        uniform = bool(np.all(self.weights == 1.0))
        return self.gram.product if uniform else self.gram.weighted_product(self.weights)

    @cached_property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision in which the iteration is fast; float64 if float32 cannot represent M."""
        relative = np.sqrt(self.gram.squared_norms / self.gram.scale)
        largest = float((np.abs(self.weights) * relative).max())  # no entry of M / scale is larger
        return self.gram.working_dtype if largest > _FLOAT32_LEAST else np.dtype(np.float64)

    def __call__(self, V: Block) -> Block:
        """Return MV / scale in V's dtype: one pass over the data."""
        self.passes += 1
        self.columns += V.shape[1]
        return self._product(V)

    def dense(self) -> Floats | None:
        """Return M / scale as a matrix; None if the Gram matrix is not dense."""
        return self.gram.weighted_matrix(self.weights) if isinstance(self.gram, DenseGram) else None
