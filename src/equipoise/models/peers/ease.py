"""EASE: the full-rank linear model in closed form, one item predicted from all others."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError
from equipoise.models.item_vectors import Floats, item_norms
from equipoise.models.parameters import Finite, Positive
from equipoise.models.peers.base import ItemItemModel
from equipoise.parallel import lapack_threads
from equipoise.spectral.gram import DenseGram
from equipoise.spectral.lapack import call_lapack


@dataclass(eq=False, repr=False)
class EASE(ItemItemModel):
    """Linear regression of every item on all other items.

    The scores are X B, with

        B = I − P diag(1 / diag P),    P = (XᵀX + λI)⁻¹.

    where

    - X is users × items, λ the ridge penalty,
    - B minimizes ‖X − XB‖²_F + λ‖B‖²_F among all item × item matrices with a zero diagonal: no item
      is predicted from itself.

    Parameters
    ----------
    regularization : float, default=500.0
        λ > 0, in the units of XᵀX.
    value_transform : {"binary", "log1p", "one_plus"} or None, default=None
        x ↦ 1, log(1 + x) or 1 + x for the stored values.
    user_scaling : float, default=0.0
        a: rows are divided by (number of items of the user)^a, which lets active users count less.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_items, n_items)
        B, dense: entry [i, j] is what an entry 1 at item i adds to the score of item j.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    The fit takes about m³ multiplications and 24 m² bytes (10 000 items: 2.4 GB), the model 8 m²
    bytes, half of it for float32 data. A catalog that needs more than the free memory
    is refused before anything is computed. The factorization is Cholesky in float64.

    `similar_items` ranks by B[i, ·], what an entry at item i adds to other scores. That is neither
    symmetric nor a cosine, and it may be negative.

    References
    ----------
    Harald Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    >>> EASE(regularization=1.0).fit(X).coefficients_.round(6).tolist()  # XᵀX = [[2, 2], [2, 3]]
    [[0.0, 0.666667], [0.5, 0.0]]
    """

    regularization: Positive = 500.0
    _: KW_ONLY
    user_scaling: Finite = 0.0

    def _fit(self, data: Interactions) -> None:
        """Solve the regressions of all items by one factorization."""
        advice = "Filter rare items, or use a model without such a matrix, for example ItemKNN."
        DenseGram.require_memory(data.n_items, "EASE", advice)
        signal = data.prepared(self._row_transform())
        item_norms(signal)  # refuses squares beyond floating point
        gram = signal.dense_gram()
        with lapack_threads(data.n_items):
            weights = self._weights(gram.C, self.regularization / gram.scale)
        self.coefficients_ = weights.astype(data.dtype, copy=False)

    def _weights(self, C: Floats, ridge: float) -> Floats:
        """Return B from XᵀX and λ in the same units; overwrites C."""
        n_items, C = len(C), np.ascontiguousarray(C)
        C.flat[:: n_items + 1] += ridge
        failed = call_lapack("dpotrf", b"L", n_items, C, n_items)
        if failed:
            raise InvalidParameterError(
                f"regularization={self.regularization} is too small for these data: to rounding, "
                f"XᵀX + λI is singular at item {failed - 1}. Pass a larger regularization."
            )
        call_lapack("dpotri", b"L", n_items, C, n_items)  # writes one half of the inverse
        for item in range(n_items):
            C[item, :item] = 0.0
        diagonal = C.diagonal().copy()
        B: Floats = C + C.T
        B /= -diagonal
        np.fill_diagonal(B, 0.0)
        return B
