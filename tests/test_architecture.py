"""The architecture is a test: imports go down only, deferred ones included, and stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

import equipoise
from equipoise.models import Recommender

ROOT = Path(equipoise.__file__).parent

# Each layer may import the layers before it. Names on one line do not import each other.
LAYERS = [
    {"defaults", "exceptions", "lazy", "progress"},
    {"array_files", "checks", "display", "parallel", "plugins", "files", "memory"},
    {"spectral"},
    {"metrics"},
    {"data"},
    {"models"},
    {"reranking"},
    {"evaluation"},
    {"audit", "paper", "serving", "testing"},
    {"cli"},
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

# Extras are imported only where they are used; heavy things of the core too.
EXTRAS = {
    "cvxpy",
    "implicit",
    "torch",
    "safetensors",
    "onnx",
    "dask",
    "distributed",
    "fsspec",
    "s3fs",
    "sqlalchemy",
    "psycopg",
    "matplotlib",
    "pooch",
    "usearch",
    "faiss",
    "lenskit",
    "starlette",
    "uvicorn",
    "rectools",
}
HEAVY = {"numba", "polars", "sklearn", "scipy", "numpy", "rich", "pandas", "pyarrow"}


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(source(path)))]


@cache
def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, at the top or inside a function."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            pytest.fail(f"{path} uses a relative import")
    return found


def offenders(find: Callable[[Path], set[str]], paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return what is wrong in each file, by its path."""
    return {str(path.relative_to(ROOT)): found for path in paths if (found := find(path))}


def layer_of(path: Path) -> str:
    part = path.relative_to(ROOT).parts[0]
    return part.removesuffix(".py")


# with stubs: a package lists there what it imports when a name is first used
FILES = [
    path
    for path in sorted(ROOT.rglob("*.py*"))
    if path.suffix in (".py", ".pyi")
    if path.parent != ROOT or path.stem in HEIGHT
]


def files_from(layer: str) -> list[Path]:
    """Return the files of a layer and of all above it."""
    return [path for path in FILES if HEIGHT[layer_of(path)] >= HEIGHT[layer]]


def not_below(path: Path) -> set[str]:
    """Return the layers that a file imports and that do not lie below its own."""
    here = layer_of(path)
    parts = (module.split(".") for module in imports_of(path))
    imported = {names[1] for names in parts if names[0] == "equipoise" and len(names) > 1}
    return {name for name in imported & {*HEIGHT} - {here} if HEIGHT[name] >= HEIGHT[here]}


def test_imports_go_down_only():
    assert len(FILES) > 150
    assert offenders(not_below, FILES) == {}


def test_there_is_one_type_of_interactions():
    found = [path for path in FILES if re.search(r"^class \w*Interactions\b", source(path), re.M)]
    assert found == [ROOT / "data" / "interactions.py"]


# With `__init__.py`; a folder with more has two subjects
MOST_FILES = 16


def test_folders_are_small_enough_to_be_read_at_a_glance():
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


def names_of_backends(path: Path) -> set[str]:
    imported = {name for name in imports_of(path) if name.startswith("equipoise.data.backends")}
    return imported | {*re.findall("MemoryRows|DiskRows|DaskRows", source(path))}


def test_only_the_data_package_knows_where_rows_are_stored():
    assert offenders(names_of_backends, files_from("models")) == {}
    assert offenders(names_of_backends, FILES) != {}  # the search finds what it looks for


PRIVATE = {name for name in dir(Recommender) if name.startswith("_") and not name.endswith("__")}


def private_uses(path: Path) -> set[str]:
    """Return the private methods of models that a file calls on others than itself."""
    used = {
        node.attr
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and not (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()")
    }
    return used & PRIVATE


def test_models_are_used_only_through_their_public_contract():
    assert offenders(private_uses, files_from("reranking")) == {}
    assert offenders(private_uses, files_from("models")) != {}  # models may


def test_every_folder_has_its_place():
    folders = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    modules = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}
    assert folders | modules <= set(HEIGHT)


REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of one section of the architecture page."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_page_lists_every_folder_and_no_other():
    kept = (path for path in ROOT.rglob("*") if path.is_dir() and path.name != "__pycache__")
    folders = {path.relative_to(ROOT).as_posix() for path in kept} - {"audit/report/sources"}
    assert set(re.findall(r"^\| `(.+?)/` \|", section("Folders"), re.MULTILINE)) == folders


def test_the_page_lists_the_layers():
    lines = re.findall(r"^\d+\. (.+)$", section("Layers"), re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", line)) for line in lines] == LAYERS


def test_every_path_on_the_page_exists():
    paths = re.findall(r"`([\w./-]+(?:/|\.py|\.md))`", PAGE)
    missing = [p for p in paths if not ((ROOT / p).exists() or (REPOSITORY / p).exists())]
    assert paths
    assert not missing


def output_of(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def modules_after(code: str) -> set[str]:
    """Top-level modules loaded by a fresh interpreter that runs `code`."""
    shown = "import sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    return set(output_of(f"{code}\n{shown}").splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy_and_no_extra():
    assert not modules_after("import equipoise") & (EXTRAS | HEAVY)


@pytest.mark.medium
def test_importing_the_data_package_loads_no_table_library():
    assert not modules_after("import equipoise.data") & {"polars", "pandas", "pyarrow"}


@pytest.mark.medium
def test_fitting_a_small_matrix_loads_only_numpy_and_scipy():
    code = (
        "import numpy as np, equipoise as eq\n"
        "X = np.random.default_rng(0).poisson(1.0, (40, 8))\n"
        "eq.ItemWeightedPCA(3).fit(X).recommend(X)"
    )
    loaded = modules_after(code)
    assert "scipy" in loaded
    assert not loaded & (EXTRAS | HEAVY - {"numpy", "scipy"})


@pytest.mark.medium
def test_using_the_core_loads_no_extra():
    code = (
        "import numpy as np, equipoise as eq\n"
        "from equipoise.data.synthetic import listening\n"
        "plays = listening(n_users=40, n_items=60)\n"
        "eq.ItemWeightedPCA(3).fit(plays).recommend(plays)\n"
        "import equipoise.metrics, equipoise.cli.app, equipoise.audit"
    )
    loaded = modules_after(code)
    assert "polars" in loaded
    assert not loaded & EXTRAS


@pytest.mark.medium
@pytest.mark.parametrize("command", [[], ["audit"], ["recommend"]])
def test_help_of_the_command_line_loads_no_numerics(command):
    loaded = modules_after(f"from equipoise.cli.app import run; run([*{command}, '--help'])")
    assert not loaded & (EXTRAS | HEAVY)


@pytest.mark.medium
def test_a_missing_extra_is_named_with_the_command_that_installs_it():
    code = (
        "import sys; sys.modules['cvxpy'] = None\n"
        "import equipoise\n"
        "try:\n    equipoise.solve_sdp([[1.0, 0.0]], 1)\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    said = output_of(code)
    assert said.startswith("MissingExtraError")
    assert 'pip install "equipoise[sdp]"' in said
