"""The paper's theory as experiments: each is a claim, an independent check and a verdict."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.paper.theory import (
    bernoulli,
    diminishing,
    half_and_half,
    instances,
    reweighting,
    tightness,
    unfairness,
)
from equipoise.paper.theory.experiment import Experiment
from equipoise.parallel import one_blas_thread

__all__ = ["Experiment", "run_theory"]

_EXPERIMENTS: dict[str, Callable[[bool], Experiment]] = {
    unfairness.TITLE: unfairness.unfairness,
    tightness.TITLE: tightness.tightness,
    instances.TITLE: instances.instances,
    half_and_half.TITLE: half_and_half.half_and_half,
    diminishing.TITLE: diminishing.diminishing_returns,
    reweighting.TITLE: reweighting.reweighting,
    bernoulli.TITLE: bernoulli.bernoulli,
}


def run_theory(
    quick: bool = False, progress: Callable[[str], None] | None = None
) -> tuple[Experiment, ...]:
    """Run every experiment on the paper's theory; no data set is needed.

    Parameters
    ----------
    quick : bool, default=False
        Fewer and smaller matrices: a few seconds instead of about half a minute.
    progress : callable, optional
        Told the title of each experiment as it starts.
    """
    done = []
    # One thread: the matrices are small, and sums in another order would change the last digits.
    with one_blas_thread():
        for title, run in _EXPERIMENTS.items():
            if progress is not None:
                progress(title)
            done.append(run(quick))
    return tuple(done)
