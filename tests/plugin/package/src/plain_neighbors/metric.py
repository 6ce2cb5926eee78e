"""Share of users whose first recommended item was held out."""

from equipoise.metrics import Metric


def _measure(block, *_):
    return block.hits[:, 0].astype(float)


first_hit = Metric(
    "first_hit",
    "First hit",
    "share of users whose first recommended item was held out",
    _measure,
    needs=("lists", "held_out"),
    direction="higher",
    has_k=False,
)
