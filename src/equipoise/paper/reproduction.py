"""`run`: measure what was asked for, judge it, draw it, and write it all into one folder."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from equipoise.data.catalog import DatasetNotFoundError
from equipoise.exceptions import InvalidParameterError, require_extra
from equipoise.files import write_whole
from equipoise.paper import baselines, claims, figures, more_figures, tables
from equipoise.paper.drawing import Figure
from equipoise.paper.gallery import Gallery
from equipoise.paper.measurements import Evaluation, Laboratory, Load
from equipoise.paper.page import render
from equipoise.paper.protocol import DATASETS
from equipoise.paper.recorded import recorded_lightgcn
from equipoise.paper.report import Reproduction
from equipoise.paper.tables import PaperTable
from equipoise.paper.theory import Experiment, run_theory
from equipoise.paper.theory.bernoulli import bernoulli
from equipoise.progress import Progress, task

_FIGURES = tuple(f"fig{i}" for i in range(1, 9))
_PARTS = ("theory", *_FIGURES, "tables", "claims")
TARGETS = ("all", *_PARTS)

_NO_PICTURES = (
    "only their numbers are written (figures/*.csv). Drawing needs 'matplotlib', which is not "
    'installed. Install it with: pip install "equipoise[plot]"'
)
# These targets ask for verdicts or tables. The figures of the theory come with them unasked.
_WITHOUT_FIGURES = {"claims", "tables"}


def run(
    targets: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    progress: Progress | None = None,
    load: Load | None = None,
) -> Reproduction:
    """Reproduce the paper, or parts of it.

    Parameters
    ----------
    targets : sequence of str
        Of ``"all"``, ``"fig1"`` to ``"fig8"``, ``"tables"``, ``"theory"`` and ``"claims"``.
    out : Path
        Gets ``index.html``, ``claims.json``, ``claims.md``, ``figures/``, ``tables/`` and
        ``cache/``. A second run goes on from the cache.
    quick : bool
        Fewer ranks and smaller experiments; the claims are the same.
    progress : Progress, optional
        Receives one step per part; silent by default.
    load : callable, optional
        From a name in the catalogue to the paper's matrix; `load_dataset` by default.
    """
    parts = _parts(targets)
    with task(progress, "Reproducing the paper", len(parts)) as reproducing:
        done = _Run(out, quick, reproducing, load).run(parts)
    undrawn = [hung.figure.name for hung in done.figures if not hung.svg]
    if undrawn and set(targets) - _WITHOUT_FIGURES:
        done.missing.append(f"figures ({', '.join(undrawn)}): {_NO_PICTURES}")
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(done.as_dict(), indent=1, ensure_ascii=False)
    write_whole(out / "claims.json", text.encode())
    write_whole(out / "claims.md", f"{done.verdicts().markdown()}\n".encode())
    write_whole(out / "index.html", render(done).encode())
    return done


def _parts(targets: Iterable[str]) -> list[str]:
    """What to do, in the order in which it is done; Figure 5 comes with the theory."""
    wanted = set(targets) or {"all"}
    unknown = sorted(wanted - set(TARGETS))
    if unknown:
        raise InvalidParameterError(
            f"nothing to reproduce is called {unknown[0]!r}. Use: {', '.join(TARGETS)}."
        )
    if wanted & set(_FIGURES):
        require_extra("matplotlib", "plot", "drawing the paper's figures")
    if "all" in wanted:
        wanted = set(_PARTS)
    if wanted & {"theory", "claims"}:
        wanted = (wanted | {"theory"}) - {"fig5"}
    return [part for part in _PARTS if part in wanted]


class _Run:
    """One call of `run`: parts in order, each measured when first needed."""

    def __init__(
        self,
        out: Path,
        quick: bool,
        progress: Progress,
        load: Load | None,
    ) -> None:
        self.out, self.quick, self.progress = out, quick, progress
        cache = out / "cache"
        self.cache = cache / "evaluation"
        self.lab = Laboratory(self.cache, quick=quick, progress=progress, load=load)
        pictures = importlib.util.find_spec("matplotlib") is not None
        self.gallery = Gallery(out / "figures", cache / "figures.json", pictures=pictures)
        self.found = Reproduction(quick)

    def run(self, parts: Sequence[str]) -> Reproduction:
        for part in parts:
            self.progress.note(part)
            try:
                getattr(self, f"_{part}")()
            except DatasetNotFoundError as error:
                self.found.missing.append(f"{part}: {error}")
            self.progress.advance()
        order = (*_FIGURES, *(hung.figure.name for hung in self.found.figures))
        self.found.figures.sort(key=lambda hung: order.index(hung.figure.name))
        self.found.data = self.lab.fingerprints()
        return self.found

    def _hang(self, figure: Figure) -> None:
        self.found.figures.append(self.gallery.hang(figure))

    @property
    def _evaluations(self) -> tuple[Evaluation, ...]:
        return tuple(self.lab.evaluation(dataset) for dataset in DATASETS)

    def _theory(self) -> None:
        for experiment in run_theory(self.quick, progress=self.progress):
            self._take(experiment)

    def _take(self, experiment: Experiment) -> None:
        self.found.findings += experiment.findings
        if experiment.note:
            self.found.missing.append(f"{experiment.title}: {experiment.note}")
        if experiment.panels and experiment.table:
            self._hang(more_figures.theory_figure(experiment))

    def _fig1(self) -> None:
        self._hang(figures.figure_1(self.lab.teaser))

    def _fig2(self) -> None:
        self._hang(figures.figure_2(self._evaluations))

    def _fig3(self) -> None:
        self._hang(figures.figure_3(self._evaluations))

    def _fig4(self) -> None:
        self._hang(figures.figure_4(self._evaluations))

    def _fig5(self) -> None:
        self._take(bernoulli(self.quick))

    def _fig6(self) -> None:
        self._hang(figures.figure_6(self._evaluations))

    def _fig7(self) -> None:
        evaluations, lightgcn = self._evaluations, recorded_lightgcn()
        if not baselines.available():
            self.found.missing.append(baselines.MISSING)
            self._hang(more_figures.figure_7(evaluations, None, lightgcn))
            return
        curves = {
            dataset: baselines.measure_weighted_mf(
                self.lab.data(dataset), self.cache, quick=self.quick, progress=self.progress
            )
            for dataset in DATASETS
        }
        self.found.findings += baselines.judge_weighted_mf(evaluations, curves)
        self._hang(more_figures.figure_7(evaluations, curves, lightgcn))

    def _fig8(self) -> None:
        self._hang(figures.figure_8(self.lab.sweep, self.lab.evaluation("movielens")))

    def _tables(self) -> None:
        made = list(tables.literature_tables())
        try:
            made.append(tables.data_table(self._evaluations))
        finally:
            self._write_tables(made)

    def _write_tables(self, made: Sequence[PaperTable]) -> None:
        folder = self.out / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        for name, title, table in made:
            text = f"### {title}\n\n{table.markdown()}\n"
            write_whole(folder / f"{name}.md", text.encode())
            write_whole(folder / f"{name}.csv", table.csv().encode())
        self.found.tables += made

    def _claims(self) -> None:
        measurements = self.lab.measurements()
        self.found.findings = [*claims.judge(measurements), *self.found.findings]
        self.found.headlines += claims.headlines(measurements)
