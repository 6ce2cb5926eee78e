"""`equipoise audit DATA` and `equipoise demo`: which items a model fails, on one page."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.cli.review import ReviewOptions, recorded_command
from equipoise.display import Shown
from equipoise.exceptions import InvalidParameterError

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
            name: lib.Embeddings(path, **details[name]) if details[name] else path
            for name, path in paths.items()
        }


def audit(
    reading: opt.DataOptions,
    parts: opt.PartOptions,
    given: ModelOptions,
    grouping: opt.GroupOptions,
    reviewing: ReviewOptions,
    data: str | None = None,
    rank: str = defaults.AUDIT_RANK,
    groups: str = defaults.GROUPS,
    more_metrics: str | None = None,
    k: int = defaults.MEASURED_K,
    seed: int = defaults.SEED,
    depth: str = defaults.AUDIT_DEPTH,
    names: str | None = None,
    budget: float | None = None,
    cut: str | None = None,
    out: Path = Path("report.html"),
    as_json: bool = False,
    as_markdown: bool = False,
    open_page: bool = False,
) -> int:
    """Show which items a model fails, which it memorizes, and which model is better.

    Prints the answer, the main numbers and the advice, and writes one page, or JSON or Markdown:
    the ending of the file sets which. PCA is audited unless there is a --model. With --train and
    --test, models of yours are taken as fitted on --train. Exits with 1 if a condition of --fail-if
    holds.
    """
    import webbrowser

    if as_json and as_markdown:
        raise InvalidParameterError("--json and --md exclude each other. Give one of them.")
    whole = "--rank takes a whole number or auto"
    asked: Any = rank if rank == "auto" else opt.number(rank, whole, int)
    if asked != "auto":
        lib.check_whole_number("--rank", asked, least=1)
    lib.check_choice("--depth", depth, lib.plan.DEPTHS)  # before the data are read
    own = [] if more_metrics is None else opt.words(more_metrics)
    lib.own_metrics(own, k)  # before the data are read
    parts.check(data, reading)
    reviewing.check(one_table=data is not None and cut is None)
    opt.check_outputs({"--out": out})
    lib.report_writer(out)  # refuses other endings
    models = given.models()
    source = str(parts.train if data is None else data)
    table = parts.read_parts(reading) if data is None else reading.read(data)
    if cut is not None:
        if not isinstance(table, lib.Interactions):
            raise InvalidParameterError("--cut is for DATA, not for --train and --test.")
        table = lib.split.cut_by_time(table, cut)
    labels = grouping.read(table if isinstance(table, lib.Interactions) else table.train)
    run = functools.partial(
        lib.audit,
        names=reading.names(source, names),
        rank=asked,
        groups=groups,  # type: ignore[arg-type]  # refuses other names
        item_groups=labels["items"],
        user_groups=labels["users"],
        models=models,
        more_metrics=own,
        k=k,
        seed=seed,
        depth=depth,  # type: ignore[arg-type]  # refuses other names
        budget=budget,
        source=opt.shown(source),
        data_options=reading.given(),
    )
    _say_estimate(table, depth, budget, len(models), cluster=reading.scheduler is not None)
    found = run(table, progress=console.progress())
    try:
        found = reviewing.review(found, table, run, recorded_command(data))
    finally:  # the report is kept where there is a limit for a number that this audit lacks
        _publish(found, out, as_json=as_json, as_markdown=as_markdown)
    reviewing.sign(out)
    if open_page and not webbrowser.open(out.resolve().as_uri()):
        console.say(f"no browser found; open {out.resolve()} yourself.")
    return reviewing.exit_code(found)


def demo(
    seed: int = defaults.SEED, out: Path = Path("report/demo.html"), as_json: bool = False
) -> None:
    """Audit the built-in example data: how PCA treats popular and niche items, and what helps."""
    out.parent.mkdir(parents=True, exist_ok=True)
    opt.check_outputs({"--out": out})
    plays = lib.listening(seed=seed)
    console.say(f"Drew {plays.n_users:,} invented listeners of {plays.n_items:,} invented artists.")
    found = lib.audit(plays, seed=seed, source=_EXAMPLE, progress=console.progress())
    _publish(found, out, as_json=as_json, as_markdown=False)


def _say_estimate(
    data: lib.Interactions | lib.Split, depth: str, budget: float | None, n: int, *, cluster: bool
) -> None:
    """Report at once how long the audit takes in memory."""
    if depth in lib.plan.EFFORTS:  # the audit refuses other names
        seconds = lib.plan.estimate_audit(data, depth, budget, n)  # type: ignore[arg-type]  # checked
        where = "two idle cores" + ", for data in memory; a cluster takes longer" * cluster
        console.say(f"About {max(1, round(seconds))} s on {where} (--depth, --budget).")


def _publish(found: lib.Findings, out: Path, *, as_json: bool, as_markdown: bool) -> None:
    """Write the page; print the summary as JSON, as Markdown or as a table."""
    found.save(out)
    if as_json or as_markdown:
        console.write(lib.to_json(found) if as_json else lib.to_markdown(found))
        console.say(f"Report: {out.resolve()}")
        return
    print_findings(found)
    console.write(f"\nReport: {out.resolve()}")


def print_findings(found: lib.Findings) -> None:
    """Print the answer, the main numbers, every model at its best and the advised calls."""
    for note in found.settings.notes:
        console.say(f"note: {note}")
    for title, sentence in zip(lib.QUESTIONS, found.answer, strict=True):
        console.out().print(f"[bold]{title}[/]  {console.escape_markup(sentence)}")
    models = _columns(found)
    console.print_table(main_numbers(found))
    for section in found.groups:
        if section.is_own:
            console.print_table(lib.tables.main_measure(section, models))
    best = lib.tables.contest(found)
    if best.rows:  # settings are too wide for a terminal
        console.print_table(best.only(0, *range(3, len(best.columns))))
    advice = found.advice
    calls = (
        lib.advice.command(advice),
        lib.advice.rerank_command(found),
        lib.advice.python_call(advice),
        lib.advice.check_command(advice),
    )
    if any(calls):  # a given model that is kept needs none
        console.out().print("\n[bold]How to apply the advice[/]")
    for text in "\n".join(filter(None, calls)).splitlines():
        console.out().print(f"  {console.escape_markup(text)}", soft_wrap=True)


def _columns(found: lib.Findings) -> list[lib.Variant]:
    """Return the audited and the advised model, and other given ones."""
    given = [variant for variant in found.variants if variant.key.startswith("given:")]
    return list({v.key: v for v in (found.subject, found.advised, *given)}.values())


def main_numbers(found: lib.Findings) -> Shown:
    """Return the main numbers of each model with their intervals, and what was audited."""
    title = "The main numbers, with 95 % intervals"
    settings = found.settings
    groups = ", ".join(f"{group.n_items:,} {group.name}" for group in found.data.groups)
    note = (
        f"{found.data.size}; depth {settings.depth}; popularity groups by {settings.groups}: "
        f"{groups}."
    )
    return lib.tables.numbers(found, _columns(found), title, brief=True)._replace(notes=[note])
