"""The paper's theory as experiments; each judges its claims by an independent check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from equipoise.paper.theory.asymptotics import figure_5, theorem_1
from equipoise.paper.theory.closed_form import theorem_2, theorem_3
from equipoise.paper.theory.components import diminishing_returns, theorem_4
from equipoise.paper.theory.experiment import Experiment
from equipoise.paper.theory.reweighting import reweighted_loss
from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress, task

__all__ = ["EXPERIMENTS", "Experiment", "figure_5", "run_theory"]

EXPERIMENTS: tuple[Callable[[bool], Experiment], ...] = (
    theorem_1,
    theorem_2,
    theorem_3,
    theorem_4,
    diminishing_returns,
    reweighted_loss,
    figure_5,
)


def run_theory(
    quick: bool = False,
    progress: Progress | None = None,
    experiments: Sequence[Callable[[bool], Experiment]] = EXPERIMENTS,
) -> list[Experiment]:
    """Run the experiments on the paper's theory; they need no data set.

    Parameters
    ----------
    quick : bool, default=False
        Fewer and smaller matrices: a few seconds instead of about half a minute.
    progress : Progress, optional
        Receives one step per experiment; silent by default.
    experiments : sequence of callable
        The experiments to run; all by default.
    """
    done = []
    # One thread: the matrices are small, and sums in another order would change the last digits.
    with one_blas_thread(), task(progress, "Theory", len(experiments)) as running:
        for experiment in experiments:
            running.note(experiment.__name__.replace("_", " "))
            done.append(experiment(quick))
            running.advance()
    return done
