"""What the studies over several splits share: intervals, tables, and results kept split by split.

A study lays out its results in a function ``block(found)``. `quote.py` puts them into the page
that contains ``<!-- begin study NAME -->``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness import RESULTS, machine

Row = dict[str, Any]


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean, by Student's t; 0 for one value."""
    import numpy as np
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return 0.0
    return float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))


def interval(values: Sequence[float]) -> str:
    """Return the mean and half the width of its 95 % interval."""
    mean = f"{sum(values) / len(values):.3f}"
    return mean if len(values) < 2 else f"{mean} ± {half_width(values):.3f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def stored(name: str) -> dict[str, Any]:
    """Return what earlier runs of a study found, by data set; without results, an empty study."""
    path = RESULTS / f"{name}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"machine": machine(), "rows": {}}


def store(name: str, rows: Mapping[str, Sequence[Row]]) -> None:
    """Write the rows of some data sets, one line per row; those of others stay in the file."""
    from equipoise.files import write_whole

    found = stored(name)
    sets = [
        f"  {_json(data)}: [\n" + ",\n".join(f"   {_json(row)}" for row in own) + "\n  ]"
        for data, own in {**found.pop("rows"), **rows}.items()
    ]
    head = json.dumps(found, indent=1, ensure_ascii=False).removesuffix("\n}")
    text = head + ',\n "rows": {\n' + ",\n".join(sets) + "\n }\n}\n"
    write_whole(RESULTS / f"{name}.json", text.encode())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
