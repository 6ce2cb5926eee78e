"""What the claims are built of: who is compared with whom, and what was found at release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from equipoise.paper.judging import Outcome, tally
from equipoise.paper.measurements import Evaluation, Measurements
from equipoise.paper.protocol import ITEM_WEIGHTED, MODELS, PCA
from equipoise.paper.verdicts import Claim, Verdict

# Found otherwise than published when this version was released; all others are reproduced.
_FOUND_OTHERWISE = {
    Verdict.NOT_REPRODUCED: (
        "collaboration-low-auc-movielens",
        "sandwich-auc-movielens",
        "recall-lastfm",
        "peaks",
        "peak-recall-lastfm",
        "low-rank-lastfm",
        "low-rank-movielens",
    ),
    Verdict.BY_CODE_ONLY: (
        "halve-bottom",
        "popular-diagonal",
        "auc-low-lastfm",
        "prec-low-movielens",
    ),
}
_EXPECTED = {name: verdict for verdict, names in _FOUND_OTHERWISE.items() for name in names}

# A curve has fallen when it ends at least one hundredth below its peak.
_FALLEN = 0.99


def claim(
    name: str, dataset: str, what: str, where: str, published: float | str | bool, how: str
) -> Claim:
    """A claim, with the verdict that it had at release."""
    return Claim(
        name, what, where, published, how, _EXPECTED.get(name, Verdict.REPRODUCED), dataset
    )


def change(evaluation: Evaluation, metric: str, rank: int, group: str = "all") -> float:
    """Item-Weighted PCA against PCA, in percent; groups by mass, as in the published code."""
    ours, theirs = (evaluation.value(metric, m, rank, group) for m in (ITEM_WEIGHTED, PCA))
    return 100 * (ours / theirs - 1)


def text_change(evaluation: Evaluation, metric: str, group: str) -> float:
    """The same at r = 30 with the groups of the text, tenths of the items."""
    ours, theirs = (evaluation.text_value(metric, m, group) for m in (ITEM_WEIGHTED, PCA))
    return 100 * (ours / theirs - 1)


def of(dataset: str, measure: Callable[[Evaluation], float]) -> Callable[[Measurements], float]:
    """A number of one data set."""
    return lambda measurements: measure(getattr(measurements, dataset))


def tallied(
    dataset: str, cases: Callable[[Evaluation], Iterable[tuple[str, bool]]]
) -> Callable[[Measurements], Outcome]:
    """How often something holds on one data set."""
    return lambda measurements: tally(cases(getattr(measurements, dataset)))


def has_sign(value: float, sign: int) -> Outcome:
    """A change in percent that must go up (1) or down (-1).

    Examples
    --------
    >>> has_sign(-30.04, -1)
    Outcome(measured='-30.0 %', holds=True)
    """
    return Outcome(f"{value:+.1f} %", value * sign > 0)


def declines(
    evaluation: Evaluation, metrics: Iterable[str], ranks: tuple[int, ...]
) -> Iterator[tuple[str, bool]]:
    """Whether each curve ends below its peak."""
    for metric in metrics:
        for model in MODELS:
            curve = evaluation.curve(metric, model, ranks)
            yield f"{metric} of {model}", curve[-1] < _FALLEN * max(curve)
