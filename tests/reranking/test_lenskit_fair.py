"""FA*IR lists are those of LensKit; needs LensKit, which is not part of the extra `dev`."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.metrics import ItemGroups
from equipoise.reranking import FAIR, Candidates, ItemContext

pytest.importorskip(
    "lenskit", reason='FA*IR was NOT compared with LensKit: pip install "equipoise[lenskit]"'
)
pd = pytest.importorskip("pandas")

from lenskit.data import DatasetBuilder, ItemList  # noqa: E402
from lenskit.reranking import FAIRReranker  # noqa: E402

N_ITEMS = 300


@pytest.mark.parametrize(
    ("p", "alpha", "length"),
    [(0.2, 0.1, 20), (0.4, 0.1, 10), (0.6, 0.1, 20), (0.8, 0.1, 20), (0.5, 0.05, 20)],
)
def test_thresholds_and_lists_are_those_of_lenskit(p, alpha, length):
    rng = np.random.default_rng(length)
    protected = rng.random(N_ITEMS) < 0.3
    builder = DatasetBuilder()
    builder.add_entities("item", np.arange(N_ITEMS))
    builder.add_scalar_attribute("item", "protected", np.arange(N_ITEMS), protected)
    theirs = FAIRReranker(n=length, p=p, alpha=alpha, protected_attribute="protected")
    theirs.train(builder.build())
    ours = FAIR(p, alpha, length)
    assert ours.required().tolist() == theirs.m_list_.tolist()
    context = ItemContext(np.ones(N_ITEMS), ItemGroups(("head", "tail"), protected.astype(int)))
    for pool in (100, length):
        items = np.argsort(rng.random((200, N_ITEMS)), axis=1)[:, :pool]
        scores = -np.sort(-rng.random((200, pool)), axis=1)
        order = ours.rerank(Candidates(items, scores), length, context)
        expected = [
            theirs(ItemList(row, scores=values, ordered=True)).ids()
            for row, values in zip(items, scores, strict=True)
        ]
        np.testing.assert_array_equal(np.take_along_axis(items, order, axis=1), expected)
