"""Checks of arguments, used by all packages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

from equipoise.exceptions import InvalidParameterError


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or NumPy; True and False are not.

    Examples
    --------
    >>> is_whole_number(np.int32(3)), is_whole_number(3.0), is_whole_number(True)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> None:
    """Refuse an argument that is not a whole number from `least` to `most`."""
    if not is_whole_number(value) or value < least or (most is not None and value > most):
        allowed = f"{least:,} or more" if most is None else f"from {least:,} to {most:,}"
        raise InvalidParameterError(f"{name}={value!r} must be a whole number, {allowed}.")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a name that is not one of the choices, and list them."""
    known = list(choices)
    if value not in known:
        raise InvalidParameterError(f"{name} must be one of {known}, got {value!r}.")
