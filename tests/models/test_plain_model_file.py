"""A model file is readable with NumPy, json and zipfile alone, as the guide shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equipoise import ItemWeightedPCA, VanillaPCA
from equipoise.data.synthetic import listening

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "serve.md"
FENCED = r"<!-- plain model file: begin -->\n```python\n(.*?)```\n<!-- plain model file: end -->"

AFTERWARDS = """
import sys
path, baskets = sys.argv[1], json.loads(sys.argv[2])
lists = [[[str(i), float(s)] for i, s in top_items(path, basket, 8)] for basket in baskets]
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"lists": lists, "loaded": loaded}))
"""


def recipe() -> str:
    found = re.search(FENCED, GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found, "the guide has lost its recipe"
    return found.group(1)


@pytest.mark.medium
@pytest.mark.parametrize("transform", [None, "binary", "log1p"])
@pytest.mark.parametrize("ids", ["text", "numbers", "mixed"])
def test_twenty_lines_without_equipoise_recommend_the_same(transform, ids, tmp_path):
    plays = listening(n_users=120, n_items=70)
    names = {
        "text": plays.item_ids.tolist(),
        "numbers": list(range(100, 170)),
        "mixed": [100, *plays.item_ids[1:].tolist()],
    }[ids]
    plays = type(plays).from_sparse(plays.matrix, plays.user_ids, names)
    model = ItemWeightedPCA(n_components=6, value_transform=transform).fit(plays)
    model.save(tmp_path / "model.eqp")

    some = plays.select_users(plays.user_ids[:5])
    exact = model.recommend(some, k=8)
    # JSON has text for keys only: whole numbers are looked up as what they are
    program = recipe() + AFTERWARDS.replace(
        "json.loads(sys.argv[2])", "[dict(pairs) for pairs in json.loads(sys.argv[2])]"
    )
    baskets = [
        [[names[j], some.matrix[[u]].data[k]] for k, j in enumerate(some.matrix[[u]].indices)]
        for u in range(5)
    ]
    command = [sys.executable, "-c", program, str(tmp_path / "model.eqp"), json.dumps(baskets)]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    assert "equipoise" not in told["loaded"]
    assert "scipy" not in told["loaded"]
    for row, (expected, scores) in zip(told["lists"], zip(*exact, strict=True), strict=True):
        assert [item for item, _ in row] == [str(item) for item in expected]
        np.testing.assert_allclose([score for _, score in row], scores, rtol=1e-9)


def test_the_recipe_refuses_what_it_does_not_know(tmp_path):
    plays = listening(n_users=60, n_items=60)
    graded = ItemWeightedPCA(n_components=4, spectral_filter="power", filter_strength=0.5)
    path = graded.fit(plays).save(tmp_path / "graded.eqp")
    namespace: dict = {}
    exec(recipe(), namespace)
    with pytest.raises(AssertionError):
        namespace["top_items"](path, {"artist-0001": 1}, 3)
    manifest, arrays = namespace["read_model"](VanillaPCA(4).fit(plays).save(tmp_path / "pca.eqp"))
    assert manifest["model"] == "VanillaPCA"
    assert arrays["components_"].shape == (4, 60)
