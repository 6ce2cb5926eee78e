from os import PathLike

from equipoise.models.base import Recommender as Recommender
from equipoise.models.explanations import Explanation as Explanation
from equipoise.models.explanations import Explanations as Explanations
from equipoise.models.fair.covariance_regularized_pca import (
    CovarianceRegularizedPCA as CovarianceRegularizedPCA,
)
from equipoise.models.fair.fair_pca import FairPCA as FairPCA
from equipoise.models.fair.floor_prices import FloorPrice as FloorPrice
from equipoise.models.fair.floor_prices import price_of_floors as price_of_floors
from equipoise.models.fair.hidden_groups_pca import HiddenGroupsPCA as HiddenGroupsPCA
from equipoise.models.fair.long_tail_regularized_pca import (
    LongTailRegularizedPCA as LongTailRegularizedPCA,
)
from equipoise.models.fair.max_min_pca import MaxMinItemWeightedPCA as MaxMinItemWeightedPCA
from equipoise.models.item_vectors import Factors as Factors
from equipoise.models.item_vectors import ItemItem as ItemItem
from equipoise.models.local_global import Evidence as Evidence
from equipoise.models.local_global import LocalGlobal as LocalGlobal
from equipoise.models.pca.item_weighted_pca import ItemWeightedPCA as ItemWeightedPCA
from equipoise.models.pca.plain_pca import NormalizedPCA as NormalizedPCA
from equipoise.models.pca.plain_pca import VanillaPCA as VanillaPCA
from equipoise.models.peers.baselines import Popularity as Popularity
from equipoise.models.peers.baselines import Random as Random
from equipoise.models.peers.ease import EASE as EASE
from equipoise.models.peers.gfcf import GFCF as GFCF
from equipoise.models.peers.item_knn import ItemKNN as ItemKNN
from equipoise.models.peers.lightgcn import LightGCN as LightGCN
from equipoise.models.peers.reweighted_mf import IPSMF as IPSMF
from equipoise.models.peers.reweighted_mf import PopularityWeightedMF as PopularityWeightedMF
from equipoise.models.peers.trace_norm import TraceNormMF as TraceNormMF
from equipoise.models.peers.weighted_mf import WeightedMF as WeightedMF
from equipoise.models.ranking import Ranking as Ranking

def load(path: str | PathLike[str], *, mmap: bool = False, verify: bool = True) -> Recommender: ...
