"""Models with one interface: fit on users × items, recommend, explain, save, load.

Each name is imported when it is first used, so a missing extra matters only to its own model.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from equipoise.lazy import attach

if TYPE_CHECKING:
    from equipoise.models.base import Recommender

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["load"]


def load(path: str | PathLike[str], *, mmap: bool = False, verify: bool = True) -> Recommender:
    """Load a saved model of any class.

    Classes of other packages load if they are registered under the entry point
    ``equipoise.models``.

    Parameters
    ----------
    path : path
        A file that `Recommender.save` wrote.
    mmap : bool
        Keep large arrays in the pages of the file: they are read when they are used, and processes
        share them. The file may be replaced (as `save` does), not overwritten.
    verify : bool
        Compare every entry with its hash, and build the index of ids. Without, loading takes the
        same time for every size of the arrays, the index is built at the first use, and damage to
        the file goes unnoticed.
    """
    from equipoise.models.persistence import read_model

    return read_model(path, mmap=mmap, verify=verify).restore(path)
