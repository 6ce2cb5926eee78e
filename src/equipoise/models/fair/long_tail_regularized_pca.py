"""PCA with a regularizer that separates the vectors of items of equal popularity class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.data.interactions import Interactions
from equipoise.models.parameters import Finite, Share
from equipoise.models.pca.projection import FilteredProjection
from equipoise.spectral.certificate import Components, certify_pairs
from equipoise.spectral.gram import Gram, WeightedGram
from equipoise.spectral.groups.families import low_rank


@dataclass(eq=False, repr=False, kw_only=True)
class LongTailRegularizedPCA(FilteredProjection):
    """PCA that moves the vectors of items of the same class apart: popular items, or the long tail.

    The classes are the most popular items (the short head) and all others. The regularizer of
    Abdollahpouri et al. 2017 is tr(UᵀLU) = Σ_{i<j, same class} ‖u_i − u_j‖², where L is the
    Laplacian of the graph that joins items of the same class. With a projection P = UUᵀ it is
    ⟨L, P⟩, so the fit is one eigenproblem of C + λL: exact, with a certificate, and nested in r.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank.
    strength : float, default=0.1
        λ, in units of tr C / tr L. Positive values favor the long tail, the larger class; 0 is PCA;
        negative values move vectors of one class together.
    head : float, default=0.2
        Share of the items, by their number of users, that are the short head.
    spectral_filter, filter_strength, user_scaling, value_transform, solver, tol, passes, \
random_state
        As in `ItemWeightedPCA`.

    Attributes
    ----------
    components_, eigenvalues_, residuals_, item_norms_, n_components_, n_features_in_, item_ids_, \
certificate_, solver_
        As in `ItemWeightedPCA`; eigenvalues are those of C + λL.
    in_head_ : ndarray of shape (n_items,)
        Which items are the short head.

    Notes
    -----
    L = diag(n_c(i)) − Σ_c 1_c 1_cᵀ is a diagonal matrix plus one of rank two, so C + λL is never
    formed. Items without users are in no class. The paper minimizes a ranking loss plus λ times the
    regularizer. Its text was not available, so sign and scale are not confirmed. Taken literally,
    the sum is C − λL, a negative `strength` here, which moves the vectors of one class together.
    The sign of positive values here is the one that gives the long tail more components.

    References
    ----------
    Abdollahpouri, Burke and Mobasher 2017, "Controlling Popularity Bias in Learning-to-Rank
    Recommendation".

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0.0]])
    >>> LongTailRegularizedPCA(1, strength=0.0).fit(X).self_reconstruction().round(2).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """

    strength: Finite = 0.1
    head: Share = 0.2

    def _signal(self, data: Interactions) -> Interactions:
        counts = data.popularity("count")
        order = np.argsort(-counts, kind="stable")
        self.in_head_ = np.zeros(len(counts), dtype=bool)
        self.in_head_[order[: round(self.head * np.count_nonzero(counts))]] = True
        return super()._signal(data)

    def _solve(self, gram: Gram) -> Components:
        used = self.item_norms_ > 0
        classes = np.array([used & self.in_head_, used & ~self.in_head_], dtype=np.float64)
        sizes = classes.sum(axis=1)
        trace = float((sizes * (sizes - 1)).sum())
        unit = float(np.square(self.item_norms_).sum()) / trace if trace > 0 else 0.0
        weight = self.strength * unit
        operator = low_rank(
            WeightedGram(gram, np.ones(gram.n_items)),
            classes,
            np.full(2, -weight),
            weight * (sizes @ classes),
        )
        pairs = self._eigen_solver(gram)(operator, self.n_components, self.tol)
        return Components(pairs, certify_pairs(pairs, self.n_components))
