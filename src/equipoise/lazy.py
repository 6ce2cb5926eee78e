"""Packages whose names are imported when they are first used: each is listed once, in a stub."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import \(?\s*(\w+) as ", re.MULTILINE)


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], Any]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from its ``__init__.pyi``.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package.
    """
    with open(f"{file}i", encoding="utf-8") as stub:
        modules = {name: home for home, name in _IMPORT.findall(stub.read())}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule = f"{package}.{name}"
        if modules[name] in (package, submodule):
            return importlib.import_module(submodule)
        home = importlib.import_module(modules[name])
        found = getattr(home, name, None)  # or else a module that is not imported yet
        return importlib.import_module(f"{modules[name]}.{name}") if found is None else found

    names = list(modules)
    return find, lambda: sorted(names), names
