"""Seconds, memory and size of a fit: stated with the results, and no part of their equality."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from equipoise.evaluation import Cost, cost, evaluate
from equipoise.evaluation.cost import Memory, UsageMeter, resident_memory
from equipoise.models import EASE, GFCF, ItemKNN, ItemWeightedPCA, Popularity, VanillaPCA

OPTIONS = {"metrics": ["recall"], "k": 5}
needs_proc = pytest.mark.skipif(
    resident_memory() is None, reason="this system does not tell a process its memory"
)


class Watched:
    """Readings of memory that a test can wait for."""

    def __init__(self, read=resident_memory) -> None:
        self.read, self.was_read = read, threading.Event()

    def __call__(self):
        reading = self.read()
        self.was_read.set()
        return reading

    def wait(self) -> None:
        """Return after a reading that began after the call."""
        for _ in range(2):  # the first may have begun before
            self.was_read.clear()
            self.was_read.wait()


def test_the_peak_is_the_highest_reading_above_the_first():
    memory = [Memory(100, 900)]
    watched = Watched(lambda: memory[-1])
    with UsageMeter(watched) as measured:
        for now in (300, 120):
            memory.append(Memory(now, 900))
            watched.wait()
    assert measured.usage.peak_bytes == 200


def test_a_record_of_the_process_counts_though_no_reading_saw_it():
    memory = [Memory(100, 900)]
    with UsageMeter(lambda: memory[-1]) as measured:
        memory.append(Memory(120, 950))
    assert measured.usage.peak_bytes == 850


@pytest.mark.medium
@needs_proc
def test_a_block_that_fills_an_array_raises_the_peak_by_its_size():
    size = 256 * 2**20  # much, next to pages that the process has free already
    watched = Watched()
    with UsageMeter(watched) as measured:
        held = np.ones(size, np.uint8)
        watched.wait()
        del held
    assert size * 0.9 < measured.usage.peak_bytes < size * 1.5


@needs_proc
@pytest.mark.medium
def test_a_peak_below_an_earlier_one_is_seen_too():
    np.ones(200 * 2**20, np.uint8)
    size = 50 * 2**20
    watched = Watched()
    with UsageMeter(watched) as measured:
        held = np.ones(size, np.uint8)
        watched.wait()
        del held
    assert size * 0.9 < measured.usage.peak_bytes < size * 1.5


def test_seconds_are_those_of_the_clock(monkeypatch):
    clock = iter([100.0, 102.5])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(clock))
    with UsageMeter() as measured:
        pass
    assert measured.usage.seconds == 2.5


def test_where_the_system_does_not_tell_the_peak_is_none(tmp_path):
    with UsageMeter(lambda: cost.resident_memory(tmp_path / "nothing")) as measured:
        pass
    assert measured.usage.peak_bytes is None
    assert measured.usage.seconds >= 0


def test_an_error_in_the_block_comes_through():
    with pytest.raises(ZeroDivisionError), UsageMeter():
        _ = 1 / 0


def test_numbers_kept_are_those_of_the_arrays(split):
    X = split.train.matrix
    n_items = X.shape[1]
    assert EASE().fit(X).stored_numbers() == n_items**2
    assert Popularity().fit(X).stored_numbers() == n_items
    neighbors = ItemKNN(5).fit(X)
    assert neighbors.stored_numbers() == neighbors.coefficients_.nnz


def test_every_model_and_rank_has_its_cost(split):
    models = {"iw": ItemWeightedPCA(), "gfcf": GFCF(), "ease": EASE()}
    grid = {"gamma": [-1.0, 0.0], "n_components": [2, 4]}
    results = evaluate(split, models, grid=grid, **OPTIONS)
    assert [(one.model, *map(one.settings.get, grid)) for one in results.costs] == [
        ("iw", -1.0, 2),
        ("iw", -1.0, 4),
        ("iw", 0.0, 2),
        ("iw", 0.0, 4),
        ("gfcf", None, 2),
        ("gfcf", None, 4),
        ("ease", None, None),
    ]
    assert all(one.fit_seconds > 0 for one in results.costs)
    shared = {one.fit_seconds for one in results.costs if one.model == "iw"}
    assert len(shared) == 1  # one path over γ, stated in equal parts


def test_the_numbers_kept_at_a_rank_are_those_of_a_fit_at_that_rank(split):
    results = evaluate(split, {"pca": VanillaPCA()}, grid={"n_components": [2, 8]}, **OPTIONS)
    alone = VanillaPCA(2).fit(split.train_validation.matrix)
    small, large = results.costs
    assert small.parameters_kept == alone.stored_numbers()
    assert large.parameters_kept > small.parameters_kept


def test_lists_of_others_have_no_cost(split):
    lists = np.tile(np.arange(5), (split.train.n_users, 1))
    assert evaluate(split, {"others": lists}, **OPTIONS).costs == ()


def test_costs_have_no_say_in_equality_or_in_the_plain_text(split):
    results = evaluate(split, {"ease": EASE()}, **OPTIONS)
    slower = replace(results, costs=(results.costs[0]._replace(fit_seconds=1e9),))
    assert slower == results
    assert slower.to_json() == results.to_json()
    written = json.loads(slower.to_json(costs=True))
    assert written["rows"] == results.to_dicts()
    assert written["costs"][0]["fit_seconds"] == 1e9
    assert Cost(**written["costs"][0]) == slower.costs[0]


def test_costs_are_selected_with_their_rows_and_found_by_column(split):
    results = evaluate(
        split, {"ease": EASE(), "pca": VanillaPCA()}, grid={"n_components": [2, 4]}, **OPTIONS
    )
    assert [one.model for one in results.select(model="ease").costs] == ["ease"]
    (cost,) = results.select(model="pca", n_components=4).costs
    assert cost.settings == {"n_components": 4}


def test_a_resumed_run_shows_the_cost_of_the_fit_that_was_made(split, tmp_path):
    first = evaluate(split, {"ease": EASE()}, cache=tmp_path, **OPTIONS)
    again = evaluate(split, {"same": EASE()}, cache=tmp_path, **OPTIONS)
    assert again.costs == (first.costs[0]._replace(model="same"),)
