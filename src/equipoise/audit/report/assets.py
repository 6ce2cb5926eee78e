"""The page's own sources, and the charting library that is bundled with it."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources

# The modules of the page, each after those that it imports.
MODULES = (
    "text.js",
    "data.js",
    "state.js",
    "charts.js",
    "shapes.js",
    "mechanisms.js",
    "outcomes.js",
    "card.js",
    "items.js",
    "users.js",
    "controls.js",
    "main.js",
)

_STYLES = ("style.css", "parts.css", "media.css")

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |function |let |class ))", re.MULTILINE)


def source(name: str) -> str:
    """A file of `sources`, as text."""
    place = resources.files("equipoise.audit.report") / "sources" / name
    return place.read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def script() -> str:
    """The modules as one: joined in order, without the lines that tie them together.

    Their names share one scope then, as nothing may be fetched when the page is opened.
    """
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source(name))) for name in MODULES)


@functools.cache
def style() -> str:
    """The style sheets as one."""
    return "\n".join(source(name) for name in _STYLES)


@functools.cache
def plotly() -> str:
    """Plotly.js, as the Python package of that name brings it."""
    place = resources.files("plotly") / "package_data" / "plotly.min.js"
    return place.read_text(encoding="utf-8").replace("\r\n", "\n")


def content_hash(text: str) -> str:
    """How a content security policy names a script.

    Examples
    --------
    >>> content_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
