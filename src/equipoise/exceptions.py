"""All errors of the package derive from `EquipoiseError`.

Each message names the input, what was wrong with it, what was expected and what to do. Errors also
derive from the built-in class that NumPy, pandas or scikit-learn raise in such cases: `ValueError`
for values, `KeyError` for unknown names.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class EquipoiseError(Exception):
    """Base class of all errors of this package."""


class InvalidDataError(EquipoiseError, ValueError):
    """A table or matrix is invalid: NaN, negative, empty, unparsable, a missing column."""


class InvalidParameterError(EquipoiseError, ValueError):
    """An argument is outside its declared range."""


class InfeasibleError(InvalidParameterError):
    """No solution satisfies the constraints, and there is a proof.

    Attributes
    ----------
    best : float
        Upper bound on the worst constraint: no solution brings it higher, and 0 is required.
    dual_weights : object
        The weights of the constraints from which the bound follows.
    """

    def __init__(self, message: str, *, best: float, dual_weights: object = None) -> None:
        super().__init__(message)
        self.best = best
        self.dual_weights = dual_weights


class UnknownIdError(EquipoiseError, KeyError):
    """A user or item id that is not in the model or the data."""

    def __str__(self) -> str:
        """Return the message itself: `KeyError` would print its `repr`."""
        return str(self.args[0]) if self.args else ""


class ArtifactError(EquipoiseError, ValueError):
    """A file is not a valid saved model: damaged, changed, or of another version or kind."""


class OutputError(EquipoiseError, OSError):
    """A file could not be written; an existing file is unchanged."""


class MissingExtraError(EquipoiseError, ImportError):
    """An optional dependency is required and not installed."""


class ForkedProcessError(EquipoiseError, RuntimeError):
    """A table is read in a forked process, which lacks the threads that polars needs."""


class ClusterError(EquipoiseError, RuntimeError):
    """A Dask cluster failed: workers died, the scheduler is unreachable, or memory ran out."""


class SolverError(EquipoiseError, RuntimeError):
    """The eigensolver stopped before it reached its tolerance."""


class PreparationWarning(UserWarning):
    """The data of an update do not look like those that it expects."""


class SolverWarning(UserWarning):
    """The solution is correct but differs from the request, e.g. it has fewer components."""


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise an error that names the extra to install.

    Parameters
    ----------
    module : str
        What to import, e.g. ``"cvxpy"``.
    extra : str
        The extra of this package that installs it.
    purpose : str
        What the user was doing, e.g. ``"solving the paper's SDP"``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = (
            f"{purpose} needs {module!r}, which is not installed. "
            f'Install it with: pip install "equipoise[{extra}]"'
        )
        raise MissingExtraError(message) from error


@contextmanager
def explained(
    problem: str, *errors: type[BaseException], kind: type[EquipoiseError] | None = None
) -> Iterator[None]:
    """Turn errors of a library into one of this package: the problem, then the library's reason.

    Parameters
    ----------
    problem : str
        What was wrong with which input, and what to do.
    errors : types
        What the library raises; errors of this package are passed on.
    kind : type
        What to raise; `InvalidDataError` by default.

    Examples
    --------
    >>> with explained("plays.csv cannot be read", OSError):
    ...     raise OSError("it is locked")
    Traceback (most recent call last):
    equipoise.exceptions.InvalidDataError: plays.csv cannot be read (it is locked).
    """
    try:
        yield
    except EquipoiseError:
        raise
    except errors as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise (kind or InvalidDataError)(f"{problem} ({reason}).") from error


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error message, or the name of the error if it has none.

    Examples
    --------
    >>> first_line(ValueError("no such column\nhint: ..."))
    'no such column'
    >>> first_line(TimeoutError())
    'TimeoutError'
    """
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
