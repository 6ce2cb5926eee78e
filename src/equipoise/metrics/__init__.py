"""Metrics: functions of arrays for any model, and a registry of them for `evaluate` and `tune`.

Rows are users and columns are items everywhere. Recommended lists are n × k arrays of item
indices, best first, -1 where a list is shorter. Where libraries define a metric differently,
``convention`` chooses, and the result names what was computed.
"""

from types import ModuleType as _Module

from equipoise.metrics.collaboration import ItemCollaboration as ItemCollaboration
from equipoise.metrics.collaboration import item_auc as item_auc
from equipoise.metrics.collaboration import item_collaboration as item_collaboration
from equipoise.metrics.collaboration import item_precision as item_precision
from equipoise.metrics.embeddings import PopularityDirection as PopularityDirection
from equipoise.metrics.embeddings import anisotropy as anisotropy
from equipoise.metrics.embeddings import covariance_gap as covariance_gap
from equipoise.metrics.embeddings import effective_rank as effective_rank
from equipoise.metrics.embeddings import linear_separability as linear_separability
from equipoise.metrics.embeddings import mean_gap as mean_gap
from equipoise.metrics.embeddings import mmd as mmd
from equipoise.metrics.embeddings import popularity_direction as popularity_direction
from equipoise.metrics.exposure import ATTENTION_CONVENTIONS as ATTENTION_CONVENTIONS
from equipoise.metrics.exposure import GROUP_EXPOSURE_CONVENTIONS as GROUP_EXPOSURE_CONVENTIONS
from equipoise.metrics.exposure import GROUP_RECALL_CONVENTIONS as GROUP_RECALL_CONVENTIONS
from equipoise.metrics.exposure import awrf as awrf
from equipoise.metrics.exposure import coverage_by_group as coverage_by_group
from equipoise.metrics.exposure import expected_exposure_loss as expected_exposure_loss
from equipoise.metrics.exposure import exposure_by_group as exposure_by_group
from equipoise.metrics.exposure import exposure_to_relevance as exposure_to_relevance
from equipoise.metrics.exposure import recall_by_group as recall_by_group
from equipoise.metrics.fairness import ENTROPY_CONVENTIONS as ENTROPY_CONVENTIONS
from equipoise.metrics.fairness import GINI_CONVENTIONS as GINI_CONVENTIONS
from equipoise.metrics.fairness import OPPORTUNITY_CONVENTIONS as OPPORTUNITY_CONVENTIONS
from equipoise.metrics.fairness import catalog_coverage as catalog_coverage
from equipoise.metrics.fairness import entropy as entropy
from equipoise.metrics.fairness import gini as gini
from equipoise.metrics.fairness import popreo as popreo
from equipoise.metrics.fairness import poprsp as poprsp
from equipoise.metrics.fairness import popularity_opportunity_bias as popularity_opportunity_bias
from equipoise.metrics.fairness import recommendation_counts as recommendation_counts
from equipoise.metrics.groups import POPULARITY_RULES as POPULARITY_RULES
from equipoise.metrics.groups import ItemGroups as ItemGroups
from equipoise.metrics.groups import mean_by_group as mean_by_group
from equipoise.metrics.groups import popularity_groups as popularity_groups
from equipoise.metrics.lists import DIVERSITY_CONVENTIONS as DIVERSITY_CONVENTIONS
from equipoise.metrics.lists import calibration as calibration
from equipoise.metrics.lists import intra_list_diversity as intra_list_diversity
from equipoise.metrics.lists import pri as pri
from equipoise.metrics.lists import pru as pru
from equipoise.metrics.metric import Context as Context
from equipoise.metrics.metric import Metric as Metric
from equipoise.metrics.metric import Partial as Partial
from equipoise.metrics.metric import Request as Request
from equipoise.metrics.metric import UserBlock as UserBlock
from equipoise.metrics.popularity import ARP_CONVENTIONS as ARP_CONVENTIONS
from equipoise.metrics.popularity import NOVELTY_CONVENTIONS as NOVELTY_CONVENTIONS
from equipoise.metrics.popularity import POPULARITY_RANK_CONVENTIONS as POPULARITY_RANK_CONVENTIONS
from equipoise.metrics.popularity import average_popularity as average_popularity
from equipoise.metrics.popularity import average_tail_count as average_tail_count
from equipoise.metrics.popularity import average_tail_share as average_tail_share
from equipoise.metrics.popularity import efd as efd
from equipoise.metrics.popularity import epc as epc
from equipoise.metrics.popularity import mean_popularity_rank as mean_popularity_rank
from equipoise.metrics.popularity import popularity_lift as popularity_lift
from equipoise.metrics.popularity import popularity_miscalibration as popularity_miscalibration
from equipoise.metrics.projection import ItemView as ItemView
from equipoise.metrics.projection import components_to_reach as components_to_reach
from equipoise.metrics.projection import item_error as item_error
from equipoise.metrics.projection import orthonormal_basis as orthonormal_basis
from equipoise.metrics.projection import self_reconstruction as self_reconstruction
from equipoise.metrics.projection import specialization as specialization
from equipoise.metrics.ranking import RANKING_CONVENTIONS as RANKING_CONVENTIONS
from equipoise.metrics.ranking import RANKING_METRICS as RANKING_METRICS
from equipoise.metrics.ranking import hit_rate_at_k as hit_rate_at_k
from equipoise.metrics.ranking import map_at_k as map_at_k
from equipoise.metrics.ranking import mrr_at_k as mrr_at_k
from equipoise.metrics.ranking import ndcg_at_k as ndcg_at_k
from equipoise.metrics.ranking import precision_at_k as precision_at_k
from equipoise.metrics.ranking import ranking_metrics as ranking_metrics
from equipoise.metrics.ranking import recall_at_k as recall_at_k
from equipoise.metrics.registry import available as available
from equipoise.metrics.registry import find_metric as find_metric
from equipoise.metrics.results import GroupResult as GroupResult
from equipoise.metrics.results import Result as Result
from equipoise.metrics.results import Results as Results

__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, _Module)
]
