"""The demo data: play counts of invented listeners with planted tastes and a shared mainstream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError

GENRES = (
    "dream pop",
    "desert rock",
    "chamber folk",
    "slow jazz",
    "night disco",
    "glass ambient",
    "brass funk",
    "harbour soul",
    "attic punk",
    "cloud rap",
    "iron metal",
    "paper techno",
)
MAINSTREAM = "mainstream"

_FIRST_WORDS = (
    "Velvet Amber Copper Quiet Hollow Crooked Borrowed Distant Saltwater Tangerine Marble Woollen "
    "Painted Patient Gilded Sleeping Wandering Unspoken Feathered Lacquered Thirteenth Winter "
    "Cobalt Drowsy Folded Polite Rusted Sudden Tilted Upward"
)
_SECOND_WORDS = (
    "Harbour Orchard Meridian Thicket Almanac Ferry Parlour Observatory Gazette Turnstile "
    "Lighthouse Pagoda Corridor Barometer Quarry Viaduct Sundial Cloakroom Estuary "
    "Weathervane Cartographer Semaphore Gondola Hinterland Kiosk Metronome Paddock "
    "Rotunda Tollbooth Windowsill Ropewalk"
)

# One artist in twenty is a hit: at rank 16 to 32 PCA then has a hit for nearly every component.
_HIT_SHARE = 0.05
# Share of hits among the artists of a listener (Beta distribution with mean 0.3)
_HIT_TASTE = (2.0, 14.0 / 3.0)
# Zipf exponent of popularity within a genre; the shift keeps the first artist from dominating
_ZIPF, _ZIPF_SHIFT = 0.8, 2.0
# Share of a listener's artists from outside their favorite genres
_LEAK = 0.05
_MEDIAN_ARTISTS, _FEWEST_ARTISTS = 26, 8
# Fans play a hit far more often (a Pareto tail). No other artist shares this variance, so it
# draws PCA's leading components to single hits.
_FAN_TAIL, _FAN_STRENGTH = 2.0, 0.8
_PLAYS_SPREAD, _MEDIAN_PLAYS = 0.8, 4


class _Artists(NamedTuple):
    genre: NDArray[np.intp]  # len(GENRES) for a hit
    appeal: NDArray[np.float64]  # genres (and hits) x artists: the artist's share


def listening(n_users: int = 2000, n_items: int = 600, seed: int = 0) -> Interactions:
    """Return play counts of invented listeners and artists.

    Each listener prefers one to three of twelve genres and also plays the mainstream; popularity
    and play counts have heavy tails. Fans of a hit play it very often, so each hit has a large
    variance. Plain PCA spends its leading components on single hits; item weighting
    spends them on genres.

    Parameters
    ----------
    n_users, n_items : int
        At least 1 listener and 60 artists. Memory grows with n_users × n_items.
    seed : int
        Same seed, same table.

    Examples
    --------
    >>> plays = listening(n_users=50, n_items=60, seed=1)
    >>> plays.shape, plays.user_ids[0], plays.item_ids[0]
    ((50, 60), 'listener-0001', 'artist-0001')
    """
    if n_users < 1 or n_items < 5 * len(GENRES):
        raise InvalidParameterError(
            f"listening needs at least 1 user and {5 * len(GENRES)} items (5 per genre), "
            f"got {n_users} and {n_items}."
        )
    rng = np.random.default_rng(seed)
    artists = _artists(n_items, rng)
    heard = _heard(artists.appeal, n_users, rng)
    users, items = np.nonzero(heard)
    plays = _plays(artists.genre[items] == len(GENRES), rng)
    labels = (*GENRES, MAINSTREAM)
    return Interactions.from_sparse(
        sparse.csr_array((plays, (users, items)), shape=(n_users, n_items)),
        user_ids=[f"listener-{number:04d}" for number in range(1, n_users + 1)],
        item_ids=[f"artist-{number:04d}" for number in range(1, n_items + 1)],
        item_names=artist_names([labels[genre] for genre in artists.genre]),
    )


def _artists(n_items: int, rng: np.random.Generator) -> _Artists:
    genre = rng.permutation(np.arange(n_items) % len(GENRES))
    genre[rng.choice(n_items, int(_HIT_SHARE * n_items), replace=False)] = len(GENRES)
    appeal = np.zeros((len(GENRES) + 1, n_items))
    for each in range(len(GENRES) + 1):
        members = rng.permutation(np.flatnonzero(genre == each))
        zipf = (np.arange(len(members)) + _ZIPF_SHIFT) ** -_ZIPF
        appeal[each, members] = zipf / zipf.sum()
    return _Artists(genre, appeal)


def _heard(
    appeal: NDArray[np.float64], n_users: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw each listener's artists without replacement (the Gumbel top-k trick)."""
    hits = rng.beta(*_HIT_TASTE, size=(n_users, 1))
    loved = _loved_genres(n_users, rng) @ appeal[:-1]
    chance = (1 - hits) * ((1 - _LEAK) * loved + _LEAK * appeal[:-1].mean(axis=0))
    chance += hits * appeal[-1]
    keys = np.log(chance) + rng.gumbel(size=chance.shape)
    artists_heard = _MEDIAN_ARTISTS * rng.lognormal(0.0, 0.5, n_users)
    count = np.clip(artists_heard.round(), _FEWEST_ARTISTS, appeal.shape[1] // 3).astype(int)
    descending = -np.sort(-keys, axis=1)
    threshold = np.take_along_axis(descending, count[:, None] - 1, axis=1)
    return keys >= threshold


def _loved_genres(n_users: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the share of each of one to three favorite genres, per listener."""
    love = rng.gamma(1.0, size=(n_users, 3)) + 0.15
    love[np.arange(3) >= rng.integers(1, 4, size=(n_users, 1))] = 0.0
    tastes = np.zeros((n_users, len(GENRES)))
    chosen = rng.random((n_users, len(GENRES))).argsort(axis=1)[:, :3]
    np.put_along_axis(tastes, chosen, love / love.sum(axis=1, keepdims=True), axis=1)
    return tastes


def _plays(is_hit: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.float64]:
    plays = rng.lognormal(0.0, _PLAYS_SPREAD, len(is_hit))
    fans = 1.0 + _FAN_STRENGTH * rng.pareto(_FAN_TAIL, len(is_hit))
    return np.ceil(_MEDIAN_PLAYS * plays * np.where(is_hit, fans, 1.0))


def artist_names(genres: Sequence[str]) -> list[str]:
    """Return one unique name per entry, followed by its genre; the same input, the same names.

    The word lists have 30 and 31 words, numbers without a common divisor. So stepping through both
    in parallel visits every pair before one repeats. After that the names are numbered.

    Examples
    --------
    >>> artist_names(["dream pop", "slow jazz"])
    ['Velvet Harbour (dream pop)', 'Amber Orchard (slow jazz)']
    """
    firsts, seconds = _FIRST_WORDS.split(), _SECOND_WORDS.split()
    pairs = len(firsts) * len(seconds)
    names = []
    for position, genre in enumerate(genres):
        first, second = firsts[position % len(firsts)], seconds[position % len(seconds)]
        edition = f" {position // pairs + 1}" if position >= pairs else ""
        names.append(f"{first} {second}{edition} ({genre})")
    return names
