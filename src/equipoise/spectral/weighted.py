"""M = ½(DC + CD) as an operator with a name: the matrix whose leading eigenvectors we want.

Here C = XᵀX and D = diag(w). The matrix is symmetric and *indefinite*, and it is never formed
unless the catalogue is small: `WeightedGram` answers products MV and counts what they cost.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from equipoise.spectral.gram import DenseGram, Gram, Product
from equipoise.spectral.tall import Block, Floats

# Where no entry of M / scale exceeds this, float32 (least: 1e-38) keeps less than its own digits.
_FLOAT32_LEAST = 1e-28


class WeightedGram:
    """Products with M / scale, and how often the data were read for them.

    Parameters
    ----------
    gram : Gram
        Who answers XᵀXV.
    weights : ndarray of shape (n_items,)
        w ≥ 0, one weight an item; all equal makes M a multiple of C and takes the cheaper
        one-product form.

    Attributes
    ----------
    scale : float
        Eigenvalues of M in the user's units are `scale` times those of the operator.
    sweeps, columns : int
        Reads of the data so far, and vectors multiplied in them.
    """

    def __init__(self, gram: Gram, weights: Floats) -> None:
        self.gram = gram
        self.size = gram.n_items
        largest = float(weights.max())
        self.weights = weights / largest
        self.scale = gram.scale * largest
        self.sweeps = 0
        self.columns = 0

    @cached_property
    def _product(self) -> Product:
        """Made when first asked for: a dense Gram matrix forms M for it, LAPACK needs none."""
        uniform = bool(np.all(self.weights == 1.0))
        return self.gram.product if uniform else self.gram.weighted_product(self.weights)

    @cached_property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision in which the iteration is fast, if it can hold M at all."""
        relative = np.sqrt(self.gram.squared_norms / self.gram.scale)
        largest = float((self.weights * relative).max())  # no entry of M / scale is larger
        return self.gram.working_dtype if largest > _FLOAT32_LEAST else np.dtype(np.float64)

    def __call__(self, V: Block) -> Block:
        """Return MV / scale in V's dtype: one sweep."""
        self.sweeps += 1
        self.columns += V.shape[1]
        return self._product(V)

    def dense(self) -> Floats:
        """Return M / scale as a matrix; only a dense Gram matrix has one."""
        if not isinstance(self.gram, DenseGram):
            raise TypeError(f"{type(self.gram).__name__} is never made dense; build a DenseGram")
        return self.gram.weighted_matrix(self.weights)
