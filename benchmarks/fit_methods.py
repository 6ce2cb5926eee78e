"""Who takes part in the benchmark of fitting, with what settings, and how accurate they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from datasets import DataSet, synthetic
from equipoise.spectral.solve import Solver
from harness import QUIET_WAIT, THREADS, interleave, timed

# The accuracy of all methods: the residual that ItemWeightedPCA promises by default.
ACCURACY = 1e-6

# Looser than ARPACK's own default of machine precision; svds squares them. The loosest that is
# accurate enough is taken.
_ARPACK_TOLERANCES = (3e-2, 1e-2, 1e-3)
_EIGSH_TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-6)

# Randomized SVD gets more iterations until it is accurate, or takes this many times our time.
TIMES_OURS = 2.0
_DEFAULT_ITERATIONS = 5  # scikit-learn's

# Interactions times factors beyond which 15 iterations of ALS take a quarter of an hour.
_ALS_PRODUCTS = 3e9

# Seconds of ARPACK with its defaults from which no better settings are searched for.
_SEARCH_UNDER = 3.0

OURS, PCA = "ItemWeightedPCA", "VanillaPCA"
ARPACK, ARPACK_TUNED = "arpack", "arpack, tuned"
RANDOMIZED, RANDOMIZED_TUNED = "randomized", "randomized, tuned"
ARPACK_SAME = "arpack, same problem"
ALS = "implicit ALS"

SETTINGS = {
    OURS: f"`ItemWeightedPCA(r, gamma=-1, tol={ACCURACY:g})`",
    PCA: f"`VanillaPCA(r, tol={ACCURACY:g})`: the problem that TruncatedSVD solves",
    ARPACK: '`TruncatedSVD(r, algorithm="arpack")`, its default tol=0: machine precision',
    ARPACK_TUNED: "the same with one BLAS thread or all of them, whichever is faster, and the "
    f"largest tol of {', '.join(f'{tol:g}' for tol in _ARPACK_TOLERANCES)}, 0 whose residual is "
    f"≤ {ACCURACY:g}",
    ARPACK_SAME: "`scipy.sparse.linalg.eigsh` on M itself, the matrix of ItemWeightedPCA, with one "
    "BLAS thread, both products in one call, X and Xᵀ in CSR form, and the largest tol of "
    f"{', '.join(f'{tol:g}' for tol in _EIGSH_TOLERANCES)} whose residual is ≤ {ACCURACY:g}",
    RANDOMIZED: f"`TruncatedSVD(r)`, its default n_iter={_DEFAULT_ITERATIONS}",
    RANDOMIZED_TUNED: "the same with the faster of the two thread counts, and n_iter doubled until "
    f"its residual is ≤ {ACCURACY:g} or it takes more than {TIMES_OURS:g} times as long as "
    "ItemWeightedPCA",
    ALS: "`AlternatingLeastSquares(r, iterations=15, num_threads=threads)`, float32, BLAS limited "
    "to one thread as its authors ask; another problem, so without a residual",
}


class Inputs(NamedTuple):
    """One set in the forms its readers want, made before the clock starts."""

    X: sp.csr_array  # float64, for all methods except ALS
    single: sp.csr_matrix  # float32, for ALS
    # to warm up on: large enough for the compiled loops, with X's types of indices, on which the
    # instructions of the loops depend
    small: sp.csr_array


Task = Callable[[Inputs], Any]


class Candidate(NamedTuple):
    """A method with the settings it has in one cell; `warm_up` runs the same code on less."""

    method: str
    settings: str
    task: Task
    warm_up: Task


def load_inputs(data: DataSet) -> Inputs:
    """Load a set; the imports let forked processes find the libraries in memory."""
    import implicit.als  # noqa: F401
    import numba  # noqa: F401
    import sklearn.decomposition  # noqa: F401

    X = data.load().matrix.astype(np.float64)
    small = synthetic(5_000, 1_500, 320_000).matrix.astype(np.float64)
    small.indices, small.indptr = (
        small.indices.astype(X.indices.dtype),
        small.indptr.astype(X.indptr.dtype),
    )
    return Inputs(X, sp.csr_matrix(X, dtype=np.float32), small)


def fit_item_weighted(inputs: Inputs, rank: int, solver: Solver = "auto") -> Any:
    """Ours, γ = −1."""
    from equipoise import ItemWeightedPCA

    return ItemWeightedPCA(rank, gamma=-1.0, tol=ACCURACY, solver=solver).fit(inputs.X)


def fit_pca(inputs: Inputs, rank: int, solver: Solver = "auto") -> Any:
    """Ours, all weights one."""
    from equipoise import VanillaPCA

    return VanillaPCA(rank, tol=ACCURACY, solver=solver).fit(inputs.X)


def fit_truncated_svd(
    inputs: Inputs, rank: int, blas_threads: int | None = None, **options: Any
) -> Any:
    """scikit-learn's; its `fit` computes the users' coordinates too."""
    from sklearn.decomposition import TruncatedSVD

    with _controller().limit(limits=blas_threads, user_api="blas"):
        return TruncatedSVD(rank, random_state=0, **options).fit(inputs.X)


class Weighted(NamedTuple):
    """Eigenpairs of the weighted problem, as `residual` reads them."""

    components_: Any
    eigenvalues_: Any
    item_weights_: Any


def fit_eigsh(inputs: Inputs, rank: int, tol: float) -> Weighted:
    """ARPACK on the problem of ItemWeightedPCA, as one would write it by hand."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    X, n_items = inputs.X, inputs.X.shape[1]
    w, transposed = _weights(X), X.T.tocsr()

    def product(v: Any) -> Any:
        v = v.ravel()
        both = transposed @ (X @ np.column_stack([v, w * v]))
        return (w * both[:, 0] + both[:, 1]) / 2

    M = LinearOperator((n_items, n_items), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n_items)
    with _controller().limit(limits=1, user_api="blas"):
        values, vectors = eigsh(M, rank, which="LA", tol=tol, v0=start)
    return Weighted(vectors[:, ::-1].T, values[::-1], w)


def fit_als(inputs: Inputs, rank: int) -> Any:
    """Those of implicit."""
    from implicit.als import AlternatingLeastSquares

    with _controller().limit(limits=1, user_api="blas"):
        model = AlternatingLeastSquares(
            factors=rank, iterations=15, num_threads=THREADS, random_state=0
        )
        model.fit(inputs.single, show_progress=False)
    return model


@cache
def _controller() -> ThreadpoolController:
    """Create the controller once: finding the libraries takes milliseconds."""
    return ThreadpoolController()


def residual(X: sp.csr_array, model: Any) -> float | None:
    """Largest ‖M v − λ v‖ / λ_1 over a fitted model's components, in float64.

    M is XᵀX, for ItemWeightedPCA ½(D XᵀX + XᵀX D) with weights computed here; λ is what the model
    says. Products are SciPy's. None for a model that has no eigenvectors.
    """
    if not hasattr(model, "components_"):
        return None
    V = model.components_.T.astype(np.float64)
    weights = hasattr(model, "item_weights_")
    w = _weights(X)[:, None] if weights else np.ones((X.shape[1], 1))
    values = model.eigenvalues_ if weights else model.singular_values_.astype(np.float64) ** 2
    product = (w * (X.T @ (X @ V)) + X.T @ (X @ (w * V))) / 2
    return float(np.linalg.norm(product - V * values, axis=0).max() / values[0])


def _weights(X: sp.csr_array) -> Any:
    """w_j = 1 / ‖X_·j‖, and 0 for an item without users."""
    p = np.sqrt(np.asarray(X.power(2).sum(axis=0)).ravel())
    return np.divide(1.0, p, out=np.zeros_like(p), where=p > 0)


def candidates(inputs: Inputs, rank: int) -> list[Candidate]:
    """All methods, with the settings of this set and rank.

    Settings are searched for only where TruncatedSVD's own take seconds: a search runs it a dozen
    times.
    """
    QUIET_WAIT.wait()
    field = [
        _candidate(OURS, fit_item_weighted, rank),
        _candidate(PCA, fit_pca, rank),
        _candidate(ARPACK, fit_truncated_svd, rank, algorithm="arpack"),
    ]
    if inputs.X.nnz * rank <= _ALS_PRODUCTS:
        field.append(_candidate(ALS, fit_als, rank))
    if timed(partial(fit_truncated_svd, inputs, rank, algorithm="arpack")).median < _SEARCH_UNDER:
        field += _tuned(inputs, rank)
    return field


def _tuned(inputs: Inputs, rank: int) -> list[Candidate]:
    ours = min(timed(lambda: fit_item_weighted(inputs, rank)).median for _ in range(3))
    arpack = {"algorithm": "arpack"} | _loosest_tolerance(inputs, rank)
    more_iterations = _iterations(inputs, rank, limit=TIMES_OURS * ours)
    same = next(
        (t for t in _EIGSH_TOLERANCES if _is_accurate(inputs, fit_eigsh(inputs, rank, t))),
        _EIGSH_TOLERANCES[-1],
    )
    return [
        _candidate(ARPACK_TUNED, fit_truncated_svd, rank, **arpack),
        _candidate(ARPACK_SAME, fit_eigsh, rank, tol=same),
        _candidate(RANDOMIZED, fit_truncated_svd, rank, n_iter=_DEFAULT_ITERATIONS),
        _candidate(RANDOMIZED_TUNED, fit_truncated_svd, rank, **more_iterations),
    ]


def _candidate(method: str, fit: Callable[..., Any], rank: int, **options: Any) -> Candidate:
    settings = ", ".join(f"{name}={options[name]}" for name in options if name != "algorithm")
    warm_up = partial(_warm_up, fit, rank, options)
    return Candidate(method, settings, partial(fit, rank=rank, **options), warm_up)


def _warm_up(fit: Callable[..., Any], rank: int, options: dict[str, Any], inputs: Inputs) -> None:
    """Run the code of a cell on less: its width of vectors decides what is compiled."""
    small = Inputs(inputs.small, sp.csr_matrix(inputs.small, dtype=np.float32), inputs.small)
    paths = ("matrix_free", "gram") if fit in (fit_item_weighted, fit_pca) else (None,)
    for solver in paths:
        fit(small, rank=rank, **options, **({"solver": solver} if solver else {}))


def _loosest_tolerance(inputs: Inputs, rank: int) -> dict[str, Any]:
    options: dict[str, Any] = {"tol": 0.0}
    for tol in _ARPACK_TOLERANCES:
        if _is_accurate(inputs, fit_truncated_svd(inputs, rank, algorithm="arpack", tol=tol)):
            options["tol"] = tol
            break
    return options | _faster_blas(inputs, rank, algorithm="arpack", **options)


def _faster_blas(inputs: Inputs, rank: int, **options: Any) -> dict[str, int]:
    """One BLAS thread, or as many as the benchmark has: OpenBLAS does not always gain from more."""
    runs = {
        str(count): partial(fit_truncated_svd, inputs, rank, blas_threads=count, **options)
        for count in dict.fromkeys((1, THREADS))
    }
    timings = interleave(runs, 3, fast_seconds=0.0, slow_repeats=1)
    return {"blas_threads": int(min(timings, key=lambda count: timings[count].median))}


def _iterations(inputs: Inputs, rank: int, limit: float) -> dict[str, Any]:
    """The smallest n_iter that is accurate, to about an eighth; or the first beyond the limit."""
    blas = _faster_blas(inputs, rank, n_iter=_DEFAULT_ITERATIONS)

    def attempt(n_iter: int) -> tuple[bool, float]:
        fit = partial(fit_truncated_svd, inputs, rank, n_iter=n_iter, **blas)
        run = timed(fit)
        # once more: a busy moment must not look like a slow method
        seconds = run.median if run.median < limit else min(run.median, timed(fit).median)
        return _is_accurate(inputs, run.value), seconds

    low, high = 0, _DEFAULT_ITERATIONS
    accurate, seconds = attempt(high)
    while not accurate and seconds <= limit:
        low, high = high, 2 * high
        accurate, seconds = attempt(high)
    while accurate and high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if attempt(middle)[0] else (middle, high)
    return {"n_iter": high} | blas


def _is_accurate(inputs: Inputs, model: Any) -> bool:
    found = residual(inputs.X, model)
    return found is not None and found <= ACCURACY
