"""Interrupted runs keep what is done; a rerun goes on from the cache, if it may."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest

from equipoise.data import holdout
from equipoise.evaluation import evaluate, tune
from equipoise.evaluation.cache import Cache, Scored
from equipoise.metrics import Result
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from tests.evaluation.conftest import InterruptAt
from tests.recorded_progress import Recorded

THREE = {"pca": VanillaPCA(), "norm": NormalizedPCA(), "iw": ItemWeightedPCA()}
OPTIONS = {"grid": {"n_components": [2, 4]}, "metrics": ["recall", "item_auc"], "k": 5}


def test_what_was_done_before_ctrl_c_is_returned_and_kept(split, tmp_path):
    whole = evaluate(split, THREE, **OPTIONS)
    part = evaluate(split, THREE, cache=tmp_path, progress=InterruptAt(1, "Evaluating"), **OPTIONS)
    assert not part.complete
    assert part.rows == whole.select(model="pca").rows
    seen = Recorded()
    rest = evaluate(split, THREE, cache=tmp_path, progress=seen, **OPTIONS)
    assert rest.complete
    assert rest.rows == whole.rows
    assert "pca: from the cache" in seen.notes()
    assert "pca: fitting" not in seen.notes()


def test_a_second_run_fits_nothing_and_gives_the_same(split, tmp_path):
    first = evaluate(split, THREE, cache=tmp_path, per_user=True, **OPTIONS)
    seen = Recorded()
    second = evaluate(split, THREE, cache=tmp_path, per_user=True, progress=seen, **OPTIONS)
    assert seen.notes() == [f"{name}: from the cache" for name in THREE]
    assert second == first
    for one, other in zip(first.select("recall"), second.select("recall"), strict=True):
        np.testing.assert_array_equal(one.per_user, other.per_user)


@pytest.mark.parametrize(
    "change",
    [
        {"k": 6},
        {"metrics": ["recall"]},
        {"grid": {"n_components": [2, 5]}},
        {"zero_division": 0},
        {"groups": "items"},
        {"per_user": True},
        {"item_sample": 10},
        {"models": {"pca": VanillaPCA(tol=1e-4)}},
    ],
    ids=str,
)
def test_other_settings_do_not_use_the_cache(split, tmp_path, change):
    settings = {"models": {"pca": VanillaPCA()}, **OPTIONS}
    evaluate(split, cache=tmp_path, **settings)
    before = len(list(tmp_path.iterdir()))
    evaluate(split, cache=tmp_path, **{**settings, **change})
    assert len(list(tmp_path.iterdir())) == before + 1


def test_a_tuning_run_from_the_cache_writes_the_same_bytes(split, tmp_path):
    axes = {"grid": {"n_components": [2, 4], "gamma": [0.0, -1.0]}}
    for name in ("fitted", "cached"):
        found = tune(split, cache=tmp_path / "cache", maximize="ndcg", trade_off=["aplt"], **axes)
        found.write_csv(tmp_path / f"{name}.csv")
    assert (tmp_path / "cached.csv").read_bytes() == (tmp_path / "fitted.csv").read_bytes()


def test_other_data_do_not_use_the_cache(world, tmp_path):
    for seed in (1, 2):
        evaluate(holdout(world, seed=seed), [VanillaPCA()], cache=tmp_path, **OPTIONS)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda _: b"",
        lambda _: b"[]",
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    ],
    ids=["truncated", "empty", "a list", "a changed bit"],
)
def test_a_damaged_file_is_computed_again(split, tmp_path, damage):
    good = evaluate(split, [VanillaPCA()], cache=tmp_path, **OPTIONS)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert evaluate(split, [VanillaPCA()], cache=tmp_path, **OPTIONS) == good
    assert _all_but_seconds(file.read_bytes()) == _all_but_seconds(content)


def _all_but_seconds(content):
    """A cache file without what is different in every run."""
    return [(rows, kept) for rows, _, kept in json.loads(zlib.decompress(content))]


def test_a_model_with_a_function_among_its_parameters_is_not_cached(split, tmp_path):
    model = ItemWeightedPCA(item_weights=np.sqrt)
    results = evaluate(split, {"own": model}, cache=tmp_path, **OPTIONS)
    assert list(tmp_path.iterdir()) == []
    assert len(results) > 0


def test_nan_and_arrays_survive_the_cache(tmp_path):
    row = Result("recall", np.nan, "standard", 5, per_user=np.array([0.1, np.nan, 3.0]))
    Cache(tmp_path).store({"a": 2}, [Scored([row])])
    (found,) = Cache(tmp_path).load({"a": 2})
    assert np.isnan(found.rows[0].value)
    np.testing.assert_array_equal(found.rows[0].per_user, row.per_user)
    assert Cache(tmp_path).load({"a": 1}) is None
    assert Cache(tmp_path / "nowhere").load({"a": 1}) is None


def test_an_interrupted_search_keeps_its_trials_and_goes_on(split, tmp_path):
    axes = {
        "n_components": [2, 4],
        "gamma": [0.0, -1.0],
        "spectral_filter": ["power"],
        "filter_strength": [0.0, 0.5],
        "user_scaling": [0.0, 0.5],
    }
    grid = {"grid": axes}
    whole = tune(split, **grid)
    part = tune(split, cache=tmp_path, progress=InterruptAt(2, "Tuning"), **grid)
    assert not part.complete
    assert part.test is None
    assert len(part.trials) == 8  # two of four fits were scored and stored before the third
    rest = tune(split, cache=tmp_path, **grid)
    assert rest.complete
    assert rest.trials == whole.trials
    assert rest.choice == whole.choice


def test_a_search_interrupted_before_the_first_score_has_nothing_to_return(split):
    with pytest.raises(KeyboardInterrupt):
        tune(split, grid={"n_components": [2]}, progress=InterruptAt(0, "Tuning"))
