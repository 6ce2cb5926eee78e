"""A progress bar with the loss, on stderr, for those who ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equipoise.models.lightgcn.training import Epoch


@contextmanager
def epoch_bar(total: int, *, shown: bool) -> Iterator[Callable[[Epoch], None]]:
    """Yield what to call after each epoch; says nothing unless `shown`, and to a terminal alone.

    Parameters
    ----------
    total : int
        Epochs at most: early stopping ends the bar before it is full.
    shown : bool
        Whether a bar is wanted.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("LightGCN"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # not `disable` alone: rich 13 ends a bar that was never shown with a line of its own
    console.quiet = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=console.quiet) as bar:
        task = bar.add_task("", total=total)
        yield lambda epoch: bar.update(task, completed=epoch.number, description=describe(epoch))


def describe(epoch: Epoch) -> str:
    """Loss, and NDCG where there is one.

    Examples
    --------
    >>> describe(Epoch(number=3, loss=0.51234, ndcg=0.2, best=True))
    'loss 0.5123, NDCG@20 0.2000'
    >>> describe(Epoch(number=3, loss=0.5, ndcg=float("nan"), best=True))
    'loss 0.5000'
    """
    judged = epoch.ndcg == epoch.ndcg
    return f"loss {epoch.loss:.4f}" + (f", NDCG@20 {epoch.ndcg:.4f}" if judged else "")
