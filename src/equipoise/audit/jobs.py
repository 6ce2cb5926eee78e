"""Independent parts of an audit, as many at a time as there are threads and memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from equipoise.data.interactions import Interactions
from equipoise.exceptions import SolverWarning
from equipoise.memory import available_memory
from equipoise.parallel import map_in_threads, thread_count
from equipoise.spectral.gram import DenseGram

_Result = TypeVar("_Result")


def side_by_side(
    jobs: Sequence[Callable[[], _Result]], data: Interactions | None = None, *, dense: bool = False
) -> Generator[_Result, None, None]:
    """Yield the results of calls in their order, without warnings of missing components.

    Many steps of a fit use one core. Models next to each other use all of them, with the same
    results. Close the generator if some results are left out: it holds limits of the process.

    Parameters
    ----------
    jobs : sequence of callable
        What to call.
    data : Interactions, optional
        What the jobs read. If they have a memory limit, one job runs at a time: each may take all.
    dense : bool
        Whether a job forms dense matrices of items × items; as many jobs run as have memory.

    Examples
    --------
    >>> list(side_by_side([lambda: 1, lambda: 2]))
    [1, 2]
    """
    threads = min(thread_count(), len(jobs), _most_at_once(data, dense))
    # filters of warnings belong to the process: set here, not in the threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        yield from map_in_threads(_call, jobs, threads) if threads > 1 else map(_call, jobs)


def _most_at_once(data: Interactions | None, dense: bool) -> int:
    if data is None:
        return thread_count()
    if data.rows.memory is not None:
        return 1
    available = available_memory()
    if not dense or available is None:
        return thread_count()
    return max(1, available // DenseGram.bytes_of(data.n_items))


def _call(job: Callable[[], _Result]) -> _Result:
    return job()
