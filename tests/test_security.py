"""What the package never does, read off its own source; and that strangers' files stay data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import equipoise

ROOT = Path(equipoise.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Modules that run or rebuild code from data, or a shell
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib",
                     "subprocess", "pty", "commands", "yaml", "code", "xml"}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    ("os", "system"), ("os", "popen"), ("os", "execv"), ("os", "execvp"), ("os", "spawnl"),
    ("os", "startfile"), ("pd", "read_pickle"),
    ("torch", "load"), ("sp", "load_npz"), ("sparse", "load_npz"), ("tarfile", "open"),
}  # fmt: skip


def offences(tree: ast.AST) -> list[str]:
    """Every use of what is forbidden, with its line."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            found += [
                f"line {node.lineno}: imports {name}"
                for name in modules
                if name.partition(".")[0] in FORBIDDEN_MODULES
            ]
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}")
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            called = (node.func.value.id, node.func.attr)
            if called in FORBIDDEN_ATTRIBUTES:
                found.append(f"line {node.lineno}: calls {'.'.join(called)}")
        if ast.unparse(node.func) in ("np.load", "numpy.load"):
            safe = any(
                keyword.arg == "allow_pickle" and ast.unparse(keyword.value) == "False"
                for keyword in node.keywords
            )
            found += [] if safe else [f"line {node.lineno}: np.load without allow_pickle=False"]
        for keyword in node.keywords:
            true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            if keyword.arg in ("shell", "allow_pickle") and true:
                found.append(f"line {node.lineno}: {keyword.arg}=True")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pickle_no_eval_no_shell(path):
    assert offences(ast.parse(path.read_text(encoding="utf-8"))) == []


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
    ],
)
def test_the_search_finds_what_it_looks_for(code):
    assert offences(ast.parse(code))


def test_the_whole_package_was_searched():
    assert len(FILES) > 150


def test_the_policy_says_how_to_report():
    policy = ROOT.parents[1] / "SECURITY.md"
    if not policy.exists():
        pytest.skip("not run from the repository")
    text = policy.read_text(encoding="utf-8")
    for said in ("security advisory", "Supported versions", "Not promised", "Parquet"):
        assert said in text
