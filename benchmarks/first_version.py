"""The source of the first version, which benchmarks compare with."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

REVISION = "40803ac"


def unpack(folder: Path) -> Path:
    """Extract the source of that version from the repository's history; return its folder.

    Raises
    ------
    RuntimeError
        If the history does not contain it, as in a shallow clone.
    """
    archived = subprocess.run(
        ["git", "archive", REVISION, "src"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        check=False,
    )
    if archived.returncode:
        raise RuntimeError(
            f"The first version ({REVISION}) is not in the history of this clone. Clone without "
            "--depth, and run this in the clone."
        )
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
