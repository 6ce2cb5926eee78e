from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from equipoise.models.peers.lightgcn import LightGCN


@pytest.fixture(scope="package")
def X() -> np.ndarray:
    from tests.models.lightgcn.cases import taste

    return taste()


@pytest.fixture(scope="package")
def fitted(X) -> LightGCN:
    from tests.models.lightgcn.cases import quick

    return quick().fit(X)
