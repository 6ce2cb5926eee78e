"""Read tables of many formats as `Interactions`."""

from __future__ import annotations

from equipoise.data import synthetic
from equipoise.data.description import Description
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split, holdout

__all__ = ["Description", "Groups", "Interactions", "Split", "holdout", "synthetic"]
