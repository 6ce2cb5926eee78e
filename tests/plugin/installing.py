"""Build a wheel from a pure-Python package, without a build backend, and let pip install it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path


def build_wheel(package: Path, folder: Path) -> Path:
    """Write the wheel of a package with a `src` folder."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    name = project["name"].replace("-", "_")
    info = f"{name}-{project['version']}.dist-info"
    groups = project.get("entry-points", {})
    points = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in named.items())
        for group, named in groups.items()
    ]
    files = {
        path.relative_to(package / "src").as_posix(): path.read_text()
        for path in sorted((package / "src").rglob("*.py"))
    }
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        + "".join(f"Requires-Dist: {one}\n" for one in project["dependencies"])
    )
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/entry_points.txt"] = "\n".join(points)
    record = [f"{path},{_hash(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    wheel = folder / f"{name}-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _hash(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def install(wheel: Path, target: Path) -> None:
    """Let pip install a wheel into a folder, with nothing from outside."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, *options, str(wheel)], check=True, capture_output=True, text=True)
