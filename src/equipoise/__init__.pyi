"""The public API, for type checkers and for `equipoise.lazy`: every name once."""

from equipoise import metrics as metrics
from equipoise.audit import audit as audit  # the module can be called, too
from equipoise.data.catalog import load_dataset as load_dataset
from equipoise.data.groups import Groups as Groups
from equipoise.data.interactions import Interactions as Interactions
from equipoise.data.split import holdout as holdout
from equipoise.evaluation import compare as compare
from equipoise.evaluation import evaluate as evaluate
from equipoise.evaluation import tune as tune
from equipoise.exceptions import EquipoiseError as EquipoiseError
from equipoise.models import EASE as EASE
from equipoise.models import GFCF as GFCF
from equipoise.models import IPSMF as IPSMF
from equipoise.models import CovarianceRegularizedPCA as CovarianceRegularizedPCA
from equipoise.models import FairPCA as FairPCA
from equipoise.models import HiddenGroupsPCA as HiddenGroupsPCA
from equipoise.models import ItemKNN as ItemKNN
from equipoise.models import ItemWeightedPCA as ItemWeightedPCA
from equipoise.models import LightGCN as LightGCN
from equipoise.models import LocalGlobal as LocalGlobal
from equipoise.models import LongTailRegularizedPCA as LongTailRegularizedPCA
from equipoise.models import MaxMinItemWeightedPCA as MaxMinItemWeightedPCA
from equipoise.models import NormalizedPCA as NormalizedPCA
from equipoise.models import Popularity as Popularity
from equipoise.models import PopularityWeightedMF as PopularityWeightedMF
from equipoise.models import Random as Random
from equipoise.models import TraceNormMF as TraceNormMF
from equipoise.models import VanillaPCA as VanillaPCA
from equipoise.models import WeightedMF as WeightedMF
from equipoise.models import load as load
from equipoise.models.pca.sdp import solve_sdp as solve_sdp
from equipoise.reranking import Reranked as Reranked

__version__: str
