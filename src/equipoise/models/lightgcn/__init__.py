"""LightGCN (He et al. 2020): PyTorch Geometric trains it, NumPy alone serves it."""

from equipoise.models.lightgcn.model import LightGCN
from equipoise.models.lightgcn.training import Epoch

__all__ = ["Epoch", "LightGCN"]
