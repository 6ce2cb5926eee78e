"""What a model file looks like: names, headers, hashes, and values as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from equipoise.exceptions import ArtefactError

JSONValue: TypeAlias = (
    "bool | int | float | str | list[JSONValue] | tuple[JSONValue, ...]"
    " | dict[str, JSONValue] | None"
)

FORMAT = "equipoise-model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
OBJECT = "object"
CSR_PARTS = ("data", "indices", "indptr", "shape")

MAX_DIMENSIONS = 32  # the most that every NumPy we support can hold


@dataclass(frozen=True)
class Artefact:
    """What a model file holds.

    Attributes
    ----------
    model : str
        Name of the model's class.
    parameters, scalars : dict
        Constructor arguments, and learned numbers.
    arrays : dict
        Learned arrays and ids; sparse matrices as ``csr_array``.
    version : str
        The version of equipoise that wrote the file.
    """

    model: str
    parameters: dict[str, Any]
    scalars: dict[str, Any]
    arrays: dict[str, Any]
    version: str


def storable(dtype: np.dtype[Any]) -> bool:
    """Tell plain dtypes of one width on every platform (so no long double) from the rest."""
    return (
        dtype.kind in "biufmMU"
        and dtype.itemsize > 0
        and (dtype.kind == "U" or dtype.itemsize <= 8)
    )


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Write the header of NumPy's format 1.0, padded as it asks to a multiple of 64 bytes.

    Ours, because NumPy's own padding has changed over its versions and equal models shall be
    equal bytes; and because to compare headers byte by byte is safer than to parse them.
    """
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode("latin1")
    padded = text + b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


def file_name(name: str, dtype: str) -> str:
    """Where an array stands in the zip."""
    return f"arrays/{name}.{'json' if dtype == OBJECT else 'npy'}"


def sha256_of(*pieces: bytes | memoryview) -> str:
    """Hash pieces as if they were one."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """One spelling for equal values: sorted keys, ASCII."""
    return json.dumps(value, sort_keys=True, indent=indent, allow_nan=False).encode("ascii")


def encode(value: Any, where: str) -> Any:
    """Write a value in JSON, tagging what JSON has no word for."""
    if type(value) is tuple:
        return {"$tuple": encode(list(value), where)}
    if type(value) is list:
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if type(value) is dict and all(type(k) is str and not k.startswith("$") for k in value):
        return {key: encode(item, f"{where}[{key!r}]") for key, item in value.items()}
    return encode_scalar(value, where)


def encode_scalar(value: Any, where: str) -> Any:
    """Write one plain value in JSON; `where` names it in the error."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or type(value) in (bool, float, str):
        return value
    # Python refuses to print integers of some thousand digits; ids need far fewer.
    if type(value) is int and value.bit_length() <= 4096:
        return value
    message = (
        f"{where} is of type {type(value).__name__}, which a model file cannot hold. "
        "Use None, bool, int (of at most 4096 bits), float or str."
    )
    raise ArtefactError(message)


def decode(value: Any) -> Any:
    """Read what `encode` wrote."""
    match value:
        case {"$float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case {"$tuple": [*items], **rest} if not rest:
            return tuple(decode(item) for item in items)
        case [*items]:
            return [decode(item) for item in items]
        case {**fields} if any(str(key).startswith("$") for key in fields):
            raise ValueError(f"the manifest holds an unknown tag in {value!r:.60}")
        case {**fields}:
            return {key: decode(item) for key, item in fields.items()}
    return value
