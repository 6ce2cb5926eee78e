"""All re-rankers by name, and specs such as ``"xquad:0.3,form=smooth"``.

A package registers a subclass of `equipoise.reranking.Reranker` under the entry point group
``equipoise.rerankers``::

    [project.entry-points."equipoise.rerankers"]
    my-reranker = "my_package.lists:MyReranker"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from equipoise.exceptions import InvalidParameterError
from equipoise.plugins import is_subclass_of, registered
from equipoise.reranking.base import Reranker
from equipoise.reranking.exposure import ExposureFloors
from equipoise.reranking.fair import FAIR
from equipoise.reranking.greedy import Calibrated, MarginalRelevance, XQuAD
from equipoise.reranking.popularity import PopularityCompensation, PopularityScaling

#: entry point group in which other packages register their re-rankers
ENTRY_POINTS = "equipoise.rerankers"

RERANKERS: Mapping[str, type[Reranker]] = {
    "compensation": PopularityCompensation,
    "scaling": PopularityScaling,
    "xquad": XQuAD,
    "fair": FAIR,
    "calibrated": Calibrated,
    "mmr": MarginalRelevance,
    "exposure": ExposureFloors,
}


def available() -> dict[str, type[Reranker]]:
    """Return every re-ranker by name: those of this package, then those of other packages."""
    return {**RERANKERS, **_of_other_packages()}


@cache
def _of_other_packages() -> dict[str, type[Reranker]]:
    kind = "a subclass of equipoise.reranking.Reranker"
    found = registered(ENTRY_POINTS, RERANKERS, kind, is_subclass_of(Reranker))
    return {name: loaded for name, (_, loaded) in found.items()}


def make_reranker(spec: str | Reranker) -> Reranker:
    """Return the re-ranker of a spec: ``name``, ``name:value`` or ``name:setting=value,…``.

    A value without a name is that of the first setting.

    Examples
    --------
    >>> make_reranker("xquad:0.3")
    XQuAD(strength=0.3, form='binary')
    >>> make_reranker("fair:p=0.4,length=10")
    FAIR(p=0.4, alpha=0.1, length=10, protected='')
    """
    if isinstance(spec, Reranker):
        return spec
    name, _, text = spec.partition(":")
    known = available()
    if name not in known:
        raise InvalidParameterError(f"unknown re-ranker {name!r}. Known: {', '.join(known)}.")
    chosen = known[name]
    settings = chosen.defaults()
    given: dict[str, Any] = {}
    for number, part in enumerate(filter(None, text.split(","))):
        setting, equals, value = part.partition("=")
        if not equals:
            setting, value = next(iter(settings), ""), part
        if setting not in settings or setting in given or (not equals and number):
            raise InvalidParameterError(
                f"{part!r} in {spec!r} is not a setting of {name}. "
                f"Write {name}:setting=value,… with: {', '.join(settings)}."
            )
        given[setting] = _typed(value, settings[setting], spec)
    return chosen(**given)


def _typed(text: str, default: Any, spec: str) -> Any:
    """Return a value of the type of the default."""
    try:
        return type(default)(text)
    except ValueError:
        kind = {int: "a whole number", float: "a number"}.get(type(default), "another value")
        raise InvalidParameterError(f"{text!r} in {spec!r} must be {kind}.") from None


def spec_of(reranker: str | Reranker) -> str:
    """Return the spec of a re-ranker with all its settings.

    Examples
    --------
    >>> spec_of(XQuAD(0.3))
    'xquad:strength=0.3,form=binary'
    """
    if isinstance(reranker, str):
        return reranker
    names = [name for name, one in available().items() if one is type(reranker)]
    if not names:
        raise InvalidParameterError(
            f"{type(reranker).__name__} has no name: register it under the entry point "
            f"{ENTRY_POINTS!r}."
        )
    settings = ",".join(f"{name}={value}" for name, value in reranker.settings().items())
    return f"{names[0]}:{settings}" if settings else names[0]
