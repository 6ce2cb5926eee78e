"""What the numbers mean: three headlines, and plain sentences.

Every effect is reported as measured, including effects that are absent or reversed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.audit.advice import Selection
from equipoise.audit.findings import Advice, DataSummary, Headline, Settings, Variant, Verdict
from equipoise.audit.formatting import Pair, count, goes, listed, moves, setting, signed, three
from equipoise.metrics.results import ALL

POPULAR, NICHE = "popular", "niche"

# Smaller relative changes count as none.
_SAME_WITHIN = 0.01

# The self-reconstructions of a projection add up to its rank, so a mean of 1 is the identity.
# Components stored as float32 reach it to about 1e-7; one component less takes off 1 / items.
_IDENTITY_WITHIN = 1e-6


def judge(
    data: DataSummary,
    settings: Settings,
    variants: Sequence[Variant],
    selection: Selection | None,
    advice: Advice,
) -> Verdict:
    """Describe the findings.

    Parameters
    ----------
    data : DataSummary
        The data.
    settings : Settings
        The audited setting.
    variants : sequence of Variant
        PCA first, then the others.
    selection : Selection or None
        What was tried on validation.
    advice : Advice
        The recommended setting.
    """
    compared = [each for each in variants if each.settings.items() <= settings.audited.items()]
    pca, ours = compared[0], next(each for each in compared if each.settings)
    write = _Writer(data, settings, pca, ours)
    sentences = (
        write.failing(),
        write.memorizing(),
        write.owning(),
        *write.comparing(),
        write.each_at_its_best(selection),
        *(write.other(each) for each in compared if each not in (pca, ours)),
    )
    return Verdict(
        (write.first(), write.second(), write.third(selection)),
        tuple(sentence for sentence in sentences if sentence),
        advice,
    )


class _Writer:
    """Sentences about PCA and Item-Weighted PCA at the audited setting."""

    def __init__(self, data: DataSummary, settings: Settings, pca: Variant, ours: Variant) -> None:
        self.data, self.settings, self.pca, self.ours = data, settings, pca, ours
        self.rank = f"rank {settings.size}"

    def value(self, variant: Variant, metric: str, group: str = ALL) -> float:
        """Return a mean at the audited size; nan if there is none."""
        if metric == "components_to_half":
            return variant.components_to_half[group]
        return float(variant.means[metric][group][variant.at(self.settings.size)])

    def pair(self, metric: str, group: str = ALL) -> Pair:
        """Return a mean of both models."""
        return Pair(self.value(self.pca, metric, group), self.value(self.ours, metric, group))

    def of_pca(self, metric: str) -> tuple[float, float]:
        """Return the means of popular and of niche items under PCA."""
        return self.value(self.pca, metric, POPULAR), self.value(self.pca, metric, NICHE)

    def same(self) -> bool:
        """Whether both models reproduce their input, so there is nothing to compare."""
        return min(self.pair("self_reconstruction")) > 1 - _IDENTITY_WITHIN

    def comparing(self) -> tuple[str, ...]:
        """What Item-Weighted PCA changes; one sentence if both are the same model."""
        if not self.same():
            return self.changing(), self.collaborating(), self.half_error(), self.accuracy()
        return (
            f"With {self.settings.size} components for {self.data.n_items} items PCA and "
            "Item-Weighted PCA are the same model: both return their input, and every item that a "
            "user has not touched has the score zero. Choose a smaller rank to compare them.",
        )

    def first(self) -> Headline:
        """Mechanism 1: components that niche items need."""
        popular, niche = self.of_pca("components_to_half")
        missed = self.pca.not_halved
        if np.isnan(popular) or np.isnan(niche) or popular == 0:
            number = count(self.pca.components_to_half[ALL], missed[ALL])
            return Headline(number, "components until PCA reconstructs half of an average item")
        if missed[POPULAR]:  # the ratio of two lower bounds is not a bound
            errors = self.of_pca("item_error")
            return Headline(
                f"{errors[1]:.0%}",
                f"of a niche item is not reconstructed by PCA of {self.rank}; of a popular one "
                f"{errors[0]:.0%}",
            )
        at_least, ratio = "≥ " if missed[NICHE] else "", niche / popular
        return Headline(
            f"{at_least}{ratio:.2g}×" if ratio < 10 else f"{at_least}{ratio:.0f}×",
            "as many components until PCA reconstructs half of a niche item "
            f"({count(niche, missed[NICHE])}) as of a popular one "
            f"({count(popular, missed[POPULAR])})",
        )

    def second(self) -> Headline:
        """Mechanism 2: items that are memorized."""
        known = not np.isnan(self.value(self.pca, "self_reconstruction", POPULAR))
        before, after = self.pair("self_reconstruction", POPULAR if known else ALL)
        what = "a popular item" if known else "an item"
        return Headline(
            f"{before:.0%}",
            f"of {what} is reconstructed from the item itself by PCA of {self.rank}, which does "
            f"not predict who else might like it; Item-Weighted PCA: {after:.0%}",
        )

    def third(self, selection: Selection | None) -> Headline:
        """Accuracy, each model at its best rank: a rank that suits one would favor it."""
        ndcg = f"NDCG@{self.settings.k} on held-out items with Item-Weighted PCA instead of PCA"
        if selection is not None:
            ranks, pair = self._at_best(selection)
            return Headline(
                signed(*pair),
                f"{ndcg} ({three(pair.before)} to {three(pair.after)}), each at its best rank on "
                f"validation: {ranks.before} for PCA, {ranks.after} for Item-Weighted PCA",
            )
        if self.same():
            return Headline(
                "none",
                f"difference between PCA and Item-Weighted PCA at {self.rank}: with as many "
                "components as items both return their input",
            )
        pair = self.pair("ndcg")
        if np.isnan(pair.before):
            pair = self.pair("item_auc")
            return Headline(
                signed(*pair),
                f"item AUC with Item-Weighted PCA instead of PCA ({three(pair.before)} to "
                f"{three(pair.after)}): how well other items predict who likes one",
            )
        return Headline(
            signed(*pair),
            f"{ndcg}, both at {self.rank} ({three(pair.before)} to {three(pair.after)})",
        )

    def failing(self) -> str:
        components = f"With {self.settings.size} components"
        popular, niche = self.of_pca("item_error")
        if np.isnan(popular) or np.isnan(niche):
            return (
                f"{components} PCA does not reconstruct {self.value(self.pca, 'item_error'):.0%} "
                "of an average item; there are too few items to compare popular and niche ones."
            )
        if abs(popular - niche) < _SAME_WITHIN:
            return (
                f"{components} PCA leaves the same share of niche and popular items "
                f"unreconstructed: {niche:.0%}."
            )
        verb = "fails niche items" if niche > popular else "fails popular items, not niche ones"
        return (
            f"PCA {verb}: with {self.settings.size} components {niche:.0%} of a niche item is not "
            f"reconstructed, of a popular one {popular:.0%}."
        )

    def memorizing(self) -> str:
        popular, niche = self.of_pca("self_reconstruction")
        if np.isnan(popular) or np.isnan(niche):
            return ""
        if min(popular, niche) > 1 - _SAME_WITHIN:
            return (
                "It reconstructs every item from itself: with so many components it recommends "
                "nothing new."
            )
        verb = "does not memorize" if popular <= niche else "memorizes"
        return (
            f"It {verb} popular items: {popular:.0%} of one is reconstructed from the item itself "
            f"(self-reconstruction), of a niche item {niche:.0%}."
        )

    def owning(self) -> str:
        owned, kept = len(self.pca.owned), len(self.ours.owned)
        if not owned and not kept:
            return "No component belongs to a single item, under PCA or Item-Weighted PCA."
        return (
            f"Of {self.settings.size} components, {owned} belong{'s' * (owned == 1)} to a single "
            f"item under PCA and {kept} under Item-Weighted PCA."
        )

    def changing(self) -> str:
        own = self.pair("self_reconstruction", POPULAR)
        parts = [moves("specialization", self.pair("specialization"))]
        if not np.isnan(own.before):
            parts.append(moves("the self-reconstruction of popular items", own))
        return f"Item-Weighted PCA ({setting(self.settings.weighting)}) {listed(parts)}."

    def collaborating(self) -> str:
        overall = self.pair("item_auc")
        if np.isnan(overall.before):
            return "Item AUC is not defined here: no item has users both with and without it."
        parts = [moves("item AUC, how well other items predict who likes one,", overall)]
        for group in (NICHE, POPULAR):
            pair = self.pair("item_auc", group)
            if not np.isnan(pair.before):
                parts.append(f"for {group} items it {goes(pair)}")
        return f"It {'; '.join(parts)}."

    def half_error(self) -> str:
        popular, niche = (self.pair("components_to_half", group) for group in (POPULAR, NICHE))
        if np.isnan(niche.before) or np.isnan(popular.before):
            return ""
        before, after = self.pca.not_halved, self.ours.not_halved
        error = self.pair("item_error", NICHE)
        worse = error.after > error.before * (1 + _SAME_WITHIN)
        remark = ": its weights favor similarity between items over reconstruction" if worse else ""
        return (
            f"Half of a niche item is reconstructed after {count(niche.before, before[NICHE])} "
            f"components of PCA and {count(niche.after, after[NICHE])} of Item-Weighted PCA, half "
            f"of a popular one after {count(popular.before, before[POPULAR])} and "
            f"{count(popular.after, after[POPULAR])}. Item-Weighted PCA "
            f"{moves('the error of niche items', error)}{remark}."
        )

    def accuracy(self) -> str:
        k = self.settings.k
        if np.isnan(self.pair("recall").before):
            return "Nothing could be held out, so the accuracy is unknown."
        parts = [
            moves(f"Recall@{k}", self.pair("recall")),
            moves(f"NDCG@{k}", self.pair("ndcg")),
            moves("the share of the catalog that is recommended to anyone", self.pair("coverage")),
            moves("the share of long-tail items in the lists", self.pair("aplt")),
        ]
        return f"On held-out items it {listed(parts)}."

    def each_at_its_best(self, selection: Selection | None) -> str:
        """A rank may suit one model and not the other: each at its best rank."""
        if selection is None:
            return ""
        ranks, pair = self._at_best(selection)
        return (
            f"Each at its best rank on validation ({ranks.before} for PCA, {ranks.after} for "
            f"Item-Weighted PCA), it {moves(f'NDCG@{self.settings.k}', pair)}."
        )

    def _at_best(self, selection: Selection) -> tuple[Pair, Pair]:
        """Return the best rank of each model on validation, and NDCG on held-out items there."""
        weighting, parameter = self.settings.weighting, self.settings.size_parameter
        both = (dict.fromkeys(weighting, 0.0), weighting)
        ranks = Pair(*(selection.best(each).settings[parameter] for each in both))
        scores = (
            float(variant.means["ndcg"][ALL][variant.sizes.index(int(rank))])
            for variant, rank in zip((self.pca, self.ours), ranks, strict=True)
        )
        return ranks, Pair(*scores)

    def other(self, variant: Variant) -> str:
        """The main numbers of another model; one from outside may have seen the held-out items."""
        given = variant.kind in ("factors", "scores", "model")
        size = variant.sizes[variant.at(self.settings.size)]
        at_rank = "" if variant.kind in ("scores", "model") else f" at rank {size}"
        found = [
            f"{name} {three(value)}"
            for name, value in (
                ("specialization", self.value(variant, "specialization")),
                ("item AUC", self.value(variant, "item_auc")),
            )
            if not np.isnan(value) or variant.kind != "model"
        ]
        recall = self.value(variant, "recall")
        if not np.isnan(recall):
            warning = " (too high if it was fitted on all data)" if given else ""
            found.append(f"Recall@{self.settings.k} {three(recall)}{warning}")
        return f"{variant.label}{at_rank}: {', '.join(found)}." if found else ""
