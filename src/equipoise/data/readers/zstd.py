"""Text packed with Zstandard (.zst), unpacked as it is read."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from equipoise.exceptions import require_extra

# Unpacked text held at a time, beside what the format itself asks for
_BUFFER_BYTES = 1 << 20
# Frames that hold no data: https://www.rfc-editor.org/rfc/rfc8878, section 3.1.2
_SKIPPED = range(0x184D2A50, 0x184D2A60)
_LONGEST_HEADER = 18
_ONE_BYTE_REPEATED = 1


def open_zstd(path: Path) -> BinaryIO:
    """Open for reading bytes; what is broken or cut off ends in an OSError or EOFError."""
    library = _library()
    if library.__name__ == "zstandard":
        with path.open("rb") as file:
            _refuse_cut(file, library)
        packed = path.open("rb")
        reader = library.ZstdDecompressor()
        unpacked = reader.stream_reader(packed, read_across_frames=True, closefd=True)
    else:
        unpacked = library.open(path, "rb")
    return io.BufferedReader(_Unpacked(unpacked, library.ZstdError), _BUFFER_BYTES)


def _library() -> ModuleType:
    standard = sys.version_info >= (3, 14)
    module = "compression.zstd" if standard else "zstandard"
    return require_extra(module, "zstd", "reading .zst files")


class _Unpacked(io.RawIOBase):
    """A library's stream as a file whose errors are those of files."""

    def __init__(self, stream: Any, error: type[Exception]) -> None:
        self._stream, self._error = stream, error

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; fewer bytes than it holds, where the text ends."""
        try:
            text = self._stream.read(len(buffer))
        except self._error as error:
            raise OSError(str(error)) from error
        buffer[: len(text)] = text
        return len(text)

    def close(self) -> None:
        """Close the file behind it too."""
        if not self.closed:
            self._stream.close()
        super().close()


def _refuse_cut(file: BinaryIO, library: ModuleType) -> None:
    """Refuse a file that ends inside a frame: zstandard takes that for the end of the text."""
    end = file.seek(0, io.SEEK_END)
    at = 0
    while at < end:
        file.seek(at)
        start = file.read(_LONGEST_HEADER)
        magic = int.from_bytes(start[:4], "little")
        if magic in _SKIPPED:
            at += 8 + int.from_bytes(start[4:8], "little")
        else:
            at = _end_of_frame(file, at, start, library)
    if at > end:
        raise EOFError("its last frame is cut off")


def _end_of_frame(file: BinaryIO, at: int, start: bytes, library: ModuleType) -> int:
    try:
        at += library.frame_header_size(start)
        checksum = 4 if library.get_frame_parameters(start).has_checksum else 0
    except library.ZstdError as error:
        raise OSError(str(error)) from error
    last = False
    while not last:
        file.seek(at)
        header = file.read(3)
        if len(header) < 3:
            raise EOFError("its last frame is cut off")
        bits = int.from_bytes(header, "little")
        last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
        at += 3 + (1 if kind == _ONE_BYTE_REPEATED else size)
    return at + checksum
