"""Audit a model that you already run: implicit's alternating least squares, beside three PCAs.

The audit asks of every model which items it fails and which it memorises. It needs nothing but the
model's item factors, so any library will do. A page for the browser is written as well.

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
    plays = listening(n_users=500, n_items=150)

    als = AlternatingLeastSquares(factors=RANK, random_state=0)
    als.fit(sp.csr_matrix(plays.matrix.astype("float32")), show_progress=False)

    findings = audit(plays, rank=RANK, factors={"implicit ALS": als}, source="invented listeners")
    Path("audit.html").write_text(render(findings), encoding="utf-8")

    models = [v for v in findings.variants if v.gamma in (None, findings.settings.gamma)]
    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True)
    pl.Config(tbl_hide_column_data_types=True, float_precision=3)
    print(pl.DataFrame([line(model) for model in models]))
    print(f"\nfamous: {findings.portrait.groups[0].n_items} artists; niche: the least played")
    print("\n".join(f"- {sentence}" for sentence in findings.verdict.sentences[:3]))
    print("\nThe whole audit, item by item: open audit.html in a browser.")


def line(model: Variant) -> dict[str, object]:
    """One line of the table: what this model does to famous and to niche artists."""
    at = model.ranks.index(RANK)
    return {
        "model": model.label,
        "famous, copied from themselves": model.diagonal["popular"][at],
        "niche, left unexplained": model.error["niche"][at],
        "niche, told from others (AUC)": model.auc["niche"][at],
        "components owned by one artist": len(model.owned),
    }


if __name__ == "__main__":
    main()
