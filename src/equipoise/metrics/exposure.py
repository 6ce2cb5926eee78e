"""How recommendations spread over the catalogue: Gini, entropy, coverage.

All start from how often each item was recommended, so count once with `recommendation_counts`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from equipoise.metrics._checks import check_choice, check_item_vector
from equipoise.metrics._pairs import pairs_of_lists
from equipoise.metrics.results import FloatArray, IntArray, MetricResult

#: convention of `gini` -> what it computes
GINI_CONVENTIONS: Mapping[str, str] = {
    "standard": "sum of (2j - n - 1) c_(j) / (n sum c), n the catalogue; 0 is equal (LensKit)",
    "warprec": "the same over n - 1",
    "elliot": "1 - warprec: high is fair",
    "recbole": "standard, n counts a padding item nobody is shown",
    "evidently": "warprec, over recommended items only",
}

#: convention of `entropy` -> what it computes
ENTROPY_CONVENTIONS: Mapping[str, str] = {
    "bits": "logarithm to base 2",
    "nats": "natural logarithm",
    "recbole": "nats over the number of distinct items recommended",
}


def recommendation_counts(top_items: ArrayLike, n_items: int) -> IntArray:
    """How often each item of the catalogue is recommended.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    n_items : int
        Size of the catalogue.

    Examples
    --------
    >>> recommendation_counts([[0, 1], [0, -1]], n_items=4).tolist()
    [2, 1, 0, 0]
    """
    return np.bincount(pairs_of_lists(top_items, n_items).items, minlength=n_items)


def gini(counts: ArrayLike, *, convention: str = "standard") -> MetricResult:
    """Gini coefficient of the exposure of items.

        G = Σ_j (2j − n − 1) c_(j) / (n Σ_j c_j)

    where c_(j) are the n counts in ascending order. 0: every item equally often; towards 1:
    one item gets everything. See ``GINI_CONVENTIONS`` for the others in use.

    Parameters
    ----------
    counts : array-like of shape (m,)
        As from `recommendation_counts`; any non-negative amounts.
    convention : str
        A key of ``GINI_CONVENTIONS``.

    Returns
    -------
    MetricResult
        nan if nothing was recommended.

    Examples
    --------
    Counts 1 and 3: ((2·1 − 3)·1 + (2·2 − 3)·3) / (2·4) = 2/8.

    >>> gini([3, 1]).value
    0.25
    """
    check_choice(convention, GINI_CONVENTIONS, "convention of gini")
    c = np.sort(check_item_vector(counts, None, "counts"))
    if convention == "recbole":
        c = np.concatenate([[0.0], c])
    elif convention == "evidently":
        c = c[c > 0]
    n = len(c)
    divisor = (n if convention in ("standard", "recbole") else n - 1) * c.sum()
    value = _signed_sum(c) / divisor if divisor else np.nan
    return MetricResult("gini", float(1 - value if convention == "elliot" else value), convention)


def _signed_sum(ascending: FloatArray) -> float:
    n = len(ascending)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ascending)


def ordered_gini(values: FloatArray) -> float:
    """Gini coefficient of values in the order given, ascending by something else; nan if all 0."""
    total = len(values) * values.sum()
    return _signed_sum(values) / float(total) if total else float("nan")


def entropy(counts: ArrayLike, *, convention: str = "bits") -> MetricResult:
    """Shannon entropy of the exposure of items.

        H = −Σ_{j : c_j > 0} q_j log q_j,   q_j = c_j / Σ c

    Parameters
    ----------
    counts : array-like of shape (m,)
        As from `recommendation_counts`.
    convention : str
        A key of ``ENTROPY_CONVENTIONS``.

    Examples
    --------
    >>> entropy([2, 2, 0, 4]).value
    1.5
    """
    check_choice(convention, ENTROPY_CONVENTIONS, "convention of entropy")
    c = check_item_vector(counts, None, "counts")
    q = c[c > 0] / c.sum() if c.any() else np.array([np.nan])
    value = -float(q @ (np.log2(q) if convention == "bits" else np.log(q)))
    return MetricResult("entropy", value / len(q) if convention == "recbole" else value, convention)


def catalogue_coverage(counts: ArrayLike) -> MetricResult:
    """Share of the catalogue that is recommended to anybody.

    Examples
    --------
    >>> catalogue_coverage([2, 1, 0, 0]).value
    0.5
    """
    c = check_item_vector(counts, None, "counts")
    value = float(np.count_nonzero(c) / len(c)) if len(c) else float("nan")
    return MetricResult("coverage", value, "share of the catalogue")
