"""What the package never does, read off its own source; and that untrusted files stay data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import equipoise

ROOT = Path(equipoise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# What runs or rebuilds code from data, or starts a process: whole modules, and names in others
FORBIDDEN = re.compile(
    r"(pickle|cPickle|_pickle|dill|cloudpickle|marshal|shelve|joblib|subprocess|pty|commands|yaml"
    r"|codeop|xml|runpy|ctypes|cffi|multiprocessing)(\.|$)"
    r"|(builtins\.)?(eval|exec|compile|__import__)$"
    r"|os\.(system|popen|startfile|fork|forkpty|exec\w*|spawn\w*|posix_spawn\w*)$"
    r"|asyncio\.(subprocess|create_subprocess\w+)"
    r"|importlib\.(import_module|__import__|util\.(?!find_spec$)|machinery\.)"
    r"|(pd|pandas)\.read_pickle$|torch\.load$|(\w+\.)*load_npz$|tarfile\.open$"
    r"|numpy\.load$"
)
# These import what a table in the package names, return memory to the system, or read plain arrays
KNOWN = {
    "lazy.py": {"importlib.import_module"},
    "audit/models/tables.py": {"torch.load"},  # weights_only=True, as is asserted below
    "data/backends/disk.py": {"numpy.load"},  # allow_pickle=False, as is asserted below
    "evaluation/cost.py": {"ctypes", "ctypes.CDLL", "ctypes.CDLL(None).malloc_trim"},
    "exceptions.py": {"importlib.import_module"},
    "models/persistence.py": {"importlib.import_module"},  # of a table in models/registry.py
    "models/registry.py": {"importlib.import_module"},
    # calls routines of SciPy's LAPACK that the package names
    "spectral/lapack.py": {
        "ctypes",
        "ctypes.CFUNCTYPE",
        "ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)",
        "ctypes.PYFUNCTYPE",
        "ctypes.byref",
        "ctypes.c_char_p",
        "ctypes.c_double",
        "ctypes.c_int",
        "ctypes.c_void_p",
        "ctypes.py_object",
        "ctypes.pythonapi",
    },
    # these call the loops that they themselves write: arguments choose among fixed types only
    "spectral/narrow_loop.py": {"ctypes", "ctypes.c_int64", "ctypes.c_void_p"},
    "spectral/vector_loop.py": {
        "ctypes",
        "ctypes.CFUNCTYPE",
        "ctypes.CFUNCTYPE(None, *arguments)",
        "ctypes.c_double",
        "ctypes.c_int64",
        "ctypes.c_void_p",
    },
}


def offences(tree: ast.AST) -> set[str]:
    """Every use of what is forbidden, by its full name whatever it was imported as."""
    origins: dict[str, str] = {}
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                used.add(alias.name)
                origins[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                used.add(f"{node.module}.{alias.name}")
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used.add(_full_name(node, origins))
        elif isinstance(node, ast.Call):
            name = _full_name(node.func, origins)
            used.add(name)
            if name == "numpy.load" and "allow_pickle=False" not in ast.unparse(node):
                used.add("allow_pickle=True")
            if name == "torch.load" and "weights_only=True" not in ast.unparse(node):
                used.add("any object=True")
            used |= {
                f"{keyword.arg}=True"
                for keyword in node.keywords
                if keyword.arg in ("shell", "allow_pickle")
                and ast.unparse(keyword.value) not in ("False", "None")
            }
    return {name for name in used if FORBIDDEN.match(name) or name.endswith("=True")}


def _full_name(node: ast.AST, origins: dict[str, str]) -> str:
    first, dot, rest = _written(node).partition(".")
    home = origins.get(first, {"np": "numpy"}.get(first, first))
    return f"{home}{dot}{rest}"


def _written(node: ast.AST) -> str:
    """The expression as code; `ast.unparse` would take most of the time of this file."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_written(node.value)}.{node.attr}"
    return ast.unparse(node)


def test_no_pickle_no_eval_no_shell():
    assert len(FILES) > 150
    found = {
        path.relative_to(ROOT).as_posix(): offences(ast.parse(path.read_text(encoding="utf-8")))
        for path in FILES
    }
    assert {path: names for path, names in found.items() if names} == KNOWN


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.numpy_pickle",
        "import subprocess",
        "eval('1')",
        "exec('x = 1')",
        "import os; os.system('ls')",
        "import marshal",
        "from yaml import load",
        "np.load(path)",
        "f(allow_pickle=True)",
        "run('ls', shell=True)",
        "torch.load(path)",
        "from os import system; system('x')",
        "import os as o; o.posix_spawn('x', [], {})",
        "import os; start = os.execl",
        "import importlib; importlib.import_module(name)",
        "from importlib import import_module as load; load(name)",
        "import runpy; runpy.run_path(path)",
        "import ctypes; ctypes.CDLL(path)",
        "import builtins; builtins.eval('1')",
        "from numpy import load; load(path)",
        "import pandas; pandas.read_pickle(path)",
        "import scipy.sparse; scipy.sparse.load_npz(path)",
        "import asyncio; asyncio.create_subprocess_shell('x')",
        "from multiprocessing import Pool",
        "run('ls', shell=ask)",
    ],
)
def test_the_search_finds_what_it_looks_for(code):
    assert offences(ast.parse(code))


def test_the_policy_says_how_to_report():
    policy = ROOT.parents[1] / "SECURITY.md"
    if not policy.exists():
        pytest.skip("not run from the repository")
    text = policy.read_text(encoding="utf-8")
    for said in ("security advisory", "Supported versions", "Not promised", "Parquet"):
        assert said in text
