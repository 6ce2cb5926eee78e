"""`equipoise audit DATA` and `equipoise demo`: which items a model fails, on one page."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from equipoise.cli import console
from equipoise.cli import options as opt
from equipoise.cli.dossier import ReviewOptions, recorded_command
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.audit.findings import Findings, Variant
    from equipoise.audit.group_section import GroupSection
    from equipoise.data import Interactions, Split

_EXAMPLE = "built-in example data"


@dataclass(frozen=True)
class ModelOptions:
    """Models to audit, and how their files are read.

    The options of a file hold for all models, or with ``MODEL=`` before the value for one of them.
    """

    model: list[str] | None = None
    tensor: list[str] | None = None
    item_ids: list[str] | None = None
    user_tensor: list[str] | None = None
    user_vectors: list[str] | None = None
    user_ids: list[str] | None = None

    def paths(self) -> dict[str, str]:
        """Return the files of the models by name; the name is that of the file by default."""
        found = {}
        for text in self.model or []:
            name, sign, path = text.partition("=")
            if not sign or not path.strip() or Path(text).exists():
                name, path = Path(text).name, text
            if name in found:
                raise InvalidParameterError(f"--model {name} is given twice. Use other names.")
            found[name] = path
        for path in found.values():  # before the data are read
            if not Path(path).exists():
                raise InvalidParameterError(f"--model {path} does not exist. Check the path.")
        return found

    def models(self) -> dict[str, Any]:
        """Return the models as `equipoise.audit` takes them."""
        from equipoise.audit import Embeddings

        paths = self.paths()
        details: dict[str, dict[str, Any]] = {name: {} for name in paths}
        for field in (each.name for each in fields(self) if each.name != "model"):
            for text in getattr(self, field) or []:
                if not paths:
                    shown = field.replace("_", "-")
                    raise InvalidParameterError(f"--{shown} is for --model, which is missing.")
                name, _, value = text.partition("=")
                chosen = {name: value} if name in paths else dict.fromkeys(paths, text)
                for one, its_value in chosen.items():
                    details[one]["users" if field == "user_vectors" else field] = its_value
        return {
            name: Embeddings(path, **details[name]) if details[name] else path
            for name, path in paths.items()
        }


def audit(
    reading: opt.DataOptions,
    parts: opt.PartOptions,
    rank: str,
    groups: str,
    k: int,
    seed: int,
    depth: str,
    given: ModelOptions,
    grouping: opt.GroupOptions,
    reviewing: ReviewOptions,
    data: str | None = None,
    names: str | None = None,
    budget: float | None = None,
    cut: str | None = None,
    out: Path = Path("report.html"),
    as_json: bool = False,
    as_markdown: bool = False,
    open_page: bool = False,
) -> int:
    """Show which items a model fails, which it memorizes, and which model is better.

    Prints a summary, a verdict and the advice, and writes one page (or JSON or Markdown, by the
    ending of --out). Without --model, PCA is audited. With --train and --test, models of yours are
    taken as fitted on --train. Exits with 1 if a condition of --fail-if holds.
    """
    from equipoise.audit import audit as compute
    from equipoise.data import Interactions
    from equipoise.data.split import cut_by_time

    if as_json and as_markdown:
        raise InvalidParameterError("--json and --md exclude each other. Give one of them.")
    asked = _rank(rank)
    parts.check(data, reading)
    reviewing.check(one_table=data is not None and cut is None)
    opt.check_outputs({"--out": out})
    models = given.models()
    source = str(parts.train if data is None else data)
    table = parts.read_parts(reading) if data is None else reading.read(data)
    if cut is not None:
        if not isinstance(table, Interactions):
            raise InvalidParameterError("--cut is for DATA, not for --train and --test.")
        table = cut_by_time(table, cut)
    own = grouping.read(table if isinstance(table, Interactions) else table.train)
    run = functools.partial(
        compute,
        names=reading.names(source, names),
        rank=asked,
        groups=groups,  # type: ignore[arg-type]  # refuses other names
        item_groups=own["items"],
        user_groups=own["users"],
        models=models,
        k=k,
        seed=seed,
        depth=depth,  # type: ignore[arg-type]  # refuses other names
        budget=budget,
        source=opt.shown(source),
        data_options=reading.given(),
    )
    _say_estimate(table, depth, budget, len(models))
    found = run(table, progress=console.progress())
    found = reviewing.review(found, table, run, recorded_command(data))
    _publish(found, out, as_json=as_json, as_markdown=as_markdown)
    reviewing.sign(out)
    if open_page:
        _open(out)
    return reviewing.exit_code(found)


def demo(seed: int, out: Path = Path("report/demo.html"), as_json: bool = False) -> None:
    """Audit the built-in example data: how PCA treats popular and niche items, and what helps."""
    from equipoise.audit import audit as run

    out.parent.mkdir(parents=True, exist_ok=True)
    opt.check_outputs({"--out": out})
    interactions = _example(seed)
    found = run(interactions, seed=seed, source=_EXAMPLE, progress=console.progress())
    _publish(found, out, as_json=as_json, as_markdown=False)


def _say_estimate(data: Interactions | Split, depth: str, budget: float | None, n: int) -> None:
    """Report at once how long the audit takes."""
    from equipoise.audit.plan import EFFORTS, estimate_audit

    if depth in EFFORTS:  # the audit refuses other names
        seconds = estimate_audit(data, depth, budget, n)  # type: ignore[arg-type]  # checked
        console.say(f"About {max(1, round(seconds))} s on two idle cores (--depth, --budget).")


def _example(seed: int) -> Interactions:
    """Draw the data that come with the package."""
    from equipoise.data.synthetic import listening

    plays = listening(seed=seed)
    console.say(f"Drew {plays.n_users:,} invented listeners of {plays.n_items:,} invented artists.")
    return plays


def _publish(found: Findings, out: Path, *, as_json: bool, as_markdown: bool) -> None:
    """Write the page; print the summary as JSON, as Markdown or as a table."""
    from equipoise.audit import to_json, to_markdown
    from equipoise.audit.report import render
    from equipoise.files import write_whole

    write = {".json": to_json, ".md": to_markdown}.get(out.suffix.lower(), render)
    write_whole(out, write(found).encode())
    if as_json or as_markdown:
        console.write(to_json(found) if as_json else to_markdown(found))
        console.say(f"Report: {out.resolve()}")
        return
    print_findings(found)
    console.write(f"\nReport: {out.resolve()}")


def _rank(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise InvalidParameterError(
            f"--rank takes a whole number of at least 1, or auto, got {text!r}."
        )
    return int(text)


def print_findings(found: Findings) -> None:
    """Print the answer, the main numbers, the findings in words and the advised calls."""
    from equipoise.audit.advice import check_command, command, python_call, rerank_command
    from equipoise.audit.findings import QUESTIONS
    from equipoise.audit.verdict import answer

    for note in found.settings.notes:
        console.say(f"note: {note}")
    for title, sentence in zip(QUESTIONS, answer(found), strict=True):
        console.out.print(f"[bold]{title}[/]  {console.escape_markup(sentence)}", highlight=False)
    models = [variant.label for variant in _columns(found)]
    table = console.new_table(
        "",
        *models,
        right=models,
        title="The main numbers, with 95 % intervals",
        caption=console.escape_markup(data_summary(found)),
        caption_justify="left",
    )
    for line in lines(found):
        table.add_row(line.title, *line.values)
    console.out.print(table)
    for section in found.groups:
        if section.is_own:
            console.out.print(_group_table(section, _columns(found)))
    verdict = found.verdict
    for sentence in verdict.sentences:
        console.out.print(f"• {console.escape_markup(sentence)}", highlight=False)
    advice = verdict.advice
    console.out.print(f"\n[bold]Advice[/]  {console.escape_markup(advice.why)}", highlight=False)
    calls = (command(advice), rerank_command(found), python_call(advice), check_command(advice))
    for text in "\n".join(filter(None, calls)).splitlines():
        console.out.print(f"  {console.escape_markup(text)}", highlight=False, soft_wrap=True)


def _group_table(section: GroupSection, models: list[Variant]) -> Table:
    """One row per group, the main measure of each model."""
    from equipoise.audit.formatting import MEASURES, between

    measure, labels = section.main, [variant.label for variant in models]
    title = f"{MEASURES[measure].title} of {section.of} by {section.rule}, with 95 % intervals"
    head = (section.of, *labels)
    table = console.new_table("", *head, right=head, title=console.escape_markup(title))
    for group in section.groups:
        found = [section.number(each.key, measure, group.name) for each in models]
        cells = ["–" if v is None else f"{v.mean:.3f} ({between(v)})" for v in found]
        table.add_row(console.escape_markup(group.name), f"{group.size:,}", *cells)
    return table


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        console.say(f"no browser found; open {page.resolve()} yourself.")


class Line(NamedTuple):
    """One measure: its title, and the number of each model."""

    title: str
    values: tuple[str, ...]


def _columns(found: Findings) -> list[Variant]:
    """Return the audited and the advised model, and other given ones."""
    given = [variant for variant in found.variants if variant.key.startswith("given:")]
    return list({v.key: v for v in (found.subject, found.advised, *given)}.values())


def lines(found: Findings) -> list[Line]:
    """Return the main numbers of each model with their intervals."""
    from equipoise.audit.formatting import geometry, half_error_cell, mean_cell

    variants, k = _columns(found), found.settings.k

    def mean(title: str, metric: str, group: str = "all") -> Line:
        return Line(title, tuple(mean_cell(v, metric, group) for v in variants))

    def to_half(group: str) -> Line:
        cells = tuple(half_error_cell(v, group) for v in variants)
        return Line(f"{group}: components to half error", cells)

    groups = [group.name for group in found.data.groups]
    first, last = groups[0], groups[-1]
    return [
        Line("rank", tuple(str(v.size) if v.has_components else "–" for v in variants)),
        mean("specialization (0: all shared)", "specialization"),
        mean(f"{first}: self-reconstruction", "self_reconstruction", first),
        mean(f"{last}: self-reconstruction", "self_reconstruction", last),
        to_half(first),
        to_half(last),
        mean(f"{last}: AUC from other items", "item_auc", last),
        *(mean(title, metric) for metric, title in geometry(variants).items()),
        mean(f"Recall@{k}", "recall"),
        mean(f"NDCG@{k}", "ndcg"),
        Line(
            "components owned by one item",
            tuple(str(len(v.owned)) if v.has_components else "–" for v in variants),
        ),
    ]


def data_summary(found: Findings) -> str:
    """Return in one sentence what was audited."""
    data, settings = found.data, found.settings
    groups = ", ".join(f"{group.n_items:,} {group.name}" for group in data.groups)
    return (
        f"{data.n_users:,} users × {data.n_items:,} items, {data.n_interactions:,} interactions; "
        f"depth {settings.depth}; popularity groups by {settings.groups}: {groups}."
    )
