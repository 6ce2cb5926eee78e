"""§3.2 and §5.1: the two mechanisms of Figure 1, and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from equipoise.paper.claims.building import claim
from equipoise.paper.judging import Check, Measure, Outcome, number_check
from equipoise.paper.measurements import Evaluation, Measurements
from equipoise.paper.protocol import DATASETS, ITEM_RANK
from equipoise.paper.teaser import NAMED_ARTIST
from equipoise.paper.verdicts import Claim

_BOUND_OF_CLOSE_TO_ONE = 0.9
_BOUND_OF_DOWNWARD = -0.5


def mechanism_checks() -> Iterator[Check]:
    """Figure 1 and the table of data sets."""
    yield from _components_to_halve()
    yield from _error_curves()
    yield Check(
        _lastfm("popular-diagonal", "P_jj is close to 1 for popular artists at low rank", "1C",
                True, "mean P_jj of the high group at r = 30, at least 0.9"),
        _popular_diagonal("items"),
        _popular_diagonal("mass"),
    )  # fmt: skip
    yield from _data()


def _lastfm(name: str, what: str, panel: str, published: float | str | bool, how: str) -> Claim:
    return claim(name, "lastfm", what, f"§3.2, Figure {panel}", published, how)


def _components_to_halve() -> Iterator[Check]:
    how = "mean components until e_j ≤ 1/2, PCA of the whole matrix, {} by norm"
    yield number_check(
        _lastfm("halve-top", "components to halve the error, top 10 % of the artists", "1B",
                78, how.format("the first 152 artists")),
        0.5,
        lambda m: m.teaser.mean_halving("top"),
    )  # fmt: skip
    yield number_check(
        _lastfm("halve-bottom", "components to halve the error, bottom 10 %", "1B",
                455, how.format("the last 152 artists")),
        0.5,
        lambda m: m.teaser.mean_halving("bottom"),
        lambda m: m.teaser.mean_halving("not top"),
        lambda _: "the published code averages all artists but the top 10 %",
    )  # fmt: skip
    yield Check(
        _lastfm("downward", "the more popular the artist, the fewer components", "1B",
                True, "rank correlation of popularity and components to halve, below -0.5"),
        _downward,
    )  # fmt: skip


def _error_curves() -> Iterator[Check]:
    yield Check(
        _lastfm("claudia-leitte", f"{NAMED_ARTIST} stays above 20 % error until r > 1000", "1A",
                "> 1000", "first rank with e_j(r) < 0.2"),
        _named_artist,
    )  # fmt: skip
    yield Check(
        _lastfm("diminishing", "component r lowers the overall error by exactly σ_r²", "1A",
                True, "largest |drop - σ_r²| / ‖X‖² over all r, below 1e-9"),
        _diminishing,
    )  # fmt: skip
    yield Check(
        _lastfm("uneven", "single artists have no diminishing returns", "1A",
                True, "artists with a component that helps more than the one before it, over 99 %"),
        lambda m: Outcome(f"{m.teaser.uneven:.0%} of the artists", m.teaser.uneven > 0.99),
    )  # fmt: skip


def _named_artist(measurements: Measurements) -> Outcome:
    rank = measurements.teaser.components_below(NAMED_ARTIST, 0.2)
    return Outcome(rank, rank > 1000)


def _popular_diagonal(rule: str) -> Measure:
    def outcome(measurements: Measurements) -> Outcome:
        value = float(measurements.teaser.diagonal[rule]["high"][ITEM_RANK])
        return Outcome(value, value >= _BOUND_OF_CLOSE_TO_ONE)

    return outcome


def _downward(measurements: Measurements) -> Outcome:
    teaser = measurements.teaser
    popularity, halving = (
        np.argsort(np.argsort(v)).astype(np.float64) for v in (teaser.popularity, teaser.halving)
    )
    correlation = float(np.corrcoef(popularity, halving)[0, 1])
    return Outcome(correlation, correlation < _BOUND_OF_DOWNWARD)


def _diminishing(measurements: Measurements) -> Outcome:
    teaser = measurements.teaser
    drops = -np.diff(teaser.overall)[: len(teaser.spectrum)]
    off = float(np.abs(drops - teaser.spectrum).max())
    # rounded up to a power of ten: the last bits differ from processor to processor
    return Outcome(f"< {10.0 ** np.ceil(np.log10(max(off, 1e-16))):.0e}", off < 1e-9)


def _data() -> Iterator[Check]:
    for name, data in DATASETS.items():
        published = f"{data.n_users:,} × {data.n_items:,}, {data.n_entries:,} entries"
        yield Check(
            claim(f"size-{name}", name, f"size of the {data.title} matrix", "table of data sets",
                  published, "rows, columns and entries after the paper's preprocessing"),
            _size(name, published),
        )  # fmt: skip
    yield number_check(
        claim("top-artists", "lastfm", "artists kept of a user", "§5.1 (§3.2 says 25)", 50,
              "largest number of entries in a row"),
        0,
        lambda m: m.lastfm.most_items,
    )  # fmt: skip


def _size(dataset: str, published: str) -> Callable[[Measurements], Outcome]:
    def outcome(measurements: Measurements) -> Outcome:
        e: Evaluation = getattr(measurements, dataset)
        found = f"{e.n_users:,} × {e.n_items:,}, {e.n_entries:,} entries"
        return Outcome(found, found == published)

    return outcome
