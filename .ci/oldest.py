"""The oldest versions that pyproject.toml allows, as constraints for pip.

`python .ci/oldest.py` writes .ci/oldest.txt; tests/test_oldest.py holds the two together.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What `make oldest` installs next to the core. Left out: lightgcn (PyTorch and PyG, gigabytes), the
# adapters (their libraries need newer ones), docs, and tools that only check (mypy, ruff).
EXTRAS = ("sql", "zstd", "sdp", "als", "plot", "datasets", "ann", "dask")
TOOLS = ("hypothesis", "pandas", "pyarrow", "pytest", "pytest-xdist")
_BOUND = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?P<extra>\[[^\]]*\])?>=(?P<version>[0-9.]+)(?:;.*)?$"
)


def requirements() -> list[str]:
    """The requirements of the core, of the light extras, and of the tests."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    chosen = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    tools = [line for line in extras["dev"] if line.partition(">=")[0] in TOOLS]
    return [*chosen, *tools]


def constraints() -> str:
    """One line for each: the lower bound as the version to take."""
    lines = []
    for requirement in requirements():
        bound = _BOUND.fullmatch(requirement)
        if bound is None:
            raise SystemExit(f"{requirement!r} has no lower bound alone")
        lines.append(f"{bound['name']}=={bound['version']}")
    return "\n".join(sorted(set(lines))) + "\n"


if __name__ == "__main__":
    (HERE / "oldest.txt").write_text(constraints(), "utf-8")
