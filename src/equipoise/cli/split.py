"""`equipoise split DATA --out parts/`: write train, validation and test as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from equipoise.cli import console
from equipoise.cli.options import Data, DataOptions, HoldoutOptions, check_outputs, output


def split(
    data: Data,
    reading: DataOptions,
    splitting: HoldoutOptions,
    out: Annotated[Path, output("Write the files into this folder.", "DIR", "--out", "-o")],
) -> None:
    """Hold out interactions: write train, validation and test as Parquet, with their ids.

    Fit a model of your own on the training part. Other commands take the files as --train,
    --validation and --test.
    """
    outputs = {name: out / f"{name}.parquet" for name in ("train", "validation", "test", "history")}
    if out.is_dir():
        check_outputs(outputs, reading.files(data))
    parts = splitting.hold_out(reading.read(data))
    for path in parts.write(out):
        console.write(str(path))
    for line in parts.describe().splitlines():
        console.say(line)
