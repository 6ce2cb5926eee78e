"""Where the time of one fit goes: passes over the data, orthogonalizing, eigenproblems, the end.

Run ``python benchmarks/profile_fit.py gowalla 128`` (or ``lastfm``, ``movielens``, ``ml20m``). The
times are CPU time of each part alone, of all threads and without the parts that it calls. A fit
before it loads and compiles.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import datasets
from fit_methods import Inputs, fit_item_weighted
from harness import Table

SETS = {
    "lastfm": datasets.LAST_FM,
    "movielens": datasets.MOVIE_LENS_FULL,
    "gowalla": datasets.GOWALLA_SHAPE,
    "ml20m": datasets.ML20M_SHAPE,
}


class Clock:
    """Counts calls and CPU seconds of functions, without those of others that it counts."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner: list[float] = []

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Count the calls of ``owner.name`` as `part`."""
        setattr(owner, name, self._counted(getattr(owner, name), part))

    def _counted(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            started = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.process_time() - started
                self.calls[part] += 1
                self.seconds[part] += spent - self._inner.pop()
                if self._inner:
                    self._inner[-1] += spent

        return counted


def watched() -> Clock:
    """A clock on the parts of the iteration."""
    from equipoise.spectral import gram, kernels, krylov, lanczos

    clock = Clock()
    clock.watch(kernels, "gram_product", "passes over the data")
    clock.watch(gram.SparseGram, "product", "products")
    clock.watch(krylov.KrylovBasis, "expand", "orthogonalize against the basis")
    clock.watch(krylov.KrylovBasis, "_follow", "make the next block orthonormal")
    clock.watch(krylov.KrylovBasis, "ritz", "small eigenproblems")
    clock.watch(krylov.KrylovBasis, "vectors", "Ritz vectors")
    clock.watch(lanczos, "rayleigh_ritz", "Rayleigh–Ritz in float64")
    return clock


def main() -> None:
    """Fit twice, clock the second, print a table."""
    parser = harness.arguments(__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("rank", type=int)
    options = parser.parse_args()
    X = SETS[options.set].load().matrix.astype("float64")
    inputs = Inputs(X, X, X)
    fit_item_weighted(inputs, options.rank)
    clock = watched()
    started = time.process_time()
    model = fit_item_weighted(inputs, options.rank)
    total = time.process_time() - started
    parts = sorted(clock.seconds, key=clock.seconds.__getitem__, reverse=True)
    rows = [
        [part, str(clock.calls[part]), f"{clock.seconds[part]:.3f}", f"{share:.0%}"]
        for part in parts
        for share in [clock.seconds[part] / total]
    ]
    left = total - sum(clock.seconds.values())
    rows.append(["all else", "", f"{left:.3f}", f"{left / total:.0%}"])
    title = f"{SETS[options.set].name}, r = {options.rank}, {model.solver_}: {total:.2f} s"
    harness.print_table(Table(title, ("part", "calls", "CPU s", "share"), rows))


if __name__ == "__main__":
    main()
