"""What a claim is, and what can be said of it once it has been measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The three things that can be said of a claim."""

    REPRODUCED = "reproduced"
    BY_CODE_ONLY = "reproduced by the published code's definition but not by the text's"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Claim:
    """Something that the paper asserts.

    Attributes
    ----------
    id : str
        A short name, e.g. ``"halve-top"``.
    what : str
        The assertion in words.
    where : str
        Where the paper makes it, e.g. ``"§3.2, Figure 1B"``.
    published : float, str or bool
        What the paper says.
    how : str
        How it is measured here.
    expected : Verdict
        What was found when this package was released. Losing a reproduced claim is a failure.
    dataset : str
        ``"lastfm"``, ``"movielens"``, ``"both"`` or ``"theory"``.
    """

    id: str
    what: str
    where: str
    published: float | str | bool
    how: str
    expected: Verdict = Verdict.REPRODUCED
    dataset: str = "theory"


@dataclass(frozen=True)
class Finding:
    """A claim, measured.

    Attributes
    ----------
    claim : Claim
        What was tested.
    measured : float, str or bool
        What came out, by the definition that the verdict speaks of.
    verdict : Verdict
        Whether it holds.
    note : str
        What a reader must know, e.g. where text and published code differ.
    """

    claim: Claim
    measured: float | str | bool
    verdict: Verdict
    note: str = ""

    @property
    def lost(self) -> bool:
        """Whether something that used to be reproduced no longer is."""
        kept = (Verdict.REPRODUCED, Verdict.BY_CODE_ONLY)
        return self.claim.expected in kept and self.verdict is not self.claim.expected

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"lost": self.lost}
