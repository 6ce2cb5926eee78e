"""All models by name: those of this package, and those of others through entry points.

A package registers a subclass of `equipoise.models.Recommender` under the entry point group
``equipoise.models``. The name of the entry point is the model's name on the command line::

    [project.entry-points."equipoise.models"]
    my-model = "my_package.models:MyModel"

The models of this package are listed in ``models.toml``. Their classes are imported on first use,
so the list loads nothing heavy and no extra.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from equipoise.exceptions import InvalidParameterError
from equipoise.plugins import is_subclass_of, registered

if TYPE_CHECKING:
    from equipoise.models.base import Recommender

#: Entry-point group in which other packages register their models
ENTRY_POINTS = "equipoise.models"

Computation = Literal["closed form", "iterative"]

# The modules of each extra, to find out whether it is installed without importing it.
_MODULES = {"als": ("implicit",), "lightgcn": ("torch", "torch_geometric")}

#: number of components that models with a low rank are tried at
RANKS = (4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One model.

    A class of another package sets all but the first four in its attribute ``about``.

    Attributes
    ----------
    key : str
        Its name on the command line.
    module, class_name : str
        The module and the class.
    package : str or None
        The distribution that registers it; None for the models of this package.
    title : str
        Its name in tables.
    paper : str
        Authors and year of its paper; "" without one.
    computation : {"closed form", "iterative"} or None
        Whether one decomposition, solution or count gives the result, independent of a start.
    convex : bool or None
        Whether the result is the optimum of a convex program; None where nothing is optimized.
    hard_rank : bool
        Whether the scores have a rank that the user bounds.
    beyond_missing_data : bool or None
        Whether its weights make sense where no entry is missing (the paper's Table 2); None for
        a model that does not weight items or entries by popularity.
    needs_labels : bool
        Whether it requires the groups of users or items.
    extra : str or None
        The extra of this package that it needs.
    search : mapping of str to tuple
        Values of parameters that `tune` tries by default: in every combination, unless the class
        has its own `search_steps`.
    """

    key: str
    module: str
    class_name: str
    package: str | None = None
    title: str
    paper: str = ""
    computation: Computation | None = None
    convex: bool | None = None
    hard_rank: bool = False
    beyond_missing_data: bool | None = None
    needs_labels: bool = False
    extra: str | None = None
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether the extra is installed; nothing is imported to find out."""
        return self.extra is None or all(map(_is_installed, _MODULES[self.extra]))

    @property
    def install_command(self) -> str | None:
        """The command that installs the extra; None without one."""
        return None if self.extra is None else f'pip install "equipoise[{self.extra}]"'

    def load_class(self) -> type[Recommender]:
        """Import the class."""
        return getattr(importlib.import_module(self.module), self.class_name)

    def parameters(self) -> list[str]:
        """Return the names of the constructor's parameters."""
        return list(inspect.signature(self.load_class()).parameters)

    def make(self, **parameters: Any) -> Recommender:
        """Return an unfitted model with its defaults, except for the given parameters.

        Values that are not allowed are refused here, before data are read; the constructor alone
        accepts them until `fit`.
        """
        model = self.load_class()(**parameters)
        model._validate_params()
        return model

    def facts(self) -> dict[str, Any]:
        """Return everything but the module as JSON values."""
        facts = asdict(self)
        facts.pop("module")
        facts["class"] = facts.pop("class_name")
        search = {name: list(values) for name, values in self.search.items()}
        return facts | {
            "installed": self.installed,
            "install": self.install_command,
            "search": search,
        }


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module without a spec was put into sys.modules
        return False


def _read_models() -> dict[str, ModelEntry]:
    text = Path(__file__).with_name("models.toml").read_text(encoding="utf-8")
    found = {}
    for key, fields_of in tomllib.loads(text).items():
        module = f"{__package__}.{fields_of.pop('module')}"
        search = {name: tuple(tried) for name, tried in fields_of.pop("search", {}).items()}
        found[key] = ModelEntry(key=key, module=module, search=search, **fields_of)
    return found


#: the models of this package by their names on the command line
MODELS: Mapping[str, ModelEntry] = _read_models()

#: the models of this package by the names of their classes
BY_CLASS: Mapping[str, ModelEntry] = {entry.class_name: entry for entry in MODELS.values()}

#: classes in model files that are not models of their own: they contain one
WRAPPERS: Mapping[str, str] = {"Reranked": "equipoise.reranking.reranked"}

# The fields of an entry that a class of another package may set in its attribute `about`
_ABOUT = {one.name for one in fields(ModelEntry)} - {"key", "module", "class_name", "package"}


def available() -> dict[str, ModelEntry]:
    """Return every model by name: those of this package, then those of other packages."""
    return {**MODELS, **_of_other_packages()}


@cache
def _of_other_packages() -> dict[str, ModelEntry]:
    from equipoise.models.base import Recommender

    kind = "a subclass of equipoise.models.Recommender"
    points = registered(ENTRY_POINTS, MODELS, kind, is_subclass_of(Recommender))
    found: dict[str, ModelEntry] = {}
    for name, (point, loaded) in points.items():
        about = {"title": point.attr, **loaded.about}
        if unknown := sorted(set(about) - _ABOUT):
            raise InvalidParameterError(
                f"{point.value} sets {unknown[0]!r} in `about`, which is unknown. "
                f"Known: {', '.join(sorted(_ABOUT))}."
            )
        found[name] = ModelEntry(
            key=name,
            module=point.module,
            class_name=point.attr,
            package=point.dist.name if point.dist else point.module.partition(".")[0],
            **about,
        )
    return found


def find_model(key: str) -> ModelEntry:
    """Return the entry of this name.

    Examples
    --------
    >>> find_model("ease").paper
    'Steck 2019'
    """
    entry = MODELS.get(key) or _of_other_packages().get(key)
    if entry is None:
        raise InvalidParameterError(f"unknown model {key!r}. Known: {', '.join(available())}.")
    return entry


def find_models(keys: Iterable[str]) -> list[ModelEntry]:
    """Return the entries of these names, each once; ``"all"`` is every one.

    Examples
    --------
    >>> [entry.title for entry in find_models(["ease", "pca", "ease"])]
    ['EASE', 'PCA']
    >>> len(find_models(["all"])) == len(available())
    True
    """
    wanted = [name for key in keys for name in (available() if key == "all" else [key])]
    return [find_model(key) for key in dict.fromkeys(wanted)]


def entry_of(model_class: type[Recommender]) -> ModelEntry | None:
    """Return the entry of a class; None for a class that is not registered.

    Examples
    --------
    >>> from equipoise import EASE
    >>> entry_of(EASE).key
    'ease'
    """
    name, module = model_class.__qualname__, model_class.__module__
    if name in BY_CLASS and module.startswith("equipoise."):
        return BY_CLASS[name]
    others = _of_other_packages().values()
    return next((one for one in others if (one.module, one.class_name) == (module, name)), None)
