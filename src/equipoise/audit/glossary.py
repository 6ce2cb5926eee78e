"""The terms of the audit, each explained once: for the page's hovers and the glossaries."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: term -> what it means; in the order of the glossary
TERMS: Mapping[str, str] = {
    "popular": "Of the items with the most users that together have a tenth of all interactions.",
    "niche": "Of the items with the fewest users that together have a tenth of all interactions.",
    "component": (
        "One direction of a low-rank model, a pattern of items that go together. The model "
        "describes each user by a few of them."
    ),
    "rank": "Number of components that a model keeps. Few generalize, many reproduce the data.",
    "γ": (
        "Exponent of the item weights: weight = popularity to the power γ. 0 is PCA; more negative "
        "values give niche items more weight."
    ),
    "PCA": "The standard low-rank model: the components that reconstruct the most of the data.",
    "Item-Weighted PCA": "PCA in which niche items count more, by the exponent γ.",
    "EASE": "A linear model that predicts each item from all other items (Steck 2019).",
    "ALS": "Matrix factorization in which interactions count more than gaps (Hu et al. 2008).",
    "0/1 values": "Every interaction counts 1, however often or how high it was.",
    "raw values": "Values as given in the data, such as play counts or ratings.",
    "reconstructed": (
        "A model rebuilds each item's column of the data from its components. What it cannot "
        "rebuild is lost."
    ),
    "item error": (
        "Share of an item that is not reconstructed: 1 nothing is, 0 everything is. Above 1, the "
        "model predicts more than the item has."
    ),
    "components to half error": "Number of components until half of an item is reconstructed.",
    "self-reconstruction": (
        "Share of an item's score that comes from the item itself. Near 1, the model repeats what "
        "a user already did, and learns nothing from other items. Over all items of a projection "
        "it adds up to the rank."
    ),
    "memorized": "Reconstructed from the item itself instead of from other items.",
    "owned": "A component is owned by an item that has more than half of its squared length.",
    "specialization": (
        "Mean self-reconstruction of the tenth of items with the largest. Lower: components are "
        "shared by more items."
    ),
    "item AUC": (
        "How well the other items predict the users of an item: ½ is a coin toss, 1 ranks every "
        "user of the item above all others."
    ),
    "held-out items": "Interactions that a model did not see, and should recommend.",
    "recall": "Share of the held-out items that are in the lists. Higher is better.",
    "precision": "Share of the lists that are held-out items. Higher is better.",
    "NDCG": (
        "How many of the held-out items are in the lists, and how near the top: 1 is perfect. "
        "Higher is better."
    ),
    "MRR": "Mean of 1 / place of the first held-out item in a list. Higher is better.",
    "ARP": "Average popularity of the recommended items. Lower: fewer well-known items.",
    "APLT": (
        "Average share of the lists that are long-tail items: all but the most popular ones, which "
        "have 80 % of the interactions."
    ),
    "long-tail items": "All but the most popular items, which have 80 % of the interactions.",
    "exposure": "Share of the attention in the lists; a place counts 1/log2(rank + 1).",
    "attention": "A place in a list counts 1/log2(rank + 1): higher places are seen more.",
    "retained share": (
        "Part of the interactions of a group's items that a projection reproduces: 1 is everything."
    ),
    "floor": "A minimum for the retained share of a group, whatever it costs other items.",
    "certified limit": (
        "A proven bound: no projection of this rank gives the group a larger retained share."
    ),
    "coverage": "Share of the catalog that appears in any list.",
    "Gini": "Inequality: 0 all items equal, 1 one item has everything.",
    "95 % interval": (
        "Range that contains the true number in 95 of 100 samples like this one; from 500 random "
        "draws of the users or items."
    ),
}

# A term is marked in these forms, too.
_FORMS = {"components": "component", "hits": "popular", "memorizes": "memorized"}
_KEYS = {form.lower(): term for form, term in ((t, t) for t in TERMS)} | _FORMS
_ANY = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(re.escape(form) for form in sorted(_KEYS, key=len, reverse=True))
    + r")(?![\w-])",
    re.IGNORECASE,
)


def mark_terms(html: str, marked: set[str]) -> str:
    """Give each term in escaped text its meaning on hover, the first time it occurs.

    Parameters
    ----------
    html : str
        Escaped text without tags.
    marked : set of str
        Terms that were marked before; new ones are added.

    Examples
    --------
    >>> marked = mark_terms("Gini, Gini", set())
    >>> marked.count("<dfn"), marked.count("Gini"), marked.endswith("Gini")
    (1, 2, True)
    """

    def mark(found: re.Match[str]) -> str:
        term = _KEYS[found[0].lower()]
        if term in marked:
            return found[0]
        marked.add(term)
        return f'<dfn tabindex="0" data-meaning="{TERMS[term]}">{found[0]}</dfn>'

    return _ANY.sub(mark, html)
