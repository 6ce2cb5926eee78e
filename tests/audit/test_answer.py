"""The answer in three sentences, and the terms that they use."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape, unescape

import pytest

from equipoise.audit import to_markdown
from equipoise.audit.advice import rerank_command
from equipoise.audit.findings import Evidence, Findings, Mitigation
from equipoise.audit.formatting import TERMS, mark_terms
from equipoise.audit.report import render
from equipoise.audit.report.payload import payload
from equipoise.audit.verdict import answer, failing, name_of
from equipoise.metrics import Results
from equipoise.metrics.intervals import Interval
from tests.browser import fakes


def interval(mean: float) -> Interval:
    return Interval(mean, mean - 0.02, mean + 0.03, 0.95, 50)


def stated(findings: Findings, *names: str) -> Findings:
    """The same findings, of which only these are stated."""
    known = ("structure", "niche", "memorized", "owned", "preparation")
    evidence = tuple(Evidence(n, interval(0.4), 0.1, n in names, "too few items") for n in known)
    intervals = {
        metric: {"popular": interval(high), "niche": interval(low)}
        for metric, high, low in (("item_error", 0.1, 0.8), ("self_reconstruction", 0.9, 0.2))
    }
    variants = tuple(replace(each, intervals=intervals) for each in findings.variants)
    return replace(findings, evidence=evidence, variants=variants)


@pytest.fixture(scope="module")
def findings() -> Findings:
    return fakes.findings()


def test_what_is_wrong_has_both_groups_in_one_sentence_with_intervals(findings):
    found = answer(stated(findings, "niche", "memorized")).wrong
    niche = "PCA captures 20% (17% to 22%) of the audience of a niche item"
    rest = "but 90% of that of a popular one (means of 40 and 10 items)."
    assert found.startswith(f"{niche}, {rest}")
    assert "90% (88% to 93%) is memorized" in found


def test_nothing_is_wrong_beyond_chance_if_nothing_is_stated(findings):
    kept = replace(stated(findings), advised_key=findings.subject_key)
    found = answer(kept).wrong
    assert "Nothing is wrong with PCA beyond chance" in found
    assert "too few items" in found


def test_a_better_model_is_not_called_nothing(findings):
    assert answer(stated(findings)).wrong.startswith("PCA is less accurate than it could be.")


def test_values_that_explain_the_failure_are_named(findings):
    assert "comes from the raw values" in answer(stated(findings, "niche", "preparation")).wrong
    assert "raw values" not in answer(stated(findings, "niche")).wrong


def test_for_whom_names_the_group_that_gets_least_if_the_interval_says_so(findings):
    items, users = findings.groups
    found = answer(stated(findings, "structure")).whom
    name = min(items.numbers["pca"]["exposure_relative"].items(), key=lambda pair: pair[1].mean)[0]
    assert f"items of “{name}”" in found
    assert "of the attention in the lists" in found
    less = {"old": Interval(-0.05, -0.07, -0.03, 0.95, 50), "young": interval(0.04)}
    numbers = {key: {**by, "ndcg_difference": less} for key, by in users.numbers.items()}
    found = answer(
        stated(replace(findings, groups=(items, replace(users, numbers=numbers))), "structure")
    ).whom
    assert "“old” get less accurate lists" in found
    assert "NDCG 0.050 (0.030 to 0.070) below" in found


def test_no_group_is_named_where_the_data_have_no_structure(findings):
    """In noise, PCA shows popular items more, and some users get better lists by luck."""
    assert answer(stated(findings)).whom.startswith("No group gets less than its share")
    given = replace(fakes.findings(files=["mine"]), subject_key="given:0")
    assert "of the attention in the lists" in answer(stated(given)).whom


def test_a_group_whose_interval_reaches_its_share_is_not_named(findings):
    items = findings.groups[0]
    enough = {"indie": interval(0.99), "major": interval(1.2)}
    numbers = {key: {**by, "exposure_relative": enough} for key, by in items.numbers.items()}
    section = replace(items, numbers=numbers)
    assert "indie" not in answer(stated(replace(findings, groups=(section,)))).whom


def test_what_to_do_has_gain_and_losses_in_one_sentence(findings):
    advice = replace(
        findings.advice,
        keep=False,
        score=interval(0.3),
        gain=Interval(0.1, 0.08, 0.12, 0.95, 9),
    )
    better = replace(findings, advice=advice)
    found = answer(stated(better)).advice
    assert "Use Item-Weighted PCA" in found
    assert "NDCG@5 0.200 → 0.300 (by 0.080 to 0.120)" in found
    before, after = better.subject.mean("recall"), better.advised.mean("recall")
    assert f"Item-Weighted PCA lowers recall {before:.3f} → {after:.3f}" in found
    unknown = replace(advice, gain=None)
    assert "saw" in answer(stated(replace(better, advice=unknown))).advice
    keep = replace(advice, keep=True)
    assert answer(stated(replace(better, advice=keep))).advice.startswith("Keep PCA")
    edge = replace(advice, edge=("gamma",))
    text = answer(stated(replace(better, advice=edge))).advice
    assert "γ is at the edge of what was tried" in text


def test_what_gets_worse_names_the_advised_model_after_a_sentence_about_another(findings):
    advice = replace(findings.advice, keep=False, score=interval(0.3), gain=None)
    text = answer(stated(replace(findings, advice=advice))).advice
    assert "Fit PCA on the training part" in text
    assert " Item-Weighted PCA lowers recall" in text


@pytest.mark.parametrize(
    ("coverage", "missing"),
    [(1.0, "None of the 60 items are"), (59 / 60, "1 of the 60 items is"), (0.95, "3 of the 60")],
)
def test_items_in_no_list_are_counted(findings, coverage, missing):
    data = replace(findings.data, n_items=60)
    rows = [
        replace(row, value=coverage) if row.metric == "coverage" else row
        for row in findings.subject.results
    ]
    lists = replace(findings.subject, kind="lists", results=Results(rows))
    others = tuple(v for v in findings.variants if v.key != lists.key)
    found = stated(replace(findings, data=data, variants=(lists, *others)))
    assert answer(found).wrong.startswith(missing)


def kept(findings: Findings, mitigation: Mitigation | str, *, model: str) -> Findings:
    """The subject is kept, and its popularity group “indie” is left out."""
    advice = replace(findings.advice, keep=True, model=model, source="my plays.csv")
    items = replace(findings.groups[0], rule="popularity")
    return replace(
        findings,
        advice=advice,
        groups=(items,),
        mitigation=mitigation,
    )


OFFER = Mitigation(
    "fair:0.2",
    14,
    Interval(0.08, 0.07, 0.09, 0.95, 900),
    0.002,
    Interval(-0.0114, -0.013, -0.01, 0.95, 900),
    0.389,
    20,
)


@pytest.mark.medium
def test_a_kept_model_that_leaves_niche_items_out_comes_with_a_re_ranking_and_its_price(findings):
    found = kept(findings, OFFER, model="pca")
    text = answer(stated(found, "structure")).advice
    assert text.startswith("Keep PCA: no model that was tried is more accurate beyond chance. ")
    assert "from 0.2% to 8.2% (difference +7.0% to +9.0%)" in text
    assert "at a price of -0.0114 NDCG@20 (-0.0130 to -0.0100, from 0.3890)" in text
    call = "equipoise recommend model.eqp 'my plays.csv' --query 'plain words' --rerank fair:0.2"
    assert f"`{call} -k 20 --out reranked.csv`" in text
    page = render(stated(found, "structure"))
    assert f"<code>{escape(call)} -k 20 --out reranked.csv</code>" in page
    assert call in to_markdown(stated(found, "structure"))


@pytest.mark.parametrize(("model", "boxes"), [("pca", 2), ("", 0)])
def test_the_page_has_no_empty_box_for_calls(findings, model, boxes):
    page = render(kept(findings, "None is offered.", model=model))
    assert page.count('<div class="call">') == boxes
    assert page.count('<div class="call" hidden>') == 2 - boxes


def test_lists_of_a_kept_model_of_the_user_are_re_ranked_from_a_file(findings):
    text = answer(stated(kept(findings, OFFER, model=""), "structure")).advice
    assert "equipoise rerank lists.csv 'my plays.csv'" in text


def test_the_reason_is_given_if_niche_items_stay_left_out(findings):
    text = answer(
        stated(kept(findings, "No re-ranking is offered: why.", model="pca"), "structure")
    ).advice
    assert text.endswith("niche items stay left out. No re-ranking is offered: why.")


def test_no_re_ranking_is_named_if_no_popularity_group_is_left_out(findings):
    found = kept(findings, OFFER, model="pca")
    assert "re-rank" not in answer(stated(replace(found, groups=()))).advice
    assert rerank_command(replace(findings, mitigation=OFFER)) == ""


def advised(findings: Findings, aplt: float, kind: str = "pca") -> Findings:
    """Another model is better than the subject, which is of a kind; its long-tail share is set."""
    gain = Interval(0.1, 0.08, 0.12, 0.95, 9)
    advice = replace(findings.advice, keep=False, score=interval(0.3), gain=gain)
    share = {findings.subject_key: 0.2, findings.advised_key: aplt}
    variants = []
    for each in findings.variants:
        rows = each.results.rows
        if each.key in share:
            rows = [replace(r, value=share[each.key]) if r.metric == "aplt" else r for r in rows]
        own = kind if each.key == findings.subject_key else each.kind
        variants.append(replace(each, kind=own, results=replace(each.results, rows=tuple(rows))))
    findings = replace(findings, variants=tuple(variants))
    return stated(replace(findings, advice=advice, mitigation=OFFER))


def test_a_better_model_that_shows_fewer_long_tail_items_comes_with_a_re_ranking(findings):
    text = answer(advised(findings, 0.05)).advice
    assert "the share of long-tail items in the lists 0.200 → 0.050" in text
    assert "--rerank fair:0.2 raises the share" in text
    assert "at a price of -0.0114 NDCG@20" in text
    assert "re-rank" not in answer(advised(findings, 0.3)).advice


def test_a_larger_item_error_of_niche_items_is_a_loss(findings):
    worse = advised(findings, 0.3)
    rows = tuple(
        replace(r, value=1.25) if (r.metric, r.group) == ("item_error", "niche") else r
        for r in worse.advised.results.rows
    )
    changed = replace(worse.advised, results=replace(worse.advised.results, rows=rows))
    variants = tuple(changed if v.key == changed.key else v for v in worse.variants)
    text = answer(replace(worse, variants=variants)).advice
    before = worse.subject.mean("item_error", "niche")
    assert f"raises the item error of niche items {before:.3f} → 1.250." in text


def test_the_best_pca_is_named_with_its_values_where_pca_of_raw_values_is_audited(findings):
    best = replace(findings.contest[0], settings={"value_transform": "binary"}, test=interval(0.25))
    found = replace(findings, contest=(*findings.contest, best))
    text = answer(advised(found, 0.3, kind="as-given")).advice
    assert "PCA at its best, on 0/1 values, reaches 0.250." in text
    assert "at its best" not in answer(advised(found, 0.3)).advice


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("PCA", "PCA"),
        ("PCA, 0/1 values", "PCA on 0/1 values"),
        ("PCA, 0/1 values, user scaling 0.5", "PCA on 0/1 values with user scaling 0.5"),
        ("PCA, values as given, user scaling 0.5", "PCA with user scaling 0.5"),
        ("PCA, values as given, user scaling 0.5, rank 9", "PCA with user scaling 0.5 and rank 9"),
    ],
)
def test_the_name_of_a_model_in_a_sentence_has_its_preparation(findings, label, name):
    assert name_of(replace(findings.subject, label=label)) == name


def test_equal_reconstruction_is_not_taken_for_equal_exposure(findings):
    left_out = replace(findings.groups[0], rule="popularity")
    text = failing(stated(replace(findings, groups=(left_out,)), "structure"))
    assert text.endswith("does not differ beyond chance. Its lists leave niche items out.")
    assert failing(stated(replace(findings, groups=()), "structure")).endswith("beyond chance.")


def test_keeping_without_a_comparison_does_not_claim_one(findings):
    found = kept(findings, OFFER, model="pca")
    text = answer(stated(replace(found, contest=found.contest[:1]))).advice
    assert text.startswith("Keep PCA: there is no validation part to choose another one on.")


@pytest.mark.parametrize(
    ("keep", "gain", "given", "roles"),
    [
        (False, interval(0.1), False, ["audited", "advised", "", ""]),
        (False, interval(0.1), True, ["yours", "advised", "", ""]),
        (False, None, True, ["yours", "best on validation", "", ""]),
        (True, None, False, ["audited, advised", "", "", ""]),
        (True, None, True, ["yours, keep", "", "", ""]),
    ],
)
def test_the_chart_advises_only_what_is_known_to_be_better(keep, gain, given, roles):
    found = fakes.findings(files=["mine"])
    best = found.contest[1]
    advice = replace(found.advice, keep=keep, gain=gain, settings=best.settings)
    key = "given:0" if given else "pca"
    found = replace(found, advice=advice, subject_key=key)
    entries = json.loads(payload(found, lambda: 10**7).summary)["contest"]
    assert [entry["role"] for entry in entries] == roles
    advised = [entry["advised"] for entry in entries]
    assert advised == [role in ("advised", "yours, keep", "audited, advised") for role in roles]


def test_a_term_is_explained_where_it_first_occurs_and_hostile_text_stays_text():
    marked: set[str] = set()
    text = mark_terms("NDCG and components of a niche item", marked)
    assert marked == {"NDCG", "component", "niche"}
    assert mark_terms("NDCG again", marked) == "NDCG again"
    assert text.count("<dfn") == 3
    assert mark_terms("a nichey PCA-like thing", set()) == "a nichey PCA-like thing"


def test_every_term_of_the_page_is_in_the_glossary_with_the_same_words(findings):
    page = render(findings)
    hovers = re.findall(r'<dfn tabindex="0" data-meaning="([^"]+)">', page)
    assert len(hovers) >= 10
    assert "<dfn>" not in page
    assert set(map(unescape, hovers)) <= set(TERMS.values())
    glossary = page[page.index('class="glossary"') :]
    assert all(f"<dt>{term}</dt>" in glossary for term in TERMS)
