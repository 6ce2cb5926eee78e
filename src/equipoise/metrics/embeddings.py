"""The geometry of vectors: popularity in those of items, groups in those of users.

`popularity_direction`, `effective_rank` and `anisotropy` are for item vectors whose lengths carry
meaning, such as the embeddings of a two-tower model or the factors of ALS. Orthonormal factors,
such as the components of a PCA, have equal singular values: no direction of theirs is the leading
one, and their effective rank is their number.

`mean_gap`, `covariance_gap`, `mmd` and `linear_separability` measure how far groups of users differ
in a representation; 0 means not at all. `HiddenGroupsPCA` makes the means equal, and on request the
covariances nearly so. Equality of whole distributions has no closed form: it is measured here, not
solved.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.checks import check_matrix
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.results import FloatArray, Result

# Rows of each group that the kernel of `mmd` compares: n² numbers are computed.
_MOST_ROWS = 5000


class PopularityDirection(NamedTuple):
    """The leading direction of item vectors, compared with popularity.

    Attributes
    ----------
    cosine : float
        Cosine, without sign, of the items' coordinates along the direction with their popularity.
    shares : ndarray of shape (m,)
        Share of each item's squared length along the direction; nan for a zero vector.
    """

    cosine: float
    shares: FloatArray


def popularity_direction(item_vectors: ArrayLike, popularity: ArrayLike) -> PopularityDirection:
    """Return how much of the item vectors lies along one direction, and whether it is popularity.

    With d the leading right singular vector of the vectors V (m × r) and s = Vd, the cosine is
    |sᵀp| / (‖s‖ ‖p‖) and the share of item j is s_j² / ‖V_j‖².

    Parameters
    ----------
    item_vectors : array-like of shape (m, r)
        One row per item.
    popularity : array-like of shape (m,)
        p: the popularity of each item, for example its number of users.

    Examples
    --------
    >>> found = popularity_direction([[3.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [9, 6, 0])
    >>> round(found.cosine, 6), found.shares.tolist()
    (1.0, [1.0, 1.0, 0.0])
    """
    V = check_matrix(item_vectors, "item_vectors")
    p = np.asarray(popularity, dtype=np.float64)
    if p.shape != (len(V),) or not np.isfinite(p).all() or not p.any():
        raise InvalidDataError(
            f"popularity must be {len(V)} finite numbers, one per row of item_vectors and not all "
            f"0; got shape {p.shape}."
        )
    _, _, directions = np.linalg.svd(V, full_matrices=False)
    along = V @ directions[0]
    lengths = np.einsum("ij,ij->i", V, V)
    shares = np.divide(along**2, lengths, out=np.full(len(V), np.nan), where=lengths > 0)
    norm = np.linalg.norm(along)
    cosine = abs(along @ p) / (norm * np.linalg.norm(p)) if norm > 0 else np.nan
    return PopularityDirection(float(cosine), shares)


def effective_rank(item_vectors: ArrayLike) -> float:
    """Return how many directions the vectors use: the exponential of an entropy.

    exp(−Σ_i q_i log q_i) with q_i = σ_i / Σ_l σ_l and the singular values σ of the vectors (Roy and
    Vetterli, 2007): r if all are equal, 1 if all vectors are parallel, nan if all are zero.

    Parameters
    ----------
    item_vectors : array-like of shape (m, r)
        One row per item.

    Examples
    --------
    >>> round(effective_rank([[1.0, 0.0], [0.0, 1.0]]), 6), effective_rank([[1.0, 2.0], [2.0, 4.0]])
    (2.0, 1.0)
    """
    sigma = np.linalg.svd(check_matrix(item_vectors, "item_vectors"), compute_uv=False)
    sigma = sigma[sigma > sigma.max(initial=0.0) * len(sigma) * np.finfo(np.float64).eps]
    if not len(sigma):
        return float("nan")
    q = sigma / sigma.sum()
    return float(np.exp(-(q @ np.log(q))))


def anisotropy(item_vectors: ArrayLike) -> float:
    """Return the mean cosine of two different items: 0 if directions are spread evenly, 1 if equal.

    Zero vectors are left out (Ethayarajh, 2019, from a sample of pairs; here from all pairs).

    Parameters
    ----------
    item_vectors : array-like of shape (m, r)
        One row per item.

    Examples
    --------
    >>> anisotropy([[1.0, 0.0], [0.0, 3.0]]), anisotropy([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    (0.0, 1.0)
    """
    V = check_matrix(item_vectors, "item_vectors")
    lengths = np.linalg.norm(V, axis=1)
    unit = V[lengths > 0] / lengths[lengths > 0, None]
    n = len(unit)
    if n < 2:
        return float("nan")
    total = unit.sum(axis=0)
    # the square of the sum counts every pair twice, and every item with itself once
    return float(np.clip((total @ total - n) / (n * (n - 1)), -1, 1))


def mean_gap(representation: ArrayLike, labels: ArrayLike) -> Result:
    """Largest distance of a group's mean from the mean of all groups' means.

    Parameters
    ----------
    representation : array-like of shape (n_users, n_components)
        E.g. ``model.transform(interactions)``.
    labels : array-like of shape (n_users,)
        The group of each user.

    Examples
    --------
    >>> mean_gap([[0.0], [0.0], [4.0]], ["a", "a", "b"]).value
    2.0
    """
    groups = _groups(representation, labels)
    means = np.stack([rows.mean(axis=0) for rows in groups])
    largest = float(np.linalg.norm(means - means.mean(axis=0), axis=1).max())
    return Result("mean_gap", largest, "standard", n=sum(map(len, groups)))


def covariance_gap(representation: ArrayLike, labels: ArrayLike) -> Result:
    """Largest ‖Σ_g − Σ̄‖₂ over the groups, Σ̄ the mean of their covariances.

    Parameters
    ----------
    representation, labels
        As in `mean_gap`.

    Examples
    --------
    >>> covariance_gap([[1.0], [-1.0], [3.0], [-3.0]], [0, 0, 1, 1]).value
    4.0
    """
    groups = _groups(representation, labels)
    centered = [rows - rows.mean(axis=0) for rows in groups]
    covariances = np.stack([rows.T @ rows / len(rows) for rows in centered])
    gaps = np.linalg.norm(covariances - covariances.mean(axis=0), ord=2, axis=(1, 2))
    return Result("covariance_gap", float(gaps.max()), "standard", n=sum(map(len, groups)))


def mmd(
    representation: ArrayLike, labels: ArrayLike, *, width: float | None = None, seed: int = 0
) -> Result:
    """Largest squared maximum mean discrepancy between two groups, with a Gaussian kernel.

    The mean of exp(−‖x − y‖² / 2σ²) within the two groups minus that between them, pairs of a row
    with itself included, as in Lee et al. 2022. Groups of more than 5,000 users are sampled.

    Parameters
    ----------
    representation, labels
        As in `mean_gap`.
    width : float, optional
        σ; by default σ² is half the median of the squared distances.
    seed : int
        Of the sample.

    Examples
    --------
    >>> round(mmd([[0.0], [0.0], [3.0], [3.0]], [0, 0, 1, 1], width=1.0).value, 4)
    1.9778
    """
    groups = [_sampled(rows, seed) for rows in _groups(representation, labels)]
    found = max(_mmd(*pair, width) for pair in combinations(groups, 2))
    return Result("mmd", found, "gaussian", n=sum(map(len, groups)))


def linear_separability(representation: ArrayLike, labels: ArrayLike) -> Result:
    """How much better logistic regression finds the group than always guessing the largest.

    (a − m) / (1 − m) with the accuracy a on the same users and the share m of the largest group.

    Parameters
    ----------
    representation, labels
        As in `mean_gap`.

    Examples
    --------
    >>> linear_separability([[0.0], [1.0], [8.0], [9.0]], ["a", "a", "b", "b"]).value
    1.0
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    groups = _groups(representation, labels)
    Y = StandardScaler().fit_transform(np.vstack(groups))
    codes = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    accuracy = float(LogisticRegression(max_iter=1000).fit(Y, codes).score(Y, codes))
    majority = max(map(len, groups)) / len(codes)
    return Result(
        "linear_separability", (accuracy - majority) / (1 - majority), "standard", n=len(codes)
    )


def _groups(representation: ArrayLike, labels: ArrayLike) -> list[FloatArray]:
    Y, of = np.asarray(representation, dtype=np.float64), np.asarray(labels)
    if Y.ndim != 2 or of.shape != Y.shape[:1]:
        raise InvalidDataError(
            f"representation must have one row per label, got shapes {Y.shape} and {of.shape}."
        )
    if not np.isfinite(Y).all():
        raise InvalidDataError("representation must be finite.")
    names, codes = np.unique(of, return_inverse=True)
    if len(names) < 2:
        raise InvalidDataError(f"labels must name at least two groups, got {len(names)}.")
    return [Y[codes == g] for g in range(len(names))]


def _sampled(rows: FloatArray, seed: int) -> FloatArray:
    if len(rows) <= _MOST_ROWS:
        return rows
    return rows[np.random.default_rng(seed).choice(len(rows), _MOST_ROWS, replace=False)]


def _mmd(X: FloatArray, Y: FloatArray, width: float | None) -> float:
    from sklearn.metrics.pairwise import rbf_kernel

    variance = _half_median(np.vstack([X, Y])) if width is None else width**2
    pairs, signs = ((X, X), (Y, Y), (X, Y)), (1, 1, -2)
    means = [float(rbf_kernel(*pair, gamma=1 / (2 * variance)).mean()) for pair in pairs]
    return float(np.dot(signs, means))


def _half_median(rows: FloatArray) -> float:
    from sklearn.metrics.pairwise import euclidean_distances

    distances = euclidean_distances(rows[:: max(1, len(rows) // 1000)], squared=True)
    return max(float(np.median(distances[distances > 0])) / 2 if distances.any() else 0.5, 1e-300)
