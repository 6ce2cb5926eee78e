"""The findings that must be told in plain words, with the numbers as measured."""

from __future__ import annotations

from equipoise.paper.claims.building import change, text_change
from equipoise.paper.measurements import Evaluation, Measurements
from equipoise.paper.protocol import ITEM_RANK, USER_RANK


def headlines(measurements: Measurements) -> tuple[str, ...]:
    """Where the text, the published code and the exact optimum part ways."""
    teaser, (lastfm, movielens) = measurements.teaser, measurements.evaluations
    return (
        f"“The bottom 10 % requires 455 components” is the mean over the other 90 % of the "
        f"artists ({teaser.mean_halving('not top'):.1f}): the published code leaves out the top "
        f"10 % instead of keeping the bottom 10 %. The bottom 10 % need "
        f"{teaser.mean_halving('bottom'):.0f}.",
        f"The popularity groups behind the published numbers are cut by mass, not by number of "
        f"items: “low” is what comes after 90 % of the mass, {_low(lastfm, 'mass')} artists of "
        f"LastFM and {_low(movielens, 'mass')} films of MovieLens, not the last tenth "
        f"({_low(lastfm, 'items')} and {_low(movielens, 'items')}). With tenths of the items, "
        f"as the text says, item AUC of unpopular artists rises by "
        f"{text_change(lastfm, 'item_auc', 'low'):.1f} % instead of "
        f"{change(lastfm, 'item_auc', ITEM_RANK, 'low'):.1f} %, and item precision of unpopular "
        f"films by {text_change(movielens, 'item_precision@20', 'low'):.1f} % instead of "
        f"{change(movielens, 'item_precision@20', ITEM_RANK, 'low'):.1f} %.",
        f"Recall@20 on LastFM rises by {change(lastfm, 'recall@20', USER_RANK):.1f} %, not 51.7 %, "
        f"at the exact optimum of the published problem.",
    )


def _low(evaluation: Evaluation, rule: str) -> int:
    return evaluation.group_sizes[rule]["low"]
