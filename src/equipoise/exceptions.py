"""One tree of errors: catch `EquipoiseError` to catch them all.

Each message says which input, what rule it broke, what came, and what to do next.
Errors about values are `ValueError` too, and those about missing names `KeyError`, so that
code written for NumPy, pandas or scikit-learn catches them without knowing this package.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class EquipoiseError(Exception):
    """Anything that equipoise refuses or fails to do."""


class InvalidDataError(EquipoiseError, ValueError):
    """A table or matrix breaks a rule: NaN, negative, empty, unparsable, a missing column."""


class InvalidParameterError(EquipoiseError, ValueError):
    """An argument is outside its declared range."""


class InfeasibleError(InvalidParameterError):
    """No solution meets the constraints, and there is a proof.

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
    """A user or item id that the model or the data has never seen."""

    def __str__(self) -> str:
        """Return the message itself: `KeyError` would print its `repr`."""
        return str(self.args[0]) if self.args else ""


class ArtefactError(EquipoiseError, ValueError):
    """A saved model is truncated, edited, newer than this version, or no model at all."""


class OutputError(EquipoiseError, OSError):
    """A file could not be written; what was there before is untouched."""


class MissingExtraError(EquipoiseError, ImportError):
    """An optional dependency is needed and not installed."""


class ForkedProcessError(EquipoiseError, RuntimeError):
    """A table is read in a forked process, which lacks the threads that would do it."""


class ClusterError(EquipoiseError, RuntimeError):
    """A Dask cluster failed: workers died, the scheduler is gone, memory ran out."""


class SolverError(EquipoiseError, RuntimeError):
    """The eigen-solver stopped before it reached its tolerance."""


class PreparationWarning(UserWarning):
    """Rows to recommend from are not prepared like those that the model was fitted on."""


class SolverWarning(UserWarning):
    """The solution is right, but not the shape that was asked for."""


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra to install.

    Parameters
    ----------
    module : str
        What to import, e.g. ``"cvxpy"``.
    extra : str
        The extra of this package that brings it.
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


def first_line(error: BaseException) -> str:
    r"""The first line of what another library said, or the name of its error if it said nothing.

    Examples
    --------
    >>> first_line(ValueError("no such column\nhint: ..."))
    'no such column'
    >>> first_line(TimeoutError())
    'TimeoutError'
    """
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
