"""Matrices whose spectrum or components are known by construction, for the paper's theorems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError


class PlantedSpectrum(NamedTuple):
    """Data whose singular values and right singular vectors are known."""

    interactions: Interactions
    singular_values: NDArray[np.float64]
    right_vectors: NDArray[np.float64]  # items x rank, columns orthonormal


class ExclusiveTastes(NamedTuple):
    """The two groups of Theorem "baseline"; popular items come first."""

    interactions: Interactions
    n_popular: int
    users_per_popular_item: int
    users_per_unpopular_item: int


def planted_spectrum(
    n_users: int, n_items: int, singular_values: ArrayLike, seed: int = 0
) -> PlantedSpectrum:
    """Return X = Σ_i σ_i a_i b_iᵀ with non-negative factors, so its SVD is known exactly.

    Every user and every item belongs to one component i; a_i and b_i are random positive unit
    vectors on its users and items. Factors of different components do not overlap, so they are
    orthonormal, and σ are the singular values.

    Examples
    --------
    >>> planted = planted_spectrum(6, 4, [3.0, 1.0])
    >>> X = planted.interactions.matrix.toarray()
    >>> np.linalg.svd(X, compute_uv=False).round(6).tolist()
    [3.0, 1.0, 0.0, 0.0]
    """
    sigma = np.sort(np.asarray(singular_values, dtype=np.float64))[::-1]
    if sigma.ndim != 1 or not len(sigma) or np.any(sigma <= 0):
        raise InvalidParameterError("singular_values must be a flat list of positive numbers.")
    if len(sigma) > min(n_users, n_items):
        raise InvalidParameterError(
            f"{len(sigma)} singular values need as many users and items, got {n_users} and "
            f"{n_items}."
        )
    rng = np.random.default_rng(seed)
    left = _disjoint_factors(n_users, len(sigma), rng)
    right = _disjoint_factors(n_items, len(sigma), rng)
    X = sparse.csr_array(left * sigma) @ sparse.csr_array(right.T)
    return PlantedSpectrum(Interactions.from_sparse(X), sigma, right)


def _disjoint_factors(size: int, rank: int, rng: np.random.Generator) -> NDArray[np.float64]:
    factors = np.zeros((size, rank))
    factors[np.arange(size), rng.permutation(size) % rank] = rng.uniform(0.5, 1.5, size)
    return factors / np.linalg.norm(factors, axis=0)


def item_regular_blocks(
    users: Sequence[int], items: Sequence[int], popularity: Sequence[int], seed: int = 0
) -> Interactions:
    """Return a 0/1 block-diagonal matrix in which all items of a block are equally popular.

    Block k has users[k] users and items[k] items, each liked by popularity[k] random users of the
    block. On such data Item-Weighted PCA with γ = −2 is Normalized PCA.

    Examples
    --------
    >>> blocks = item_regular_blocks(users=[4, 3], items=[2, 2], popularity=[3, 1])
    >>> blocks.popularity("count").tolist()
    [3.0, 3.0, 1.0, 1.0]
    """
    if not len(users) == len(items) == len(popularity) > 0:
        raise InvalidParameterError("users, items and popularity need one entry per block.")
    for n, p in zip(users, popularity, strict=True):
        if not 1 <= p <= n:
            raise InvalidParameterError(
                f"popularity {p} must be from 1 to the {n} users of its block."
            )
    rng = np.random.default_rng(seed)
    blocks = [
        _equally_popular(n, m, p, rng) for n, m, p in zip(users, items, popularity, strict=True)
    ]
    return Interactions.from_sparse(sparse.block_diag(blocks, format="csr"))


def _equally_popular(n: int, m: int, popularity: int, rng: np.random.Generator) -> Any:
    """Give each of m items `popularity` different users out of n."""
    users = rng.random((m, n)).argsort(axis=1)[:, :popularity].ravel()
    items = np.repeat(np.arange(m), popularity)
    return sparse.csr_array((np.ones(len(users)), (users, items)), shape=(n, m))


def exclusive_tastes(
    rank: int = 4, beta: int = 2, ratio: int | None = None, smallest_block: int = 1
) -> ExclusiveTastes:
    """Return 0/1 data of Theorem "baseline": users like popular items only, or unpopular only.

    Block i of the popular items holds β^(r−i)·smallest_block items, all liked by the same n_p
    users, so X_pᵀX_p has the eigenvalues λ_i = n_p·β^(r−i)·smallest_block. Unpopular blocks are
    `ratio` times as wide and liked by n_u = 1 users, and n_p = ratio²: then
    m_u = √(n_p/n_u)·m_p, and n_u/n_p < β^{−2(r−1)} if ratio > β^(r−1) (the default is one more).
    PCA's first r components lie on popular items, Normalized PCA's on unpopular ones; with γ = −1
    the two halves tie.
    """
    if rank < 1 or beta < 2 or smallest_block < 1:
        raise InvalidParameterError("rank and smallest_block must be 1 or more, beta 2 or more.")
    ratio = beta ** (rank - 1) + 1 if ratio is None else ratio
    if ratio <= beta ** (rank - 1):
        raise InvalidParameterError(
            f"ratio={ratio} must exceed beta^(rank-1) = {beta ** (rank - 1)} for the theorem."
        )
    widths = [smallest_block * beta ** (rank - i) for i in range(1, rank + 1)]
    popular = [np.ones((ratio**2, width)) for width in widths]
    unpopular = [np.ones((1, ratio * width)) for width in widths]
    blocks = [sparse.coo_array(block) for block in popular + unpopular]
    X = sparse.block_diag(blocks, format="csr")
    return ExclusiveTastes(Interactions.from_sparse(X), sum(widths), ratio**2, 1)


def popular_and_rare(
    n_users: int, n_popular: int, n_rare: int, users_per_rare_item: int = 3, seed: int = 0
) -> Interactions:
    """Return 0/1 data of Theorem "unfair": coin flips for popular items, a few users for the rest.

    The first n_popular columns are independent Bernoulli(½), so their singular values grow as √n;
    every other item has exactly `users_per_rare_item` users. PCA with n_popular components tends
    to the identity on the popular items as n_users grows, and to zero on the others.
    """
    if not 1 <= users_per_rare_item <= n_users:
        raise InvalidParameterError(
            f"users_per_rare_item={users_per_rare_item} must be from 1 to the {n_users} users."
        )
    rng = np.random.default_rng(seed)
    popular = sparse.csr_array((rng.random((n_users, n_popular)) < 0.5).astype(np.float64))
    users = np.concatenate(
        [rng.choice(n_users, users_per_rare_item, replace=False) for _ in range(n_rare)]
    )
    items = np.repeat(np.arange(n_rare), users_per_rare_item)
    rare = sparse.csr_array((np.ones(len(users)), (users, items)), shape=(n_users, n_rare))
    return Interactions.from_sparse(sparse.hstack([popular, rare], format="csr"))
