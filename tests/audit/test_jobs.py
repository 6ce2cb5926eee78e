"""Independent parts of an audit next to each other."""

import threading
import warnings
from contextlib import closing
from types import SimpleNamespace

import pytest
import scipy.sparse as sp

from equipoise.audit.engine import _measure_ours
from equipoise.audit.jobs import side_by_side
from equipoise.data import Interactions
from equipoise.data.synthetic import listening
from equipoise.exceptions import SolverWarning


def _fail():
    raise ValueError("of a job")


def _warn():
    warnings.warn("fewer components", SolverWarning, stacklevel=1)
    return 1


@pytest.mark.parametrize("threads", ["1", "3"])
def test_results_are_in_order_and_errors_are_raised(threads, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    assert list(side_by_side([lambda n=n: n for n in range(5)])) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="of a job"):
        list(side_by_side([lambda: 1, _fail, lambda: 2]))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_filters_of_warnings_are_restored_if_results_are_left_out(threads, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    with pytest.warns(SolverWarning):
        _warn()
    before = list(warnings.filters)
    with closing(side_by_side([_warn, _warn, _warn])) as results:
        assert next(results) == 1
        assert warnings.filters != before
    assert warnings.filters == before


def test_an_advised_pca_with_a_filter_is_measured_itself():
    models = [
        SimpleNamespace(key="pca", kind="pca", settings={}),
        SimpleNamespace(key="advised", kind="advised", settings={"gamma": 0.0}),
    ]
    subjects = [SimpleNamespace(model=model) for model in models]
    assert _measure_ours(subjects, lambda subject: subject, listening(20, 60)) == subjects


@pytest.mark.medium
def test_jobs_with_a_memory_limit_or_large_matrices_run_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    (tmp_path / "plays.csv").write_text("user,item\na,x\nb,x\nb,y\n")
    on_disk = Interactions.read(tmp_path / "plays.csv", memory="1GB", n_blocks=2)
    large = Interactions.from_sparse(sp.csr_array(([1.0], [0], [0, 1]), shape=(1, 10_000_000)))
    jobs = [threading.current_thread] * 3
    here = {threading.current_thread()}
    assert set(side_by_side(jobs, on_disk)) == set(side_by_side(jobs, large, dense=True)) == here
    assert not here & set(side_by_side(jobs, large))
