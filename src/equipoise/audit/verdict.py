"""The findings in words: the answer in three sentences, and everything that is stated.

Effects are reported as measured, including effects that are absent or reversed. What does not
exceed chance is not stated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from equipoise.audit.advice import rerank_command
from equipoise.audit.evidence import is_below
from equipoise.audit.findings import Advice, Findings, Variant, Verdict
from equipoise.audit.formatting import (
    Pair,
    between,
    count,
    geometry,
    goes,
    listed,
    moves,
    percent,
    three,
)
from equipoise.audit.group_section import GroupSection
from equipoise.audit.plan import AS_GIVEN, Preparation
from equipoise.metrics.results import ALL

POPULAR, NICHE = "popular", "niche"

# Metrics that may get worse: name, group, words.
_LOSSES = (
    ("recall", ALL, "recall"),
    ("coverage", ALL, "the share of the catalog that anyone is shown"),
    ("aplt", ALL, "the share of long-tail items in the lists"),
    ("item_auc", NICHE, "item AUC of niche items"),
    ("item_auc", POPULAR, "item AUC of popular items"),
)

# Smaller losses round to nothing in three places.
_SMALLEST_LOSS = 0.001

# The self-reconstructions of a projection add up to its rank, so a mean of 1 is the identity.
# Components stored as float32 reach it to about 1e-7; one component less takes off 1 / items.
_IDENTITY_WITHIN = 1e-6


class Answer(NamedTuple):
    """What is wrong, for whom, and what to do: one short paragraph each."""

    wrong: str
    whom: str
    advice: str


def answer(found: Findings) -> Answer:
    """Return the answer; what does not exceed chance is not stated."""
    return Answer(_wrong(found), _whom(found), _advice(found))


def judge(found: Findings, advice: Advice) -> Verdict:
    """Describe the findings; `found` has no verdict yet."""
    nothing = not any(each.stated for each in found.evidence if each.name != "structure")
    sentences = (
        f"Nothing is found beyond chance{_reason(found)}." if nothing else "",
        failing(found) if is_stated(found, "niche") else "",
        memorizing(found) if is_stated(found, "memorized") or _is_identity(found) else "",
        _owning(found),
        *(() if found.advised is found.subject else _comparing(found)),
        _each_at_its_best(found),
        *(_numbers_of(v, found.settings.k) for v in found.variants if v.key.startswith("given:")),
    )
    advice = replace(advice, why=advice.why + losses(found))
    return Verdict(tuple(sentence for sentence in sentences if sentence), advice)


def is_stated(found: Findings, name: str) -> bool:
    """Whether a finding exceeds chance."""
    return any(each.stated for each in found.evidence if each.name == name)


def name_of(variant: Variant) -> str:
    """Return a short name of a model for a sentence: "PCA on 0/1 values"."""
    if variant.key.startswith("given:"):
        return variant.label
    title, *details = variant.label.split(", ")
    if not details or variant.kind == "as-given":
        return title
    values, *scaling = details
    scaled = "".join(f" with {each}" for each in scaling)
    return f"{title}{scaled}" if values == str(AS_GIVEN) else f"{title} on {values}{scaled}"


def _reason(found: Findings) -> str:
    reason = next((e.why_not for e in found.evidence if e.name == "structure"), "")
    return f": {reason}" if reason else ""


# -------------------------------------------------------------------------------- three sentences


def _wrong(found: Findings) -> str:
    subject, name = found.subject, name_of(found.subject)
    parts = []
    if is_stated(found, "niche"):
        error = subject.intervals["item_error"]
        niche, popular = error[NICHE], error[POPULAR]
        if niche.mean <= 1:
            parts.append(
                f"{name} captures {percent(niche, rest=True)} of the audience of a niche item, but "
                f"{1 - popular.mean:.0%} of that of a popular one ({_means_of(found)})."
            )
        else:  # of more than everything, a share has no meaning
            parts.append(
                f"{name} predicts niche items worse than no prediction: item error "
                f"{three(niche.mean)} ({between(niche)}), of popular items {three(popular.mean)} "
                f"({_means_of(found)})."
            )
    if is_stated(found, "memorized"):
        own = percent(subject.intervals["self_reconstruction"][POPULAR])
        whose = "what it captures of a popular item" if parts else f"a popular item in {name}"
        parts.append(f"Of {whose}, {own} is memorized: it only repeats who has the item.")
    if is_stated(found, "owned") and len(parts) < 2:
        parts.append(
            f"Of the {subject.size} components of {name}, {len(subject.owned)} describe one item "
            "each."
        )
    if parts and is_stated(found, "preparation"):
        parts.append("Part of this comes from the raw values, not from the model.")
    if parts:
        return " ".join(parts)
    if subject.kind in ("lists", "model"):
        shown = found.subject.mean("coverage")
        users = subject.intervals.get("recall", {}).get(ALL)
        seen = "" if users is None else f" of {users.n_users:,} users"
        return (
            f"{1 - shown:.0%} of the catalog is in none of the lists{seen}. Lists alone do not "
            "show how items are represented."
        )
    if found.verdict.advice.gain is not None and found.advised is not subject:
        return f"{name} is less accurate than it could be. Its items show no harm beyond chance."
    return f"Nothing is wrong with {name} beyond chance{_reason(found)}."


def _means_of(found: Findings) -> str:
    sizes = {group.name: group.n_items for group in found.data.groups}
    return f"means of {sizes[NICHE]:,} and {sizes[POPULAR]:,} items"


def _whom(found: Findings) -> str:
    sentences = [_least(section, found) for section in found.groups]
    stated = [sentence for sentence in sentences if sentence]
    if stated:
        return " ".join(stated)
    niche, nobody = found.data.groups[-1], "No group gets less than its share beyond chance."
    if not niche.n_items:
        return nobody
    return (
        f"{nobody} The {niche.n_items:,} {niche.name} items have {niche.share:.0%} of the "
        "interactions."
    )


def _least(section: GroupSection, found: Findings) -> str:
    """Name the group that gets least, if that exceeds chance."""
    numbers = section.numbers.get(found.subject_key, {})
    # in noise, PCA shows popular items too; a given model is what users see, whatever the data
    if not (is_stated(found, "structure") or found.subject_key.startswith("given:")):
        return ""
    limits = {"items": ("exposure_relative", 1.0), "users": ("ndcg_difference", 0.0)}
    measure, limit = limits[section.of]
    by_group = numbers.get(measure, {}).items()
    less = {g: v for g, v in by_group if g != ALL and is_below(v, limit)}
    if not less:
        return ""
    name = min(less, key=lambda group: less[group].mean)
    group = next(each for each in section.groups if each.name == name)
    if section.of == "users":
        who = f"Users of “{name}”"
        if section.rule == "activity":
            last = name == section.groups[-1].name
            who = "The least active users" if last else f"Users of {name}"
        low, high = -less[name].high, -less[name].low
        return (
            f"{who} get less accurate lists: NDCG {-less[name].mean:.3f} ({low:.3f} to {high:.3f}) "
            "below that of all users."
        )
    whose = f"{name} items" if section.rule == "popularity" else f"items of “{name}”"
    return (
        f"The {group.size:,} {whose} are {group.share:.0%} of the catalog and get "
        f"{percent(numbers['exposure'][name], 1)} of the attention in the lists."
    )


def _advice(found: Findings) -> str:
    advice, subject, advised = found.verdict.advice, found.subject, found.advised
    if advice.keep or advised is subject:
        tried = "no model that was tried is more accurate beyond chance"
        if len(found.contest) < 2:
            tried = "there is no validation part to choose another one on"
        return f"Keep {name_of(subject)}: {tried}.{_reranking(found)}"
    chosen, ndcg = name_of(advised), f"NDCG@{found.settings.k}"
    cost = losses(found)
    if advice.score is None:
        return f"Try {chosen}. Nothing could be held out to measure its accuracy.{cost}"
    if advice.gain is None:
        return (
            f"Compare before you change: {name_of(subject)} saw the held-out items, so whether "
            f"{chosen} ({ndcg} {three(advice.score.mean)}, {between(advice.score)}) is better is "
            f"not known. Fit {name_of(subject)} on the training part (equipoise split), and audit "
            f"it with --train, --validation and --test.{cost}"
        )
    before = advice.score.mean - advice.gain.mean
    return (
        f"Use {chosen}: it finds more of what users go on to choose, {ndcg} {three(before)} → "
        f"{three(advice.score.mean)} (by {between(advice.gain)}).{_pca_at_its_best(found)}{cost}"
        f"{_more_long_tail(found)}"
    )


def _pca_at_its_best(found: Findings) -> str:
    """Return the fair comparison, where PCA of values as given is audited and another model wins.

    How much of the gain is due to the values, and how much to the model, is visible only so.
    """
    if found.subject.kind != "as-given" or found.verdict.advice.model == "pca":
        return ""
    best = next((each for each in found.contest[1:] if each.model == "pca"), None)
    if best is None or best.test is None:
        return ""
    prepared = Preparation.of(best.settings)
    return f" PCA at its best, on {prepared}, reaches {three(best.test.mean)}."


def _more_long_tail(found: Findings) -> str:
    """Return what shows more long-tail items, where the advised model shows fewer."""
    offer, before, after = (
        found.mitigation,
        *(v.mean("aplt") for v in (found.subject, found.advised)),
    )
    if isinstance(offer, str) or not after < before - _SMALLEST_LOSS:
        return ""
    return (
        f" To show more long-tail items instead, re-rank the lists of {name_of(found.subject)}: "
        f"--rerank {offer.spec} raises their share from {offer.tail_before:.1%} to "
        f"{offer.tail_before + offer.tail.mean:.1%}, for {offer.ndcg.mean:+.4f} NDCG@{offer.k}."
    )


def _reranking(found: Findings) -> str:
    """Return what shows more long-tail items if the model is kept; empty if none are left out."""
    if not _few_niche_items_shown(found):
        return ""
    offer, advice = found.mitigation, found.verdict.advice
    if isinstance(offer, str):
        return f" This advice is by accuracy alone: niche items stay left out. {offer}"
    first = (
        "Fit it with the command below"
        if advice.model
        else "Save longer lists, e.g. 100 items (columns user, item, score), as lists.csv"
    )
    return (
        f" To show more long-tail items, re-rank its lists: {offer.spec} {offer.change}. {first}, "
        f"then run `{rerank_command(found)}`."
    )


def _few_niche_items_shown(found: Findings) -> bool:
    """Whether a popularity group gets less attention than its share, beyond chance."""
    popularity = (each for each in found.groups if (each.of, each.rule) == ("items", "popularity"))
    return any(_least(section, found) for section in popularity)


def losses(found: Findings) -> str:
    """Return what the advised model makes worse, as a sentence; empty if nothing."""
    worse = []
    for metric, group, words in _LOSSES:
        before, after = (v.mean(metric, group) for v in (found.subject, found.advised))
        if after < before - _SMALLEST_LOSS:
            worse.append(f"{words} {three(before)} → {three(after)}")
    lowered = f"lowers {listed(worse)}" if worse else ""
    before, after = (v.mean("item_error", NICHE) for v in (found.subject, found.advised))
    raised = ""
    if after > before + _SMALLEST_LOSS:
        raised = f"raises the item error of niche items {three(before)} → {three(after)}"
    changes = [each for each in (lowered, raised) if each]
    return f" It {' and '.join(changes)}." if changes else ""


# ---------------------------------------------------------------------------------- all findings


def _at_rank(variant: Variant) -> str:
    return f" of rank {variant.size}" if variant.has_components else ""


def _is_identity(found: Findings) -> bool:
    """Whether the subject reproduces its input."""
    return found.subject.mean("self_reconstruction") > 1 - _IDENTITY_WITHIN


def failing(found: Findings) -> str:
    """Mechanism 1: niche items."""
    subject = found.subject
    if not is_stated(found, "niche"):
        return (
            f"How much {subject.label} reconstructs of niche and of popular items does not differ "
            f"beyond chance.{' Its lists leave niche items out.' * _few_niche_items_shown(found)}"
        )
    popular, niche = (subject.intervals["item_error"][g] for g in (POPULAR, NICHE))
    return (
        f"{subject.label}{_at_rank(subject)} fails niche items: {percent(niche)} of a niche item "
        f"is not reconstructed, of a popular one {percent(popular)}."
    )


def memorizing(found: Findings) -> str:
    """Mechanism 2: items that are memorized."""
    subject = found.subject
    if _is_identity(found):
        return (
            f"{subject.label}{_at_rank(subject)} reconstructs every item from itself: with so many "
            "components it recommends nothing new. Choose a smaller rank."
        )
    if not is_stated(found, "memorized"):
        return f"{subject.label} memorizes no popular items beyond chance."
    own = subject.intervals["self_reconstruction"]
    text = (
        f"{subject.label} memorizes popular items: {percent(own[POPULAR])} of one is reconstructed "
        f"from the item itself (self-reconstruction), of a niche item {percent(own[NICHE])}."
    )
    other = found.advised.intervals.get("self_reconstruction", {}).get(POPULAR)
    if found.advised is subject or other is None or np.isnan(other.mean):
        return text
    return f"{text} {found.advised.label}: {percent(other)} of a popular item."


def _owning(found: Findings) -> str:
    """Components of single items, and whether the values explain them."""
    if not is_stated(found, "owned"):
        return ""
    owned = len(found.subject.owned)
    text = (
        f"Of its {found.subject.size} components, {owned} belong{'s' * (owned == 1)} to a single "
        "item."
    )
    if not is_stated(found, "preparation"):
        return text
    pca = found.variant("pca")
    kept = len(pca.owned)
    return (
        f"{text} The preparation of the values explains this: on {found.settings.preparation} PCA "
        f"has {kept or 'no'} owned component{'s' * (kept != 1)} at rank {pca.size}."
    )


def _comparing(found: Findings) -> tuple[str, ...]:
    """What the advised model changes."""
    before, after = found.subject, found.advised

    def pair(metric: str, group: str = ALL) -> Pair | None:
        both = Pair(before.mean(metric, group), after.mean(metric, group))
        return None if np.isnan(both).any() else both

    def moved(parts: list[tuple[str, Pair | None]]) -> list[str]:
        return [moves(title, both) for title, both in parts if both is not None]

    items = moved(
        [
            ("the self-reconstruction of popular items", pair("self_reconstruction", POPULAR)),
            ("item AUC, how well other items predict who has one,", pair("item_auc")),
        ]
    )
    by_group = ((group, pair("item_auc", group)) for group in (NICHE, POPULAR))
    items += [f"for {group} items it {goes(both)}" for group, both in by_group if both is not None]
    lists = moved(
        [
            (f"Recall@{found.settings.k}", pair("recall")),
            ("the share of the catalog that is recommended to anyone", pair("coverage")),
            ("the share of long-tail items in the lists", pair("aplt")),
        ]
    )
    niche, popular = (pair("components_to_half", group) for group in (NICHE, POPULAR))
    half = ""
    if niche is not None and popular is not None:
        counts = [
            count(mean, variant.not_halved[group])
            for group, both in ((NICHE, niche), (POPULAR, popular))
            for mean, variant in zip(both, (before, after), strict=True)
        ]
        half = (
            f"Half of a niche item is reconstructed after {counts[0]} components of "
            f"{before.label} and {counts[1]} of {after.label}, half of a popular one after "
            f"{counts[2]} and {counts[3]}."
        )
    return (
        f"{after.label} {'; '.join(items)}." if items else "",
        half,
        f"It {listed(lists)}." if lists else "",
    )


def _each_at_its_best(found: Findings) -> str:
    """The fair comparison: every model at its best preparation and setting."""
    tested = [e for e in found.contest if e.test is not None]
    if len(tested) < 2:
        return ""
    parts = [f"{e.title} {e.test.mean:.3f} ({between(e.test)})" for e in tested if e.test]
    ndcg = f"NDCG@{found.settings.k} on held-out items"
    return f"{ndcg}, each at its best on validation: {', '.join(parts)}."


def _numbers_of(variant: Variant, k: int) -> str:
    """The main numbers of a given model."""
    metrics = {
        "specialization": "specialization",
        "item_auc": "item AUC",
        "recall": f"Recall@{k}",
        **geometry([variant]),
    }
    values = ((title, variant.mean(metric)) for metric, title in metrics.items())
    parts = [f"{title} {three(value)}" for title, value in values if not np.isnan(value)]
    if variant.no_accuracy:
        parts.append(f"no accuracy, because {variant.no_accuracy}")
    return f"{variant.label}{_at_rank(variant)}: {', '.join(parts)}." if parts else ""
