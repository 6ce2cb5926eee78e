"""What the numbers mean: three headlines, plain sentences, and a setting to use.

Each effect is told as it was measured: an effect that is absent or goes the wrong way is said too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.audit.advice import advise
from equipoise.audit.choice import Choice
from equipoise.audit.findings import (
    Floats,
    Headline,
    Portrait,
    Settings,
    Variant,
    Verdict,
)
from equipoise.audit.fitting import key_of
from equipoise.audit.measuring import position_of
from equipoise.audit.phrases import Pair, count, goes, listed, moves, signed, three

# Changes of less than this, relatively, are called "about the same".
_SAME_WITHIN = 0.01

# The trace of a projector is its rank, so a mean diagonal of 1 is the identity. Components stored
# as float32 reach it to about 1e-7; one component less takes off 1 / items.
_IDENTITY_WITHIN = 1e-6


def judge(
    portrait: Portrait,
    settings: Settings,
    variants: Sequence[Variant],
    choice: Choice | None,
    *,
    normalized: bool,
) -> Verdict:
    """Say what was found.

    Parameters
    ----------
    portrait : Portrait
        The data.
    settings : Settings
        The rank and γ to speak of.
    variants : sequence of Variant
        PCA, Item-Weighted PCA at `settings.gamma`, and the others.
    choice : Choice or None
        What validation found best.
    normalized : bool
        Whether rows were divided by their sums, which the recommended call then has to do too.
    """
    by_key = {variant.key: variant for variant in variants}
    pca, ours = by_key["pca"], by_key[key_of(settings.gamma)]
    told = _Told(portrait, settings, pca, ours)
    others = [
        variant for variant in variants if variant.kind in ("normalized", "factors", "scores")
    ]
    sentences = (
        told.failing(),
        told.memorising(),
        told.owning(),
        *told.comparing(),
        told.each_at_its_best(choice),
        *(told.beside(variant) for variant in others),
    )
    return Verdict(
        (told.first(), told.second(), told.third(choice)),
        tuple(sentence for sentence in sentences if sentence),
        advise(portrait, settings, choice, normalized=normalized),
    )


class _Told:
    """Sentences about PCA and Item-Weighted PCA at the rank and γ of the settings."""

    def __init__(self, portrait: Portrait, settings: Settings, pca: Variant, ours: Variant) -> None:
        self.portrait, self.settings, self.pca, self.ours = portrait, settings, pca, ours
        self.at = position_of(settings.rank, pca.ranks)

    def pair(self, of: str, group: str = "all") -> Pair:
        """A number of both models at the rank of the settings."""
        return Pair(self.value(self.pca, of, group), self.value(self.ours, of, group))

    def value(self, variant: Variant, of: str, group: str = "all") -> float:
        at = position_of(self.settings.rank, variant.ranks)
        if of == "specialization":
            return float(variant.specialization[at])
        if of == "halving":
            return float(variant.halving[group])
        if of in variant.accuracy and group == "accuracy":
            return float(variant.accuracy[of][at])
        means: dict[str, Floats] = getattr(variant, of)
        return float(means[group][at])

    def same(self) -> bool:
        """Whether both models reproduce their input, which leaves nothing to compare."""
        return min(self.pair("diagonal")) > 1 - _IDENTITY_WITHIN

    def comparing(self) -> tuple[str, ...]:
        """What Item-Weighted PCA changes; one sentence where both are the same model."""
        if not self.same():
            return self.changing(), self.collaborating(), self.waiting(), self.accuracy()
        return (
            f"With {self.settings.rank} components for {self.portrait.n_items} items PCA and "
            "Item-Weighted PCA are the same model: both return their input, and every item that a "
            "user has not touched scores zero. Choose a smaller rank to compare them.",
        )

    def first(self) -> Headline:
        """Mechanism 1: who waits."""
        high, low = (self.value(self.pca, "halving", group) for group in ("popular", "niche"))
        if np.isnan(high) or np.isnan(low) or high == 0:
            number = count(self.value(self.pca, "halving"), self.pca.not_halved["all"])
            return Headline(number, "components until PCA has rebuilt half of an average item")
        if self.pca.not_halved["popular"]:  # a ratio of two lower bounds would bound nothing
            errors = [self.value(self.pca, "error", group) for group in ("niche", "popular")]
            return Headline(
                f"{errors[0]:.0%}",
                f"of a niche item is left unexplained by PCA of rank {self.settings.rank}; of a "
                f"popular one {errors[1]:.0%}",
            )
        at_least = "≥ " if self.pca.not_halved["niche"] else ""
        return Headline(
            f"{at_least}{low / high:.2g}×" if low / high < 10 else f"{at_least}{low / high:.0f}×",
            f"as many components until PCA has rebuilt half of a niche item "
            f"({count(low, self.pca.not_halved['niche'])}) as of a popular one "
            f"({count(high, self.pca.not_halved['popular'])})",
        )

    def second(self) -> Headline:
        """Mechanism 2: who is memorised."""
        group = "popular" if not np.isnan(self.value(self.pca, "diagonal", "popular")) else "all"
        before, after = self.pair("diagonal", group)
        what = "a popular item" if group == "popular" else "an item"
        return Headline(
            f"{before:.0%}",
            f"of {what} is copied from itself by PCA of rank {self.settings.rank}, which says "
            f"nothing about who else might like it; Item-Weighted PCA: {after:.0%}",
        )

    def third(self, choice: Choice | None) -> Headline:
        """What recommendations gain or lose; a rank that suits one model would flatter it."""
        if choice is not None:
            ranks, (before, after) = self._at_best(choice)
            return Headline(
                signed(before, after),
                f"NDCG@{self.settings.k} on held-out items with Item-Weighted PCA instead of PCA "
                f"({three(before)} to {three(after)}), each at the rank that validation prefers: "
                f"{ranks.before} for PCA, {ranks.after} for Item-Weighted PCA",
            )
        if self.same():
            return Headline(
                "none",
                f"difference between PCA and Item-Weighted PCA at rank {self.settings.rank}: with "
                "as many components as items both return their input",
            )
        before, after = self.pair("ndcg", "accuracy")
        if np.isnan(before):
            before, after = self.pair("auc")
            return Headline(
                signed(before, after),
                "item AUC with Item-Weighted PCA instead of PCA "
                f"({three(before)} to {three(after)}): how well other items tell who likes one",
            )
        return Headline(
            signed(before, after),
            f"NDCG@{self.settings.k} on held-out items with Item-Weighted PCA instead of PCA, "
            f"both at rank {self.settings.rank} ({three(before)} to {three(after)})",
        )

    def failing(self) -> str:
        rank, pca = self.settings.rank, self.pca
        high, low = (self.value(pca, "error", group) for group in ("popular", "niche"))
        if np.isnan(high) or np.isnan(low):
            return (
                f"With {rank} components PCA leaves {self.value(pca, 'error'):.0%} of an average "
                "item unexplained; there are too few items to tell popular from niche ones."
            )
        most, least = max(high, low), min(high, low)
        if most - least < _SAME_WITHIN:
            return (
                f"With {rank} components PCA leaves as much of a niche item unexplained as of a "
                f"popular one: {low:.0%}."
            )
        verb = "fails niche items" if low > high else "fails popular items, not niche ones"
        return (
            f"PCA {verb}: with {rank} components {low:.0%} of a niche item is left unexplained, "
            f"of a popular one {high:.0%}."
        )

    def memorising(self) -> str:
        high, low = (self.value(self.pca, "diagonal", group) for group in ("popular", "niche"))
        if np.isnan(high) or np.isnan(low):
            return ""
        if min(high, low) > 1 - _SAME_WITHIN:
            return "It copies every item from itself: so many components recommend nothing new."
        if high <= low:
            return (
                f"It does not memorise popular items: {high:.0%} of one is copied from itself, "
                f"of a niche item {low:.0%}."
            )
        return (
            f"It memorises popular items: {high:.0%} of one is copied from itself, "
            f"of a niche item {low:.0%}."
        )

    def owning(self) -> str:
        rank, owned, kept = self.settings.rank, len(self.pca.owned), len(self.ours.owned)
        if not owned and not kept:
            return "No component belongs to a single item, under PCA or Item-Weighted PCA."
        return (
            f"Of {rank} components, {owned} belong{'s' * (owned == 1)} to a single item under PCA "
            f"and {kept} under Item-Weighted PCA."
        )

    def changing(self) -> str:
        spec, copied = self.pair("specialization"), self.pair("diagonal", "popular")
        parts = [moves("specialization", spec)]
        if not np.isnan(copied.before):
            parts.append(moves("what popular items copy from themselves", copied))
        return f"Item-Weighted PCA (γ = {self.settings.gamma:g}) {listed(parts)}."

    def collaborating(self) -> str:
        auc = {group: self.pair("auc", group) for group in ("all", "niche", "popular")}
        if np.isnan(auc["all"].before):
            return "Item AUC is not defined here: no item has users both with and without it."
        groups = {"niche": "niche items", "popular": "popular ones"}
        parts = [moves("item AUC, how well other items tell who likes one,", auc["all"])]
        parts += [
            f"for {name} it {goes(auc[group])}"
            for group, name in groups.items()
            if not np.isnan(auc[group].before)
        ]
        return f"It {'; '.join(parts)}."

    def waiting(self) -> str:
        high, low = self.pair("halving", "popular"), self.pair("halving", "niche")
        if np.isnan(low.before) or np.isnan(high.before):
            return ""
        missed, still = self.pca.not_halved["niche"], self.ours.not_halved["niche"]
        left = self.pair("error", "niche")
        worse = left.after > left.before * (1 + _SAME_WITHIN)
        remark = ": its weights buy similarity between items, not reconstruction" if worse else ""
        return (
            f"Half of a niche item is rebuilt after {count(low.before, missed)} components of PCA "
            f"and {count(low.after, still)} of Item-Weighted PCA, half of a popular one after "
            f"{count(high.before, self.pca.not_halved['popular'])} and "
            f"{count(high.after, self.ours.not_halved['popular'])}. Item-Weighted PCA "
            f"{moves('the share of a niche item that is left unexplained', left)}{remark}."
        )

    def accuracy(self) -> str:
        k = self.settings.k
        recall, ndcg = self.pair("recall", "accuracy"), self.pair("ndcg", "accuracy")
        if np.isnan(recall.before):
            return "Nothing could be held out, so that accuracy is not known."
        coverage, tail = self.pair("coverage", "accuracy"), self.pair("aplt", "accuracy")
        parts = [
            moves(f"Recall@{k}", recall),
            moves(f"NDCG@{k}", ndcg),
            moves("the share of the catalogue that is recommended to anybody", coverage),
            moves("the share of long-tail items in the lists", tail),
        ]
        return f"On held-out items it {listed(parts)}."

    def each_at_its_best(self, choice: Choice | None) -> str:
        """A rank may suit one model and not the other: each at the rank validation prefers."""
        if choice is None:
            return ""
        ranks, pair = self._at_best(choice)
        return (
            f"Each at the rank that validation prefers ({ranks.before} for PCA, {ranks.after} for "
            f"Item-Weighted PCA), it {moves(f'NDCG@{self.settings.k}', pair)}."
        )

    def _at_best(self, choice: Choice) -> tuple[Pair, Pair]:
        """The rank that validation prefers for each model, and the NDCG on held-out items there."""
        ranks = Pair(choice.best_rank(0.0), choice.best_rank(self.settings.gamma))
        pair = Pair(
            float(self.pca.accuracy["ndcg"][self.pca.ranks.index(int(ranks.before))]),
            float(self.ours.accuracy["ndcg"][self.ours.ranks.index(int(ranks.after))]),
        )
        return ranks, pair

    def beside(self, variant: Variant) -> str:
        rank = variant.ranks[position_of(self.settings.rank, variant.ranks)]
        at_rank = "" if variant.kind == "scores" else f" at rank {rank}"
        found = [
            f"specialization {three(self.value(variant, 'specialization'))}",
            f"item AUC {three(self.value(variant, 'auc'))}",
        ]
        recall = self.value(variant, "recall", "accuracy")
        if not np.isnan(recall):
            seen = (
                "" if variant.kind == "normalized" else ", flattered if it was fitted on all data"
            )
            found.append(f"Recall@{self.settings.k} {three(recall)}{seen}")
        return f"{variant.label}{at_rank}: {', '.join(found)}."
