"""The recommended setting: chosen on validation, rendered as a Python call and as a command."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from equipoise.audit.findings import Advice, Settings
from equipoise.audit.formatting import plain, symbol
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.task import Task
from equipoise.evaluation.tuning import Trial, search
from equipoise.exceptions import SolverWarning
from equipoise.models import Recommender
from equipoise.models.registry import find_model
from equipoise.progress import Progress

# Name of data without a name.
UNNAMED = "interactions"

# Command-line options of parameters that have another name there.
_OPTIONS = {"n_components": "rank"}


class Selection(NamedTuple):
    """What was tried on the validation part.

    Attributes
    ----------
    trials : tuple of Trial
        Every setting with its score.
    choice : Trial
        The best; of equals the first.
    metric : str
        The score, e.g. "ndcg@20".
    """

    trials: tuple[Trial, ...]
    choice: Trial
    metric: str

    def score(self, trial: Trial) -> float:
        """Return the score of a trial."""
        return trial.scores[self.metric]

    def best(self, settings: Mapping[str, Any]) -> Trial:
        """Return the best of the trials with these settings; of equals the first."""
        wanted = settings.items()
        return max((t for t in self.trials if wanted <= t.settings.items()), key=self.score)


def select(
    task: Task | None,
    base: Recommender,
    grid: Mapping[str, Sequence[Any]],
    k: int,
    progress: Progress | None = None,
) -> Selection | None:
    """Fit on train and score every setting of the grid on validation; None without validation.

    Of equal settings the first of the grid is chosen: list small values of its first parameter
    first.
    """
    if task is None:
        return None
    goal = Goal.parse(f"ndcg@{k}", None, (), k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # fewer components than tried are fine
        trials, complete = search(task, base, grid, goal, progress=progress)
    if not complete:  # part of the grid would give another choice
        raise KeyboardInterrupt
    choice = trials[goal.best([trial.scores for trial in trials])]
    return Selection(tuple(trials), choice, goal.target.label)


def advise(
    model: str,
    settings: Settings,
    selection: Selection | None,
    source: str,
    data_options: Mapping[str, Any],
) -> Advice:
    """Return the best setting on validation, or the audited one if there is no validation part."""
    if selection is None:
        why = (
            "There is no validation part to choose on: this is the requested setting, "
            "not a recommendation that was measured."
        )
        return Advice(model, settings.audited, source, data_options, why)
    chosen = {name: selection.choice.settings[name] for name in settings.audited}
    return Advice(model, chosen, source, data_options, _why(settings, selection))


def _why(settings: Settings, selection: Selection) -> str:
    choice, trials = selection.choice, selection.trials
    tried = {name: sorted({t.settings[name] for t in trials}) for name in settings.audited}
    counts = " and ".join(f"{len(values)} values of {symbol(n)}" for n, values in tried.items())
    score = selection.score(choice)
    chosen = f"NDCG@{settings.k} {score:.3f} on the validation part, the best of {counts}"
    pca = dict.fromkeys(settings.weighting, 0.0)
    equal = ", ".join(f"{symbol(name)} = 0" for name in pca)
    if pca.items() <= choice.settings.items():
        return f"{chosen}: here item weights do not improve on PCA ({equal})."
    edges = {name: values[-1] for name, values in tried.items()}
    edges |= {name: tried[name][0] for name in pca}  # weights grow as the exponent falls
    reached = " and ".join(symbol(n) for n, edge in edges.items() if choice.settings[n] == edge)
    beyond = f" Its {reached} is at the edge of what was tried." if reached else ""
    best = selection.score(selection.best(pca))
    return f"{chosen}; PCA ({equal}) reaches {best:.3f} at its best rank.{beyond}"


def python_call(advice: Advice) -> str:
    """Return the call that fits the advised model on `interactions`.

    Examples
    --------
    >>> settings = {"n_components": 8, "gamma": -1.0}
    >>> python_call(Advice("item-weighted", settings, "plays.csv", {"binarize": True}, ""))
    'ItemWeightedPCA(n_components=8, gamma=-1).fit(interactions.binarize())'
    """
    options = advice.data_options
    limits = [n for n in ("min_users_per_item", "min_items_per_user") if options.get(n)]
    data = "interactions"
    if limits:
        data += f".filter({', '.join(f'{name}={options[name]}' for name in limits)})"
    data += "".join(f".{n}()" for n in ("binarize", "normalize_rows") if options.get(n))
    parameters = ", ".join(f"{name}={plain(value)}" for name, value in advice.settings.items())
    return f"{type(find_model(advice.model).make()).__name__}({parameters}).fit({data})"


def command(advice: Advice) -> str:
    """Return the command that reads the data as the audit did, and fits and saves the model.

    Examples
    --------
    >>> settings = {"n_components": 8, "gamma": -1.0}
    >>> command(Advice("item-weighted", settings, "plays.csv", {"binarize": True}, ""))
    'equipoise fit plays.csv --binarize --rank 8 --gamma -1 --out model.eqp'
    """
    settings = {_OPTIONS.get(name, name): plain(v) for name, v in advice.settings.items()}
    words = [
        word
        for name, value in {**advice.data_options, **settings}.items()
        for word in _option(name, value)
    ]
    return " ".join(["equipoise fit", _data_argument(advice.source), *words, "--out model.eqp"])


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", shlex.quote(str(value))]


def _data_argument(source: str) -> str:
    """Return the data as a shell argument; DATA if the source is a description, not an address.

    Examples
    --------
    >>> _data_argument("my plays.csv"), _data_argument("example data")
    ("'my plays.csv'", 'DATA')
    """
    described = source == UNNAMED or (" " in source and not set(source) & set("./\\:*"))
    return "DATA" if described else shlex.quote(source)
