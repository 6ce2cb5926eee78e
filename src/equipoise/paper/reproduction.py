"""`run`: measure, judge and draw the requested parts, and write them into one folder."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from equipoise.data.catalog import DatasetNotFoundError
from equipoise.display import Shown
from equipoise.exceptions import InvalidParameterError, require_extra
from equipoise.files import write_whole
from equipoise.paper import claims, figures, tables
from equipoise.paper.figures import Figure, Format
from equipoise.paper.measurements import ExperimentRunner, Load, load_paper_matrix
from equipoise.paper.protocol import DATASETS
from equipoise.paper.report import Reproduction, SavedFigure, render_html
from equipoise.paper.theory import EXPERIMENTS, Experiment, figure_5, run_theory
from equipoise.paper.verdicts import CLAIMS
from equipoise.progress import Progress, task

_FIGURES = tuple(f"fig{i}" for i in range(1, 9))
_PARTS = ("theory", *_FIGURES, "tables", "claims")
TARGETS = ("all", *_PARTS)
_FORMATS: tuple[Format, ...] = ("svg", "png")

# These targets need verdicts or tables. The theory's figures are a by-product of them.
_WITHOUT_FIGURES = {"claims", "tables"}


def run(
    targets: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    progress: Progress | None = None,
    load: Load = load_paper_matrix,
) -> Reproduction:
    """Reproduce the paper, or parts of it.

    Parameters
    ----------
    targets : sequence of str
        Of ``"all"``, ``"fig1"`` to ``"fig8"``, ``"tables"``, ``"theory"`` and ``"claims"``.
    out : Path
        Receives ``index.html``, ``claims.json``, ``claims.md``, ``figures/``, ``tables/`` and
        ``cache/``. A second run resumes from the cache.
    quick : bool
        Fewer ranks and smaller experiments; the claims are the same.
    progress : Progress, optional
        Receives one step per part; silent by default.
    load : callable
        Maps a name of `load_dataset` to the paper's matrix.

    Returns
    -------
    Reproduction
        `missing` lists every requested part that was not made.
    """
    parts = plan(targets)
    with task(progress, "Reproducing the paper", len(parts)) as reproducing:
        made = _Run(out, quick, reproducing, load).run(parts)
    undrawn = [saved.figure.name for saved in made.figures if not saved.svg]
    if undrawn and set(targets) - _WITHOUT_FIGURES:
        made.missing.append(
            f"figures ({', '.join(undrawn)}): only their numbers are written (figures/*.csv). "
            "Drawing needs 'matplotlib', which is not installed. Install it with: "
            'pip install "equipoise[plot]"'
        )
    text = json.dumps(made.as_dict(), indent=1, ensure_ascii=False)
    _write(out / "claims.json", text)
    _write(out / "claims.md", made.claims().markdown())
    _write(out / "index.html", render_html(made))
    return made


def plan(targets: Iterable[str]) -> list[str]:
    """Return the parts to do, in order; Figure 5 is part of the theory.

    Examples
    --------
    >>> plan(["tables", "fig5"]), plan(["claims"])
    (['fig5', 'tables'], ['theory', 'claims'])
    """
    wanted = set(targets) or {"all"}
    unknown = sorted(wanted - set(TARGETS))
    if unknown:
        raise InvalidParameterError(
            f"cannot reproduce {unknown[0]!r}. Choose from: {', '.join(TARGETS)}."
        )
    if wanted & set(_FIGURES):
        require_extra("matplotlib", "plot", "drawing the paper's figures")
    if "all" in wanted:
        wanted = set(_PARTS)
    if wanted & {"theory", "claims"}:
        wanted = (wanted | {"theory"}) - {"fig5"}
    return [part for part in _PARTS if part in wanted]


class _Run:
    """One call of `run`: the parts in order, each thing measured when first needed."""

    def __init__(self, out: Path, quick: bool, progress: Progress, load: Load) -> None:
        self.out, self.quick, self.progress = out, quick, progress
        cache = out / "cache" / "evaluation"
        self.runner = ExperimentRunner(cache, quick, progress, load)
        self.can_draw = importlib.util.find_spec("matplotlib") is not None
        self.made = Reproduction(quick)

    def run(self, parts: Sequence[str]) -> Reproduction:
        for part in parts:
            self.progress.note(part)
            try:
                self._do(part)
            except DatasetNotFoundError as error:
                self.made.missing.append(f"{part}: {error}")
            self.progress.advance()
        order = (*_FIGURES, *(saved.figure.name for saved in self.made.figures))
        self.made.figures.sort(key=lambda saved: order.index(saved.figure.name))
        self.made.findings.sort(key=lambda finding: list(CLAIMS).index(finding.claim.id))
        self.made.data = self.runner.fingerprints()
        return self.made

    def _do(self, part: str) -> None:
        if part in figures.FIGURES:
            self._save(figures.FIGURES[part](self.runner))
        if part == "fig7":
            self._weighted_mf()
        elif part == "tables":
            self._tables()
        elif part == "claims":
            self.made.findings += claims.judge_all(self.runner)
            self.made.headlines += claims.headlines(self.runner)
        elif part in ("theory", "fig5"):
            self._theory(EXPERIMENTS if part == "theory" else [figure_5])

    def _theory(self, experiments: Sequence[Callable[[bool], Experiment]]) -> None:
        for experiment in run_theory(self.quick, self.progress, experiments):
            if experiment.left_out:
                self.made.missing.append(f"{experiment.title}: {experiment.left_out}")
                continue
            self.made.findings += experiment.findings
            if experiment.name == "figure-5":
                self._save(figures.figure_5(experiment))
            elif not experiment.table.is_empty():
                text = figures.rounded(experiment.table).write_csv()
                _write(self.out / "theory" / f"{experiment.name}.csv", text)

    def _weighted_mf(self) -> None:
        for dataset, curves in self.runner.weighted_mf.items():
            evaluation = getattr(self.runner, dataset)
            self.made.findings += claims.judge_weighted_mf(evaluation, curves)
        if not self.runner.weighted_mf:
            self.made.missing.append(
                "fig7, curves and claims of Weighted MF: they need 'implicit', which is not "
                'installed. Install it with: pip install "equipoise[als]"'
            )

    def _tables(self) -> None:
        self.made.tables += tables.literature_tables()
        try:
            data = {dataset: self.runner.data(dataset) for dataset in DATASETS}
            self.made.tables.append(tables.data_table(data))
        finally:
            for name, title, table in self.made.tables:
                text = Shown(title, table.columns, table.rows()).markdown()
                _write(self.out / "tables" / f"{name}.md", text)
                _write(self.out / "tables" / f"{name}.csv", table.write_csv())

    def _save(self, figure: Figure) -> None:
        folder = self.out / "figures"
        _write(folder / f"{figure.name}.csv", figure.table.write_csv())
        pictures = {kind: figure.render(kind) for kind in _FORMATS if self.can_draw}
        for kind, content in pictures.items():
            write_whole(folder / f"{figure.name}.{kind}", content)
        self.made.figures.append(SavedFigure(figure, pictures.get("svg", b"")))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
