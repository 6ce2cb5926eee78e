"""The settings of the published experiments."""

from __future__ import annotations

from typing import NamedTuple

PCA, NORMALIZED, ITEM_WEIGHTED = "PCA", "Normalized PCA", "Item-Weighted PCA"
MODELS = (PCA, NORMALIZED, ITEM_WEIGHTED)
WEIGHTED_MF, LIGHTGCN = "Weighted MF", "LightGCN"

#: The ranks at which the text gives its in-sample and its out-of-sample numbers.
ITEM_RANK, USER_RANK = 30, 32

#: Out-of-sample metrics in the order of Figure 6, with the published code's MRR.
USER_METRICS = {
    "recall@20": "Recall@20",
    "precision@20": "Precision@20",
    "ndcg@20": "NDCG@20",
    "mrr@20:lightgcn": "MRR@20",
}
ITEM_METRICS = ("specialization", "self_reconstruction", "item_auc", "item_precision@20")

#: The seed of the split into train, validation and test.
SEED = 1024

#: Popularity groups.
GROUPS = ("popular", "medium", "niche")
#: Rules that cut the groups: by number of items (text), by sum of values (published code).
RULES = ("items", "interactions")

#: −2, −1.9, …, 0
GAMMAS = tuple(round(-2 + i / 10, 1) for i in range(21))
#: The text reports Recall@20; the published sweep over γ counts ten items.
GAMMA_METRICS = ("recall@20", "recall@10")

#: The one artist that the text names, and the places in popularity of seven others.
NAMED_ARTIST, ARTIST_PLACES = "Claudia Leitte", (1, 3, 10, 30, 100, 300, 900)

# Beyond rank 256 a fit of Weighted MF takes minutes, and its curve already falls.
WEIGHTED_MF_RANKS, QUICK_WEIGHTED_MF_RANKS = (4, 8, 16, 32, 64, 128, 256), (16, 32, 64)


class Dataset(NamedTuple):
    """A data set of the paper: its names in `load_dataset` and in the paper, its values."""

    catalog: str
    title: str
    n_items: int
    entry_type: str


DATASETS = {
    "lastfm": Dataset("lastfm-2k", "LastFM", 1529, "(0, 1)"),
    "movielens": Dataset("ml-1m", "MovieLens", 1200, "{0, 1}"),
}


def user_ranks(n_items: int) -> tuple[int, ...]:
    """Ranks of Figures 4, 6 and 7: powers of two from 4 to 1024.

    Examples
    --------
    >>> user_ranks(1529)
    (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    """
    return tuple(2**i for i in range(2, 11) if 2**i <= n_items)


def item_ranks(n_items: int, *, quick: bool = False) -> tuple[int, ...]:
    """Ranks of Figures 2 and 3: dense at low rank, then steps of 150, then m.

    Examples
    --------
    >>> len(item_ranks(1529)), len(item_ranks(1200)), item_ranks(1200)[-3:]
    (24, 22, (1000, 1150, 1200))
    """
    low = (1, 4, 10, 30) if quick else (1, 2, 4, 8, *range(10, 100, 10))
    high = range(100, n_items, 450 if quick else 150)
    return (*(r for r in (*low, *high) if r < n_items), n_items)
