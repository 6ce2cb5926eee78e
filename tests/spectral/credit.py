"""Default of credit card clients as Tantipongpipat et al. 2019 prepare it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIX_BY_SIX = ("PAY_1", "BILL_AMT1", "PAY_AMT1")


def read_credit(folder: Path) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Columns in units of their standard deviation, and the codes of 3, 4 and 6 groups."""
    path = folder / "credit" / "credit.csv"
    names = path.open().readline().strip().split(",")[1:]
    raw = np.loadtxt(path, delimiter=",", skiprows=1)[:, 1:]
    X = raw.copy()
    start = names.index("PAY_1")
    X[:, :start] /= raw[:, :start].std(axis=0, ddof=1)
    for name in SIX_BY_SIX:  # six months of one quantity share their unit
        columns = slice(names.index(name), names.index(name) + 6)
        X[:, columns] /= raw[:, columns].std(ddof=1)
    education, sex = raw[:, names.index("EDUCATION")], raw[:, names.index("SEX")] - 1
    level = np.digitize(education, [2.5, 3.5])
    codes = {
        3: level,
        4: (2 * sex + (level > 0)).astype(int),
        6: (3 * sex + level).astype(int),
    }
    return X, codes


def covariances(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Of every group, divided by its size."""
    groups = [X[codes == g] for g in range(codes.max() + 1)]
    return np.stack([np.cov(Y, rowvar=False, bias=True) for Y in groups])
