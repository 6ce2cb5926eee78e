"""The findings in words: the answer in three sentences.

Effects are reported as measured, including effects that are absent or reversed. What does not
exceed chance is not stated.
"""

from __future__ import annotations

from typing import NamedTuple

from equipoise.audit.advice import rerank_command
from equipoise.audit.evidence import NICHE, POPULAR, is_below
from equipoise.audit.findings import Findings, Variant
from equipoise.audit.formatting import between, percent, symbol, three
from equipoise.audit.group_section import GroupSection
from equipoise.audit.plan import AS_GIVEN, Preparation
from equipoise.metrics.results import ALL

# Metrics that may get worse: name, group, how, words.
_LOSSES = (
    ("recall", ALL, "lowers", "recall"),
    ("coverage", ALL, "lowers", "the share of the catalog that anyone is shown"),
    ("aplt", ALL, "lowers", "the share of long-tail items in the lists"),
    ("item_auc", NICHE, "lowers", "item AUC of niche items"),
    ("item_auc", POPULAR, "lowers", "item AUC of popular items"),
    ("item_error", NICHE, "raises", "the item error of niche items"),
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
    scaled = f" with {' and '.join(scaling)}" if scaling else ""
    return f"{title}{scaled}" if values == str(AS_GIVEN) else f"{title} on {values}{scaled}"


def _reason(found: Findings) -> str:
    reason = next((e.why_not for e in found.evidence if e.name == "structure"), "")
    return f": {reason}" if reason else ""


# -------------------------------------------------------------------------------- three sentences


def _wrong(found: Findings) -> str:
    subject, name = found.subject, name_of(found.subject)
    parts = [failing(found)] if is_stated(found, "niche") else []
    if is_stated(found, "memorized") or _is_identity(found):
        parts.append(memorizing(found))
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
        n_items = found.data.n_items
        missing = round((1 - subject.mean("coverage")) * n_items)
        users = subject.intervals.get("recall", {}).get(ALL)
        seen = "" if users is None else f" of {users.n_users:,} users"
        verb = "is" if missing == 1 else "are"
        return (
            f"{f'{missing:,}' if missing else 'None'} of the {n_items:,} items {verb} missing from "
            f"all lists{seen}. Lists alone do not show how items are represented."
        )
    if found.advice.gain is not None and found.advised is not subject:
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
    advice, subject, advised = found.advice, found.subject, found.advised
    if advice.keep or advised is subject:
        tried = "no model that was tried is more accurate beyond chance"
        if len(found.contest) < 2:
            tried = "there is no validation part to choose another one on"
        return f"Keep {name_of(subject)}: {tried}.{_reranking(found)}"
    chosen, ndcg = name_of(advised), f"NDCG@{found.settings.k}"
    cost = f"{_losses(found)}{_edge(found)}"
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
        f"Use {chosen}, the best of {len(found.contest) - 1} models on validation: it finds more "
        f"of what users go on to choose, {ndcg} {three(before)} → {three(advice.score.mean)} (by "
        f"{between(advice.gain)}).{_pca_at_its_best(found)}{cost}{_more_long_tail(found)}"
    )


def _pca_at_its_best(found: Findings) -> str:
    """Return the fair comparison, where PCA of values as given is audited and another model wins.

    How much of the gain is due to the values, and how much to the model, is visible only so.
    """
    if found.subject.kind != "as-given" or found.advice.model == "pca":
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
        f"--rerank {offer.spec} {offer.change}."
    )


def _reranking(found: Findings) -> str:
    """Return what shows more long-tail items if the model is kept; empty if none are left out."""
    if not _few_niche_items_shown(found):
        return ""
    offer, advice = found.mitigation, found.advice
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


def _edge(found: Findings) -> str:
    """Return a warning about settings whose best value is the last that was tried."""
    reached = " and ".join(map(symbol, found.advice.edge))
    return f" Its {reached} is at the edge of what was tried: try beyond." if reached else ""


def _losses(found: Findings) -> str:
    """Return what the advised model makes worse, as a sentence; empty if nothing."""
    worse: dict[str, list[str]] = {}
    for metric, group, how, words in _LOSSES:
        before, after = (v.mean(metric, group) for v in (found.subject, found.advised))
        if (after - before if how == "raises" else before - after) > _SMALLEST_LOSS:
            worse.setdefault(how, []).append(f"{words} {three(before)} → {three(after)}")
    changes = [f"{how} {', '.join(each)}" for how, each in worse.items()]
    return f" {name_of(found.advised)} {' and '.join(changes)}." if changes else ""


# --------------------------------------------------------------------------------- two mechanisms


def _is_identity(found: Findings) -> bool:
    """Whether the subject reproduces its input."""
    return found.subject.mean("self_reconstruction") > 1 - _IDENTITY_WITHIN


def failing(found: Findings) -> str:
    """Mechanism 1: niche items."""
    name = name_of(found.subject)
    if not is_stated(found, "niche"):
        return (
            f"How much {name} reconstructs of niche and of popular items does not differ beyond "
            f"chance.{' Its lists leave niche items out.' * _few_niche_items_shown(found)}"
        )
    error = found.subject.intervals["item_error"]
    niche, popular = error[NICHE], error[POPULAR]
    if niche.mean <= 1:
        return (
            f"{name} captures {percent(niche, rest=True)} of the audience of a niche item, but "
            f"{1 - popular.mean:.0%} of that of a popular one ({_means_of(found)})."
        )
    return (  # of more than everything, a share has no meaning
        f"{name} predicts niche items worse than no prediction: item error {three(niche.mean)} "
        f"({between(niche)}), of popular items {three(popular.mean)} ({_means_of(found)})."
    )


def memorizing(found: Findings) -> str:
    """Mechanism 2: items that are memorized."""
    name = name_of(found.subject)
    if _is_identity(found):
        return (
            f"{name} reconstructs every item from itself: with so many components it recommends "
            "nothing new. Choose a smaller rank."
        )
    if not is_stated(found, "memorized"):
        return f"{name} memorizes no popular items beyond chance."
    own = found.subject.intervals["self_reconstruction"]
    return (
        f"Of what {name} captures of a popular item, {percent(own[POPULAR])} is memorized: it only "
        f"repeats who has the item. Of a niche item, {percent(own[NICHE])}."
    )
