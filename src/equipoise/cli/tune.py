"""`equipoise tune [DATA]`: the best setting of a model for this data, chosen on validation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.cli import console
from equipoise.cli import options as opt
from equipoise.exceptions import InvalidDataError

if TYPE_CHECKING:
    from equipoise.data import Split
    from equipoise.evaluation import Tuning
    from equipoise.models import Recommender

_BEYOND = "Better values may be beyond it: try --ranks, --gammas or --grid."


def tune(
    reading: opt.DataOptions,
    splitting: opt.SplitOptions,
    results_to: opt.TableOptions,
    k: int,
    groups: str,
    grouping: opt.GroupOptions,
    zero_division: float,
    trying: opt.GridOptions,
    model: str,
    maximize: str,
    data: str | None = None,
    subject_to: list[str] | None = None,
    rerank: str | None = None,
    trade_off: str = "aplt",
    out: Path | None = None,
) -> int:
    """Choose the parameters of a model, by default Item-Weighted PCA, on validation data.

    The choice is scored once on test data. Prints the command that fits it on all of DATA.
    """
    from equipoise import evaluation
    from equipoise.audit.advice import command
    from equipoise.audit.findings import Advice
    from equipoise.evaluation.goal import parse_condition
    from equipoise.models.registry import find_model

    results_to.check(out)
    conditions = map(parse_condition, subject_to or [])
    limits = {name: (sign, bound) for name, sign, bound in conditions}
    axes = trying.axes()
    splitting.check(data, reading)
    table = None if data is None else reading.read(data)
    split = splitting.read_parts(reading) if table is None else splitting.hold_out(table)
    _refuse_empty_validation(split)
    base = _base(model, rerank)
    own_groups = grouping.parameters(find_model(model), split.train) if rerank is None else {}
    base.set_params(**own_groups)
    if rerank is not None:
        axes = {name if name == "reranker" else f"model__{name}": v for name, v in axes.items()}
    tuning = evaluation.tune(
        split,
        base if own_groups or rerank is not None else model,
        grid=_grid(base, split, axes, whole=trying.grid is not None),
        maximize=maximize,
        subject_to=limits,
        trade_off=opt.words(trade_off),
        k=k,
        groups=groups,
        zero_division=zero_division,
        cache=results_to.cache,
        progress=console.progress(),
    )
    results_to.write(tuning, "plot_tuning")
    source = opt.shown(str(data or splitting.train))
    settings = {_written(name): value for name, value in tuning.choice.settings.items()}
    if rerank is not None:
        settings.setdefault("rerank", rerank)
    advice = Advice(model, settings, source, reading.given() | grouping.given(), "")
    if results_to.as_json:
        found = {**tuning.to_dict(), "edges": tuning.edges(), "command": command(advice)}
        console.write_json(found, indent=1)
    else:
        _print(tuning)
        console.write(command(advice))
    edges = {n: v for n, v in tuning.edges().items() if v != split.train.n_items}
    if edges:
        chosen = ", ".join(f"{name} = {opt.show_value(value)}" for name, value in edges.items())
        console.say(f"warning: at the edge of the values tried: {chosen}. {_BEYOND}")
    if tuning.shift is not None and tuning.shift.differs:
        console.say(f"warning: {tuning.shift}")
    if out is not None and tuning.complete:
        table = split.train if table is None else table
        saved = tuning.model().fit(table, progress=console.progress()).save(out)
        console.say(f"Model: {saved.resolve()}")
    if tuning.complete:
        return 0
    unwritten = "" if out is None else f"; {out} is not written"
    done = f"the choice is the best of the {len(tuning.trials)} settings tried so far{unwritten}"
    return results_to.interrupted(done)


def _print(tuning: Tuning) -> None:
    targets = [target.label for target in tuning.goal.targets]
    rows = [("choice", tuning.choice), *(("", trial) for trial in tuning.frontier[:10])]
    names = list(dict.fromkeys(name for _, trial in rows for name in trial.settings))
    columns = ("", *names, *targets)
    table = console.new_table(
        *columns,
        right=set(columns) - {""},
        title=f"Best of {len(tuning.trials)} settings on validation, and the frontier",
    )
    for mark, trial in rows:
        values = (opt.show_value(trial.settings[n]) if n in trial.settings else "–" for n in names)
        scores = (f"{trial.scores[target]:.4f}" for target in targets)
        table.add_row(mark, *values, *scores)
    console.out.print(table)
    if tuning.test is not None:
        for row in tuning.test.select(group="all"):
            text = f"{row.value:.4f}"
            if row.per_user is not None and row.n > 1:
                text = str(tuning.test.interval(row))
            console.out.print(f"test {row.name:<14}{text}", highlight=False, markup=False)
    console.out.print(f"\n{tuning.constructor()}", highlight=False, markup=False, soft_wrap=True)


def _base(model: str, rerank: str | None) -> Recommender:
    """Return the unfitted model, with its re-ranker."""
    from equipoise.models.registry import find_model

    made = find_model(model).make()
    if rerank is None:
        return made
    from equipoise.reranking import Reranked, make_reranker

    make_reranker(rerank)  # refused before anything is fitted
    return Reranked(made, rerank)


def _written(name: str) -> str:
    """Return a parameter as `equipoise fit` names it."""
    return "rerank" if name == "reranker" else name.removeprefix("model__")


def _grid(
    model: Recommender, split: Split, axes: dict[str, list[Any]], *, whole: bool
) -> list[dict[str, Any]] | None:
    """Return --grid; without it, the model's search space with --ranks and --gammas."""
    if whole or not axes:
        return [axes] if axes else None
    return [{**space, **axes} for space in model.search_space(split.train)]


def _refuse_empty_validation(split: Split) -> None:
    if split.validation.nnz == 0:
        raise InvalidDataError(
            "--validation leaves nothing to tune on: there is no such file, or users have too few "
            "items for the share. Use a larger share, e.g. --validation 0.2, or drop users with "
            "few items (--min-items-per-user)."
        )
