"""An interrupted training goes on to the same bits, and only where it belongs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from equipoise.exceptions import ArtifactError, InvalidParameterError
from equipoise.models.peers.lightgcn import Epoch, training
from equipoise.models.peers.lightgcn.training import Trainer
from tests.models.lightgcn.cases import quick


class Interrupted(Exception):  # noqa: N818
    pass


class TestCheckpoint:
    def interrupt(self, at: int, epoch: Epoch) -> None:
        if epoch.number == at:
            raise Interrupted

    def test_interrupted_training_goes_on_to_the_same_bits(self, X, tmp_path, fitted):
        path, heard = tmp_path / "run.npz", []
        with pytest.raises(Interrupted):
            quick().fit(X, checkpoint=path, on_epoch=partial(self.interrupt, 11))
        resumed = quick().fit(X, checkpoint=path, on_epoch=heard.append)
        assert heard[0].number == 11
        np.testing.assert_array_equal(resumed.item_factors_, fitted.item_factors_)
        np.testing.assert_array_equal(resumed.loss_curve_, fitted.loss_curve_)
        assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]

    def test_interrupted_refit_goes_on_to_the_same_bits(self, X, tmp_path, monkeypatch):
        def rising(run: Trainer) -> float:  # the last epoch is the best
            steps = float(run.optimizer.state[run.weights]["step"])
            return steps if run.task.held_out is not None else float("nan")

        monkeypatch.setattr(training.Trainer, "ndcg", rising)
        settings, path = {"refit": True, "max_epochs": 13}, tmp_path / "run.npz"
        straight, heard = quick(**settings).fit(X, checkpoint=path), []
        resumed = quick(**settings).fit(X, checkpoint=path, on_epoch=heard.append)
        assert [epoch.number for epoch in heard] == [11, 12, 13, 11, 12, 13]
        assert {file.name for file in tmp_path.iterdir()} == {"run.npz", "run.npz.refit"}
        np.testing.assert_array_equal(resumed.item_factors_, straight.item_factors_)

    def test_longer_training_may_go_on_from_a_shorter_one(self, X, tmp_path, fitted):
        quick(max_epochs=10).fit(X, checkpoint=tmp_path / "run.npz")
        longer = quick().fit(X, checkpoint=tmp_path / "run.npz")
        np.testing.assert_array_equal(longer.item_factors_, fitted.item_factors_)

    def test_checkpoint_of_another_training_is_refused(self, X, tmp_path):
        path = tmp_path / "run.npz"
        quick(max_epochs=10).fit(X, checkpoint=path)
        for other in (quick(regularization=0.5), quick(random_state=1)):
            with pytest.raises(InvalidParameterError, match="belongs to another training"):
                other.fit(X, checkpoint=path)
        with pytest.raises(InvalidParameterError, match="belongs to another training"):
            quick().fit(1 - X, checkpoint=path)

    def test_damaged_checkpoint_is_refused(self, X, tmp_path):
        path = tmp_path / "run.npz"
        quick(max_epochs=10).fit(X, checkpoint=path)
        path.write_bytes(path.read_bytes()[:2000])
        with pytest.raises(ArtifactError, match="cannot be read as a LightGCN checkpoint"):
            quick().fit(X, checkpoint=path)
