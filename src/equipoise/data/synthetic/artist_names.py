"""Invented artists: a name is two words that nobody put on a record sleeve, and a genre."""

from __future__ import annotations

from collections.abc import Sequence

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


def artist_names(genres: Sequence[str]) -> list[str]:
    """Return one unique name per entry, its genre in brackets; the same names for the same input.

    The two word lists have 30 and 31 words: stepping through both at once meets every pair before
    any comes back, since 30 and 31 have no common divisor. After that the names are numbered.

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
