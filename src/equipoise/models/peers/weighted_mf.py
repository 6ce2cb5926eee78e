"""Weighted matrix factorization of implicit feedback, fitted by the package `implicit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.checks import check_choice
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError, require_extra
from equipoise.models.parameters import Finite, NonNegative
from equipoise.models.peers.weighted_als import Cells, WeightedFactorModel
from equipoise.models.user_rows import with_values
from equipoise.parallel import one_blas_thread, threads_left
from equipoise.progress import task

Confidence = Literal["one_plus", "proportional"]

Source = Literal["code", "text"]
# α in the paper's code and in its text, in the notation of Hu et al.
_PUBLISHED_ALPHA: dict[Source, float] = {"code": 1.0, "text": 0.0}
_PUBLISHED_ITERATIONS = 50


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedMF(WeightedFactorModel):
    """Matrix factorization in which observed cells count more: Hu, Koren & Volinsky (2008).

    Minimizes Σ_ui c_ui (p_ui − u_uᵀ v_i)² + λ(‖U‖² + ‖V‖²) over all cells, where p_ui is 1 if
    user u interacted with item i and 0 otherwise, and c_ui is the confidence: 1 where nothing was
    observed, and 1 + α r_ui for an interaction of value r_ui.

    Fitting needs the extra `als` (the package `implicit`, on the CPU); a saved model is loaded and
    served without it.

    Parameters
    ----------
    n_components : int, default=64
        r, the rank; at most the number of items.
    alpha : float, default=1.0
        α ≥ 0. With 0 every cell counts 1: a ridge-regularized factorization of the 0/1 matrix.
    confidence : {"one_plus", "proportional"}, default="one_plus"
        c = 1 + α r as in the paper by Hu et al., or c = α r as in `implicit`, which
        requires α > 0.
    regularization : float, default=0.01
        λ > 0.
    iterations : int, default=15
        Number of updates of both sides.
    value_transform : {"binary", "log1p", "one_plus", "shares"} or None, default=None
        How values are prepared before they become confidences; see `ItemWeightedPCA`.
    user_scaling : float, default=0.0
        a: the prepared values of a user are divided by (number of items of the user)^a.
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors. None means a fixed seed, 0: same data, same bits, whatever the
        number of threads.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_components)
        V, as `implicit` returns it in float32, in the precision of the data.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    See Also
    --------
    WeightedMF.published : The settings behind the paper's Figure 7.

    Notes
    -----
    `implicit` reads a stored value as the confidence c itself, with the preference (value > 0),
    and multiplies it by its own `alpha`. Its `alpha=0` is therefore not the α = 0 of Hu et
    al.: it makes every preference 0, and all factors vanish. Here `implicit` gets c and keeps its
    own `alpha` at 1.

    `fit` takes conjugate-gradient steps, `implicit`'s default. Users are solved for exactly, from
    the rows they come with, as `implicit.recalculate_user` does.

    References
    ----------
    Yifan Hu, Yehuda Koren and Chris Volinsky, "Collaborative Filtering for Implicit Feedback
    Datasets", ICDM 2008.
    """

    alpha: NonNegative = 1.0
    confidence: Confidence = "one_plus"
    user_scaling: Finite = 0.0

    @classmethod
    def published(
        cls, n_components: int = 64, *, source: Source = "code", random_state: Any = None
    ) -> Self:
        """Return the Weighted MF of the paper's Figure 7: 50 iterations, otherwise defaults.

        Parameters
        ----------
        n_components : int
            r, the rank.
        source : {"code", "text"}
            The published code fits R + (R > 0), which is c = 1 + r: α = 1. The paper's text has
            α = 0: c = 1 for every cell.
        random_state : int, RandomState instance or None
            As in `WeightedMF`.

        Examples
        --------
        >>> WeightedMF.published(32)
        WeightedMF(iterations=50, n_components=32)
        >>> WeightedMF.published(32, source="text")
        WeightedMF(alpha=0.0, iterations=50, n_components=32)
        """
        check_choice("source", source, _PUBLISHED_ALPHA)
        return cls(
            n_components,
            alpha=_PUBLISHED_ALPHA[source],
            iterations=_PUBLISHED_ITERATIONS,
            random_state=random_state,
        )

    def _fit(self, data: Interactions) -> None:
        """Learn the item vectors of users × items."""
        user_items = data.require_matrix(type(self).__name__)
        if self.confidence == "proportional" and self.alpha == 0:
            raise InvalidParameterError(
                "alpha=0 with confidence='proportional' makes every confidence 0, and all factors "
                "vanish. Use confidence='one_plus', where every cell counts 1 then, or alpha > 0."
            )
        factors = self._fit_implicit(user_items)
        self.item_factors_ = factors.astype(user_items.dtype)

    def cells(self, user_items: sp.csr_array) -> Cells:
        """Preference 1 with confidence c for touched items; 0 with confidence 1 for others."""
        touched = with_values(user_items, np.ones(user_items.nnz))
        return Cells.of(touched, self._confidences(user_items), 1.0)

    def _confidences(self, user_items: sp.csr_array) -> NDArray[np.float64]:
        values = self.preprocess(user_items).data
        scaled: NDArray[np.float64] = self.alpha * values.astype(np.float64, copy=False)
        return 1.0 + scaled if self.confidence == "one_plus" else scaled

    def _fit_implicit(self, user_items: sp.csr_array) -> NDArray[np.float32]:
        als = require_extra("implicit.cpu.als", "als", "fitting WeightedMF")
        with np.errstate(over="ignore"):  # refused below
            confidences = self._confidences(user_items).astype(np.float32)
        if not np.all(np.isfinite(confidences)) or confidences.min() <= 0:
            raise InvalidDataError(
                f"values from {user_items.data.min():.3g} to {user_items.data.max():.3g} with "
                f"alpha={self.alpha} give confidences beyond float32, in which implicit computes. "
                "Rescale the data, or choose another alpha."
            )
        # implicit's compiled loops refuse read-only arrays, as those of Interactions are
        parts = (confidences, user_items.indices.copy(), user_items.indptr.copy())
        # implicit checks that BLAS has one thread, as here, by a scan of all loaded libraries. That
        # deadlocks if another thread imports one at the same time.
        vars(als)["check_blas_config"] = lambda: None
        # implicit starts its own threads. They wait for each other by spinning: more than there are
        # cores for take twice the time. The factors do not depend on their number.
        with one_blas_thread():
            model = als.AlternatingLeastSquares(
                factors=self.n_components,
                regularization=self.regularization,
                iterations=self.iterations,
                random_state=self._generator(),
                num_threads=threads_left(),
            )
            with task(self._progress, "Alternating least squares", self.iterations) as alternating:
                model.fit(
                    sp.csr_matrix(parts, user_items.shape),
                    show_progress=False,
                    callback=lambda *_: alternating.advance(),
                )
        return model.item_factors
