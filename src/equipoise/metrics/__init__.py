"""Metrics as pure functions of arrays, for this package's models and anybody else's.

Rows are users and columns are items everywhere. Recommended lists are n × k arrays of item
indices, best first, -1 where a list is shorter. Where libraries define a metric differently,
``convention`` chooses, and the result names what was computed.
"""

from equipoise.metrics._ranking_definitions import RANKING_CONVENTIONS, RANKING_METRICS
from equipoise.metrics.collaboration import (
    ItemCollaboration,
    item_auc,
    item_collaboration,
    item_precision,
)
from equipoise.metrics.exposure import (
    ENTROPY_CONVENTIONS,
    GINI_CONVENTIONS,
    catalogue_coverage,
    entropy,
    gini,
    recommendation_counts,
)
from equipoise.metrics.fairness import (
    GROUP_EXPOSURE_CONVENTIONS,
    GROUP_RECALL_CONVENTIONS,
    OPPORTUNITY_CONVENTIONS,
    exposure_by_group,
    popreo,
    poprsp,
    popularity_opportunity_bias,
    recall_by_group,
)
from equipoise.metrics.groups import (
    POPULARITY_RULES,
    ItemGroups,
    mean_by_group,
    popularity_groups,
)
from equipoise.metrics.novelty import NOVELTY_CONVENTIONS, efd, epc
from equipoise.metrics.popularity import (
    ARP_CONVENTIONS,
    POPULARITY_RANK_CONVENTIONS,
    average_popularity,
    average_tail_count,
    average_tail_share,
    mean_popularity_rank,
    popularity_lift,
    popularity_miscalibration,
)
from equipoise.metrics.projection import (
    diagonal_by_group,
    orthonormal_basis,
    projection_diagonal,
    specialization,
)
from equipoise.metrics.ranking import (
    EMPTY_POLICIES,
    hit_rate_at_k,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    ranking_metrics,
    recall_at_k,
)
from equipoise.metrics.reconstruction import components_to_reach, item_error
from equipoise.metrics.results import GroupResult, MetricResult, MetricTable

__all__ = [
    "ARP_CONVENTIONS",
    "EMPTY_POLICIES",
    "ENTROPY_CONVENTIONS",
    "GINI_CONVENTIONS",
    "GROUP_EXPOSURE_CONVENTIONS",
    "GROUP_RECALL_CONVENTIONS",
    "NOVELTY_CONVENTIONS",
    "OPPORTUNITY_CONVENTIONS",
    "POPULARITY_RANK_CONVENTIONS",
    "POPULARITY_RULES",
    "RANKING_CONVENTIONS",
    "RANKING_METRICS",
    "GroupResult",
    "ItemCollaboration",
    "ItemGroups",
    "MetricResult",
    "MetricTable",
    "average_popularity",
    "average_tail_count",
    "average_tail_share",
    "catalogue_coverage",
    "components_to_reach",
    "diagonal_by_group",
    "efd",
    "entropy",
    "epc",
    "exposure_by_group",
    "gini",
    "hit_rate_at_k",
    "item_auc",
    "item_collaboration",
    "item_error",
    "item_precision",
    "map_at_k",
    "mean_by_group",
    "mean_popularity_rank",
    "mrr_at_k",
    "ndcg_at_k",
    "orthonormal_basis",
    "popreo",
    "poprsp",
    "popularity_groups",
    "popularity_lift",
    "popularity_miscalibration",
    "popularity_opportunity_bias",
    "precision_at_k",
    "projection_diagonal",
    "ranking_metrics",
    "recall_at_k",
    "recall_by_group",
    "recommendation_counts",
    "specialization",
]
