"""LightGCN (He et al. 2020): PyTorch Geometric trains it, NumPy alone serves it."""

from equipoise.models.peers.lightgcn.model import LightGCN
from equipoise.models.peers.lightgcn.training import Epoch

__all__ = ["Epoch", "LightGCN"]
