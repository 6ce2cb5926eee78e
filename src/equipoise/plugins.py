"""What other packages register under entry points: models, metrics and re-rankers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from equipoise.exceptions import InvalidParameterError


def registered(
    group: str, taken: Collection[str], kind: str, is_one: Callable[[Any], bool]
) -> dict[str, tuple[EntryPoint, Any]]:
    """Return what is registered in a group, by name; objects with a `name` are called by it.

    Parameters
    ----------
    group : str
        Name of the group, e.g. ``"equipoise.metrics"``.
    taken : collection of str
        Names of this package, which others may not take.
    kind : str
        What must be registered, e.g. "a Metric".
    is_one : callable
        Whether an object is of that kind.
    """
    found: dict[str, tuple[EntryPoint, Any]] = {}
    for point in entry_points(group=group):
        where = f"the entry point {point.name!r} ({point.value})"
        try:
            loaded = point.load()
        except Exception as error:  # whatever the package does when it is imported
            raise InvalidParameterError(
                f"{where} cannot be imported: {type(error).__name__}: {error}. "
                "Correct or uninstall its package."
            ) from error
        if not is_one(loaded):
            raise InvalidParameterError(
                f"{where} must be {kind}, got {loaded!r}. Correct or uninstall its package."
            )
        name = point.name if isinstance(loaded, type) else loaded.name
        if name in taken or name in found:
            raise InvalidParameterError(
                f"{where} has the name of another one, {name!r}. Rename it or uninstall its "
                "package."
            )
        found[name] = (point, loaded)
    return found


def is_subclass_of(base: type) -> Callable[[Any], bool]:
    """Return the check whether an object is a class below another one."""
    return lambda one: isinstance(one, type) and issubclass(one, base)
