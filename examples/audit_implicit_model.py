"""Audit a model that you already run: implicit's ALS, compared with three PCAs.

The audit shows which items each model fails and which it memorizes. It needs only the model's item
factors, so it works with any library. It also writes a page for the browser.

Needs: pip install "equipoise[als]"
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares

from equipoise.audit import audit
from equipoise.audit.findings import Variant
from equipoise.audit.report import render
from equipoise.data.synthetic import listening

RANK = 8


def main() -> None:
    split = listening(n_users=500, n_items=150).holdout()

    als = AlternatingLeastSquares(factors=RANK, random_state=0)
    als.fit(sp.csr_matrix(split.train.matrix.astype("float32")), show_progress=False)

    # budget=0: the PCAs get the values as given, like ALS; more seconds find better models
    models = {"implicit ALS": als}
    findings = audit(split, models=models, budget=0, source="invented listeners")
    Path("audit.html").write_text(render(findings), encoding="utf-8")

    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True)
    pl.Config(tbl_hide_column_data_types=True, float_precision=3)
    print(pl.DataFrame([line(model) for model in findings.compared]))
    print(f"\npopular: {findings.data.groups[0].n_items} artists; niche: the least played")
    print("\n".join(f"- {sentence}" for sentence in findings.answer))
    print("\nThe whole audit, item by item: open audit.html in a browser.")


def line(model: Variant) -> dict[str, object]:
    """One line of the table: how this model treats popular and niche artists."""
    return {
        "model": model.label,
        "popular: self-reconstruction": model.mean("self_reconstruction", "popular"),
        "niche: error": model.mean("item_error", "niche"),
        "niche: AUC from other artists": model.mean("item_auc", "niche"),
        "NDCG@20": model.mean("ndcg"),
        "components owned by one artist": len(model.owned),
    }


if __name__ == "__main__":
    main()
