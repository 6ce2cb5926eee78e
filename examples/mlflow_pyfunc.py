"""A model in MLflow: saved as a pyfunc with the model file as its artifact, loaded and asked.

Nothing is pickled. MLflow stores this file as the code of the model ("models from code"), and the
artifact is the file that `save` wrote, verified when it is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pandas as pd
from mlflow.models import infer_signature, set_model

import equipoise
from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import listening


class Recommendations(mlflow.pyfunc.PythonModel):
    """Lists for a table with one row per user and a column of item ids, `items`."""

    def load_context(self, context: Any) -> None:
        """Load the artifact; MLflow calls this once."""
        self.model = equipoise.load(context.artifacts["model"], mmap=True)

    # without type hints, from which MLflow would derive a schema instead of the signature below
    def predict(self, context, model_input, params=None):  # noqa: ARG002
        """Return the lists; `params` may contain k."""
        k = int((params or {}).get("k", 5))
        baskets = [list(items) for items in model_input["items"]]
        lists = [self.model.recommend(items, k=k, unknown="drop") for items in baskets]
        return pd.DataFrame(
            {
                "items": [found.ids.tolist() for found in lists],
                "fallback": [bool(found.fallback) for found in lists],
            }
        )


set_model(Recommendations())  # what MLflow takes from this file when it loads the model


def main() -> None:
    plays = listening(n_users=400, n_items=120)
    saved = ItemWeightedPCA(n_components=8).fit(plays.normalize_rows()).save("artists.eqp")
    folder = Path("artists-mlflow")
    asked = pd.DataFrame({"items": [["artist-0003", "artist-0010"], ["unheard-of"]]})
    mlflow.pyfunc.save_model(
        folder,
        python_model=__file__,
        artifacts={"model": str(saved)},
        signature=infer_signature(asked, params={"k": 5}),
        pip_requirements=["equipoise"],
    )
    served = mlflow.pyfunc.load_model(str(folder))
    answered = served.predict(asked, params={"k": 4})
    print("| items of the user | recommended | fallback |")
    print("|---|---|---|")
    for given, row in zip(asked["items"], answered.itertuples(), strict=True):
        print(f"| {', '.join(given)} | {', '.join(row.items)} | {row.fallback} |")


if __name__ == "__main__":
    main()
