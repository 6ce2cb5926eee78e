"""The reference holds every public name, and no name that is not there."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import types
from functools import cache, reduce

import pytest

from equipoise import exceptions
from tests.docs.pages import DOCS

PUBLIC = [
    "equipoise",
    "equipoise.models",
    "equipoise.data",
    "equipoise.data.catalog",
    "equipoise.data.synthetic",
    "equipoise.metrics",
    "equipoise.reranking",
    "equipoise.evaluation",
    "equipoise.audit",
    "equipoise.audit.report",
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
DOCUMENTED = re.findall(r"^::: ([\w.]+)$", TEXT, flags=re.M)


def _resolve(path: str) -> object:
    """Import the longest prefix that is a module, and look the rest up in it."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(parts[:cut])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as missing:
            if not module.startswith(missing.name or ""):  # a library that it needs
                raise
            continue
        return reduce(getattr, parts[cut:], found)
    raise ModuleNotFoundError(path)


def test_what_is_documented_exists_and_has_a_docstring():
    without, missing = [], {}
    for path in DOCUMENTED:
        try:
            found = _resolve(path)
        except ImportError as error:
            missing[path] = str(error)
            continue
        if inspect.isclass(found) or inspect.isroutine(found):
            without += [path] * (not (found.__doc__ or "").strip())
    assert without == []
    assert len(missing) < len(DOCUMENTED) / 10
    if missing:
        pytest.skip(f"these were NOT looked up, a library is missing: {missing}")


@cache
def _documented() -> set[int]:
    objects = set()
    for path in DOCUMENTED:
        with contextlib.suppress(ImportError):
            objects.add(id(_resolve(path)))
    return objects


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    documented = _documented()
    names = importlib.import_module(module).__all__
    assert names
    for name in names:
        value = _resolve(f"{module}.{name}")
        if isinstance(value, types.ModuleType):
            assert value.__name__ in TEXT, name
        elif name == "__version__" or name in vars(exceptions):
            assert name in TEXT
        elif inspect.isclass(value) or inspect.isroutine(value):
            assert id(value) in documented, f"{module}.{name} is in no page of docs/api"
        else:
            assert f"{module}.{name}" in DOCUMENTED, f"{module}.{name} is in no page of docs/api"


def test_every_error_is_in_the_reference():
    errors = [name for name, value in vars(exceptions).items() if inspect.isclass(value)]
    listed = re.findall(r"^ +- (\w+)$", (DOCS / "api" / "exceptions.md").read_text(), flags=re.M)
    assert sorted(listed) == sorted(name for name in errors if name.endswith(("Error", "Warning")))
