"""Archives of data sets: nothing leaves the folder, nothing grows beyond the bound."""

from __future__ import annotations

import io
import shutil
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from random import Random

from equipoise.data.catalog import CATALOG
from equipoise.data.catalog.unpacking import unpack
from fuzz.door import Door, Mismatch

_LIMIT = 20_000
_DATASET = replace(CATALOG["lastfm-2k"], unpacked_limit=_LIMIT)
_GOOD = {
    "artists.dat": b"id\tname\n51\tDuran Duran\n",
    "user_artists.dat": b"userID\tartistID\tweight\n2\t51\t13883\n",
    "readme.txt": b"Hello",
}
_NAMES = (
    "../evil", "/tmp/evil", "a/../../evil", "..\\evil", "C:/evil", "C:evil", "\\\\host\\evil",
    "evil/",
    "./artists.dat", "artists.dat", "user_artists.dat", "readme.txt", "sub/user_artists.dat", "nul",
    "con", "a\0b", "~/evil", "x" * 300, "\u202egnp", ".", "..", "", "artists.dat/", "//evil",
    "aux.dat",
)  # fmt: skip
_MODES = (0o120777, 0o060666, 0o020666, 0o010666, 0o140777, 0o040755, 0o100644, 0o104755)


def _zip(members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def seeds() -> list[bytes]:
    """The publisher's layout, packed and unpacked."""
    return [_zip(_GOOD), _zip(_GOOD, zipfile.ZIP_STORED), _zip({**_GOOD, "tags.dat": bytes(500)})]


def mutate(random: Random, content: bytes) -> bytes:
    """Add or change a member: its name, its kind, its packing, its size; then maybe damage it."""
    members = list(_GOOD.items())
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        if random.random() < 0.2:
            members.pop(random.randrange(len(members)))
        for name, stored in members:
            _add(random, archive, name, stored, odd=0.1)
        for _ in range(random.choice((0, 1, 1, 2))):
            _add(
                random,
                archive,
                random.choice(_NAMES),
                random.choice((b"x", bytes(30_000))),
                odd=0.5,
            )
    changed = bytearray(file.getvalue() if random.random() < 0.8 else content)
    for _ in range(random.choice((0, 0, 1, 1, 3))):
        changed[random.randrange(len(changed))] = random.choice(
            (0, 1, 0x7F, 0xFF, random.randrange(256))
        )
    return bytes(changed)


def _add(random: Random, archive: zipfile.ZipFile, name: str, stored: bytes, *, odd: float) -> None:
    info = zipfile.ZipInfo(name or "x")
    info.create_system = 3
    info.external_attr = 0o100644 << 16
    if random.random() < odd:
        info.external_attr = random.choice(_MODES) << 16
    packings = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
    info.compress_type = random.choice(packings) if random.random() < odd else zipfile.ZIP_DEFLATED
    archive.writestr(info, stored if random.random() > odd / 4 else bytes(2 * _LIMIT))


def enter(content: bytes, folder: Path) -> None:
    """Unpack into a folder, then look at what is in and around it."""
    around = folder / "around"
    home = around / "deep" / "lastfm-2k"
    archive = folder / "archive.zip"
    archive.write_bytes(content)
    try:
        unpack(_DATASET, archive, home)
        _check_contents(content, home)
    finally:
        try:
            _check_places(around, home)
        finally:
            shutil.rmtree(around, ignore_errors=True)


def _check_places(around: Path, home: Path) -> None:
    paths = [path for path in around.rglob("*") if path not in (home, home.parent)]
    if any(path.parent != home or path.is_symlink() or not path.is_file() for path in paths):
        raise Mismatch(f"unpacked {[str(path.relative_to(around)) for path in paths]}")
    if not {path.name for path in paths} <= set(_GOOD):
        raise Mismatch(f"unpacked {[path.name for path in paths]}")
    if sum(path.stat().st_size for path in paths) > _LIMIT:
        raise Mismatch("unpacked more than the bound")


def _check_contents(content: bytes, home: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for path in home.iterdir():
            if path.read_bytes() != archive.read(path.name):
                raise Mismatch(f"{path.name} is not what the archive holds")


DOOR = Door("archive", enter, seeds, mutate=mutate)
