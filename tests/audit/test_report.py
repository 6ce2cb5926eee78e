"""The page without a browser: equal bytes, nothing runs or loads but its own, names stay text."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from equipoise.audit.findings import Findings, Variant
from equipoise.audit.report import page as assets
from equipoise.audit.report import render
from equipoise.audit.report.encoding import Quantized, quantize
from equipoise.audit.report.payload import LADDER, payload
from tests.browser import fakes

HOSTILE_WORDS = " ".join(fakes.HOSTILE).replace("x" * 5000, "xx")


class Outline(HTMLParser):
    """Tags with their attributes' names, all text, and the content of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self._script: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "script":
            self._script = dict(attrs).get("id") or "application"

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        else:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def attribute(self, tag: str, name: str) -> list[str | None]:
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]


def restored(quantized: Quantized) -> np.ndarray:
    """The inverse by its definition, with whole numbers of unlimited size."""
    size = np.iinfo(quantized.codes.dtype).max + 1
    codes = np.cumsum(quantized.codes.astype(np.int64), axis=0) % size
    share = (codes / quantized.levels) ** quantized.power
    values = quantized.low + (quantized.high - quantized.low) * share
    return np.where(codes > quantized.levels, np.nan, values)


def unpacked(outline: Outline) -> tuple[dict, Callable[[str], np.ndarray | list]]:
    summary = json.loads(outline.scripts["summary"])
    content = gzip.decompress(base64.b64decode(outline.scripts["blocks"]))

    def block(name: str) -> np.ndarray | list:
        start, kind, count = summary["blocks"][name]
        if kind == "json":
            return json.loads(content[start : start + count])
        return np.frombuffer(content, f"<{kind}", count, start)

    return summary, block


@pytest.fixture(scope="module")
def tame() -> Outline:
    words = re.sub(r"[^ \n]+", "word.", HOSTILE_WORDS)  # as many words, all harmless
    return Outline(render(fakes.findings(n_items=len(fakes.HOSTILE), files=["als"], words=words)))


@pytest.fixture(scope="module")
def hostile() -> Outline:
    return Outline(
        render(
            fakes.findings(
                n_items=len(fakes.HOSTILE),
                names=fakes.HOSTILE,
                ids=fakes.HOSTILE[::-1],
                files=[HOSTILE_WORDS],
                users=(*fakes.HOSTILE[:2], HOSTILE_WORDS),
                words=HOSTILE_WORDS,
            )
        )
    )


@pytest.mark.medium
def test_equal_findings_give_equal_bytes():
    first, second = (render(fakes.findings()).encode("utf-8") for _ in range(2))
    assert first == second


def test_other_findings_give_other_bytes():
    assert render(fakes.findings()) != render(fakes.findings(n_items=61))


def test_the_policy_names_exactly_the_two_scripts_that_run(tame):
    policy = tame.attribute("meta", "content")[0]
    library = gzip.decompress(base64.b64decode(tame.scripts["library"]))
    digests = [
        base64.b64encode(hashlib.sha256(content).digest()).decode()
        for content in (tame.scripts["application"].encode(), library)
    ]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
    }  # fmt: skip
    assert "unsafe" not in rules["script-src"]


def test_the_library_is_plotly_as_its_package_brings_it(tame):
    library = gzip.decompress(base64.b64decode(tame.scripts["library"])).decode()
    assert library == assets.plotly()
    assert library.startswith("/**\n* plotly.js v")


def test_nothing_on_the_page_points_anywhere_else(tame):
    assert not tame.attribute("script", "src")
    assert {tag for tag, _ in tame.tags}.isdisjoint({"link", "img", "iframe", "object", "base"})
    assert all(link.startswith("#") for link in tame.attribute("a", "href"))
    own = assets.script() + assets.style() + assets.source("page.html")
    assert not re.search(r"https?:|//[a-z]+\.|url\(|@import|fetch\(|XMLHttp|WebSocket", own)


def test_hostile_words_add_no_tag_and_no_attribute(tame, hostile):
    assert hostile.tags == tame.tags


def test_hostile_words_are_shown_as_they_are(hostile):
    shown = re.sub(r"[\x00-\x08\x0e-\x1f\ud800-\udfff]", "\ufffd", HOSTILE_WORDS)
    assert hostile.text.count(shown) >= 5


def test_data_inside_the_page_hold_no_markup(hostile):
    assert not set("<>&") & set(hostile.scripts["summary"])
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", hostile.scripts["blocks"])


def test_hostile_names_come_back_from_the_data(hostile):
    _, block = unpacked(hostile)
    longest = "x" * 1999 + "…"
    wanted = [longest if len(name) > 2000 else name for name in fakes.HOSTILE]
    assert block("names") == wanted
    assert block("ids") == wanted[::-1]


def test_a_page_with_half_a_surrogate_pair_can_be_written():
    assert render(fakes.findings(words="\ud800")).encode("utf-8")


def test_numbers_of_items_come_back_from_the_data():
    findings = fakes.findings()
    summary, block = unpacked(Outline(render(findings)))
    for place, variant in enumerate(findings.variants):
        told = summary["variants"][place]
        for measure, exact in [
            ("self_reconstruction", variant.self_reconstruction_by_item),
            ("item_error", variant.error_by_item),
        ]:
            codes = np.asarray(block(f"{place}.{measure}")).reshape(exact.shape)
            values = restored(Quantized(codes, *told["scales"][measure]))
            np.testing.assert_allclose(values, exact, atol=2e-4)
        neighbors = np.asarray(block(f"{place}.neighbors")).reshape(len(exact[0]), -1)
        np.testing.assert_array_equal(neighbors, variant.neighbors[:, :10])
        needed = np.asarray(block(f"{place}.to_half"))
        np.testing.assert_array_equal(needed, variant.components_to_half_by_item)
    np.testing.assert_allclose(block("popularity"), findings.items.popularity, rtol=1e-6)


@pytest.mark.medium
@given(
    hnp.arrays(
        float,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(-3, 3) | st.just(np.nan),
    ),
    st.sampled_from([30, 250, 10_000]),
)
def test_rounding_moves_no_value_by_more_than_half_a_step(values, levels):
    quantized = quantize(values, levels)
    step = (quantized.high - quantized.low) / levels
    np.testing.assert_allclose(restored(quantized), values, atol=step / 2 + 1e-12)


def test_the_share_of_components_is_the_running_sum_of_self_reconstruction():
    findings = fakes.findings(n_items=60)
    summary, _ = unpacked(Outline(render(findings)))
    diagonal = findings.variants[0].self_reconstruction_by_item[2]
    curve = np.array(summary["variants"][0]["shares"][2])
    expected = np.interp(curve[:, 0] * 60, np.arange(61), np.append(0, diagonal.cumsum()))
    np.testing.assert_allclose(curve[:, 1], expected / diagonal.sum(), atol=1e-5)


def test_a_sample_has_the_share_of_components_by_group():
    whole = fakes.findings(n_items=60)
    data = dataclasses.replace(whole.data, n_items=600)
    summary, _ = unpacked(Outline(render(dataclasses.replace(whole, data=data))))
    curve = np.array(summary["variants"][0]["shares"][2])
    diagonal = whole.variants[0].self_reconstruction_by_item[2]
    np.testing.assert_allclose(curve[:, 0], [0, 1 / 6, 1 / 3, 1], atol=1e-5)
    expected = [0, diagonal[:10].sum(), diagonal[:20].sum(), diagonal.sum()]
    np.testing.assert_allclose(curve[:, 1], np.divide(expected, diagonal.sum()), atol=1e-5)


def test_a_model_without_self_reconstruction_has_no_share_of_components():
    findings = fakes.findings()
    first = findings.variants[0]
    empty = dataclasses.replace(
        first, self_reconstruction_by_item=np.zeros_like(first.self_reconstruction_by_item)
    )
    summary, _ = unpacked(
        Outline(render(dataclasses.replace(findings, variants=(empty, *findings.variants[1:]))))
    )
    assert summary["variants"][0]["shares"] == [[]] * 5


def noisy(variant: Variant, rng: np.random.Generator) -> Variant:
    """Nothing that zips: the worst that can come."""
    shape = variant.self_reconstruction_by_item.shape
    return dataclasses.replace(
        variant,
        self_reconstruction_by_item=rng.random(shape),
        error_by_item=rng.random(shape),
        auc_by_item=rng.random(shape[1]),
        components_to_half_by_item=rng.integers(1, 1024, shape[1]).astype(float),
        neighbors=rng.integers(0, shape[1], (shape[1], 10)).astype(np.int32),
    )


def large() -> Findings:
    rng, ranks = np.random.default_rng(0), tuple(2**i for i in range(11))
    names = [f"The {rng.integers(10**9)} Orchestra of {i}" for i in range(20_000)]
    findings = fakes.findings(20_000, ranks, names=names, files=["als.npz", "ease.npz"])
    assert len(findings.variants) == 9
    variants = tuple(noisy(variant, rng) for variant in findings.variants)
    return dataclasses.replace(findings, variants=variants)


@pytest.mark.medium
def test_twenty_thousand_items_stay_below_eight_megabytes():
    page = render(large())
    assert 4_000_000 < len(page.encode("utf-8")) < 8_000_000
    assert LADDER[-1].description() in Outline(page).text


def test_the_finest_payload_that_fits_is_taken():
    findings = fakes.findings()
    finest = payload(findings, most=lambda: 10**9)
    assert finest.fidelity == LADDER[0]
    spare = len(finest.summary) + len(finest.blocks)
    assert payload(findings, most=lambda: spare).fidelity == LADDER[0]
    assert payload(findings, most=lambda: spare - 1).fidelity != LADDER[0]
    assert payload(findings, most=lambda: 0).fidelity == LADDER[-1]


def test_every_module_comes_after_those_that_it_imports():
    for place, name in enumerate(assets.modules()):
        imported = set(re.findall(r'from "\./([a-z]+\.js)"', assets.source(name)))
        assert imported <= set(assets.modules()[:place]), name


def test_imported_names_are_exported_by_their_module():
    for name in assets.modules():
        for names, module in re.findall(
            r'import \{([^}]*)\} from "\./([a-z]+\.js)"', assets.source(name)
        ):
            exported = set(
                re.findall(
                    r"^export (?:async )?(?:function|const|let) (\w+)", assets.source(module), re.M
                )
            )
            assert {n.strip() for n in names.split(",")} <= exported, f"{name} from {module}"


def test_no_two_modules_give_the_same_name_to_different_things():
    declared = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", assets.script(), re.M)
    assert len(declared) > 80
    assert len(declared) == len(set(declared))


def test_the_joined_script_can_stand_inside_a_page():
    script = assets.script()
    assert not re.search(r"^(import|export) ", script, re.M)
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "innerHTML" not in script
