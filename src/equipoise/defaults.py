"""Defaults that functions and options of the command line share.

Nothing is imported here: the help of a command shows them without loading NumPy.
"""

from typing import Final

#: random seed of splits, samples and synthetic data
SEED: Final = 0
#: items per list that is served, as in implicit and LensKit
SERVED_K: Final = 10
#: items per list that is measured, as in the paper
MEASURED_K: Final = 20
#: how interactions are held out, and how many with ``leave_last_n``
HOLDOUT: Final = "per_user_random"
LAST_N: Final = 1
#: shares of the interactions that are held out
TEST: Final = 0.2
VALIDATION: Final = 0.1
#: rule of the popularity groups
GROUPS: Final = "interactions"
#: model that is fitted and tuned, what tuning maximizes, and what the frontier weighs against it
MODEL: Final = "item-weighted"
MAXIMIZE: Final = "ndcg@20"
TRADE_OFF: Final = ("aplt",)
#: value of a metric for users without held-out items: they are left out of its mean
ZERO_DIVISION: Final = float("nan")
#: re-ranker, and the rule of its groups
RERANKER: Final = "xquad:0.3"
RERANK_GROUPS: Final = "head80"
#: rank and depth of an audit
AUDIT_RANK: Final = "auto"
AUDIT_DEPTH: Final = "standard"
