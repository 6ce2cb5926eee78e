"""What LightGCN refuses, and how it says so."""

from __future__ import annotations

import sys

import pytest

from equipoise.exceptions import InvalidParameterError, MissingExtraError
from tests.models.lightgcn.cases import quick


@pytest.mark.parametrize("module", ["torch", "torch_geometric"])
def test_missing_extra_is_named_with_the_command_that_installs_it(X, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[lightgcn\]"'):
        quick().fit(X)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_components", 0),
        ("n_components", 2.5),
        ("n_layers", 0),
        ("learning_rate", 0),
        ("regularization", -1),
        ("batch_size", 0),
        ("max_epochs", 0),
        ("patience", 0),
        ("validation", 1.0),
        ("refit", "yes"),
        ("device", "tpu"),
    ],
)
def test_bad_parameters_are_refused_by_name(X, parameter, value):
    with pytest.raises(InvalidParameterError, match=f"'{parameter}' parameter of LightGCN"):
        quick(**{parameter: value}).fit(X)
