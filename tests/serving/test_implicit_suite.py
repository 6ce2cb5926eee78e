"""implicit's own tests of its models (MIT), run against `ImplicitLike` over two of our models.

The file is not part of this repository. It is looked for in `EQUIPOISE_PEERS`, or in shared/peers
next to this repository; without it, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import unittest
from pathlib import Path
from types import ModuleType

import pytest
from sklearn.exceptions import NotFittedError

from equipoise import ItemWeightedPCA, VanillaPCA
from equipoise.serving.implicit import ImplicitLike

FILE = "implicit_recommender_base_test.py"


def find_suite() -> Path | None:
    beside = Path(__file__).parents[3] / "shared" / "peers"
    path = Path(os.environ.get("EQUIPOISE_PEERS", beside)) / FILE
    return path if path.is_file() else None


def load_suite(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("implicit_suite", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUITE = find_suite()
if SUITE is None:
    pytest.skip(
        f"implicit's own tests were NOT run: no {FILE}. Set EQUIPOISE_PEERS to its folder.",
        allow_module_level=True,
    )
pytest.importorskip("implicit", reason="implicit's own tests were NOT run: it is not installed")

Mixin = load_suite(SUITE).RecommenderBaseTestMixin


class TestItemWeightedPCA(Mixin, unittest.TestCase):
    def _get_model(self) -> ImplicitLike:
        return ImplicitLike(ItemWeightedPCA(n_components=2))

    def test_serialization_without_fit(self) -> None:
        with pytest.raises(NotFittedError):  # differs: there is nothing to save before the fit
            self._get_model().save("unused.npz")


class TestPCA(TestItemWeightedPCA):
    def _get_model(self) -> ImplicitLike:
        return ImplicitLike(VanillaPCA(n_components=2))
