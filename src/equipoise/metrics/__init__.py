"""Metrics: functions of arrays for any model, and a registry of them for `evaluate` and `tune`.

Rows are users and columns are items everywhere. Recommended lists are n × k arrays of item
indices, best first, -1 where a list is shorter. Where libraries define a metric differently,
``convention`` chooses, and the result names what was computed.
"""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
