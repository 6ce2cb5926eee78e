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
from equipoise.progress import Progress, task

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


def run_theory(quick: bool = False, progress: Progress | None = None) -> tuple[Experiment, ...]:
    """Run every experiment on the paper's theory; no data set is needed.

    Parameters
    ----------
    quick : bool, default=False
        Fewer and smaller matrices: a few seconds instead of about half a minute.
    progress : Progress, optional
        Receives one step per experiment; silent by default.
    """
    done = []
    # One thread: the matrices are small, and sums in another order would change the last digits.
    with one_blas_thread(), task(progress, "Theory", len(_EXPERIMENTS)) as experimenting:
        for title, run in _EXPERIMENTS.items():
            experimenting.note(title)
            done.append(run(quick))
            experimenting.advance()
    return tuple(done)
