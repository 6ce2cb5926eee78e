"""Every model in one table: its name on the command line, its paper, its needs, its search space.

Classes are named by the module that holds them and imported when they are asked for, so that the
table itself loads nothing heavy and no extra.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from equipoise.models.recommender import Recommender

Computation = Literal["closed form", "iterative"]

# What each extra brings, to ask whether it is here without importing it.
_MODULES = {"als": ("implicit",), "lightgcn": ("torch", "torch_geometric")}

#: number of components that models with a low rank are tried at
RANKS = (4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class ModelEntry:
    """One model.

    Attributes
    ----------
    key : str
        Its name on the command line.
    title : str
        Its name in tables.
    module, class_name : str
        Where it is.
    authors, year : str, int
        Of the paper it comes from; "" and None for what needs none.
    computation : {"closed form", "iterative"}
        Whether one decomposition, solution or count gives the answer, whatever the start.
    convex : bool or None
        Whether the answer is the optimum of a convex programme; None where nothing is optimized.
    hard_rank : bool
        Whether the scores have a rank that the user bounds.
    beyond_missing_data : bool or None
        Whether its weights make sense where no entry is missing (the paper's Table 2); None for
        a model that weighs no item or entry by popularity.
    needs_labels : bool
        Whether it must be told which users or items belong to which group.
    extra : str or None
        The extra of this package that it needs.
    search : mapping of str to tuple
        Values of parameters that `tune` tries by default, every combination.
    """

    key: str
    title: str
    module: str
    class_name: str
    authors: str
    year: int | None
    computation: Computation
    convex: bool | None
    hard_rank: bool
    beyond_missing_data: bool | None = None
    needs_labels: bool = False
    extra: str | None = None
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        """Authors and year, in one line."""
        return self.authors if self.year is None else f"{self.authors} {self.year}"

    @property
    def installed(self) -> bool:
        """Whether everything that the extra brings is here; nothing is imported to find out."""
        return self.extra is None or all(map(_is_here, _MODULES[self.extra]))

    @property
    def install_command(self) -> str | None:
        """What to type where it is not installed; None if the core is enough."""
        return None if self.extra is None else f'pip install "equipoise[{self.extra}]"'

    def load_class(self) -> type[Recommender]:
        """Import the class."""
        found: type[Recommender] = getattr(importlib.import_module(self.module), self.class_name)
        return found

    def make(self, **parameters: Any) -> Recommender:
        """Return an unfitted model: its own defaults, but for what is given."""
        return self.load_class()(**parameters)

    def facts(self) -> dict[str, Any]:
        """Everything but the module, as JSON wants it."""
        return {
            "key": self.key,
            "title": self.title,
            "class": self.class_name,
            "paper": self.paper,
            "computation": self.computation,
            "convex": self.convex,
            "hard_rank": self.hard_rank,
            "beyond_missing_data": self.beyond_missing_data,
            "needs_labels": self.needs_labels,
            "extra": self.extra,
            "installed": self.installed,
            "install": self.install_command,
            "search": {name: list(values) for name, values in self.search.items()},
        }


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module without a spec: somebody put it (or None) there on purpose
        return False


# Of both matrix factorizations that weigh entries against popularity.
_REWEIGHTED = {
    "n_components": (16, 32, 64),
    "exponent": (0.25, 0.5, 1.0),
    "regularization": (0.1, 1.0, 10.0),
}

_HOME = "equipoise.models"
_LIU = "Liu, Baek & Eliassi-Rad"

_ENTRIES = (
    ModelEntry(
        "item-weighted",
        "Item-Weighted PCA",
        f"{_HOME}.item_weighted_pca",
        "ItemWeightedPCA",
        _LIU,
        2025,
        "closed form",
        convex=True,
        hard_rank=True,
        beyond_missing_data=True,
        # Steps are about as wide as the optima on the data sets of the paper: finer ones would
        # mostly tell the noise of a validation part apart.
        search={
            "n_components": RANKS,
            "gamma": (0.0, -0.5, -0.75, -1.0, -1.25, -1.5, -1.75, -2.0),
            "user_scaling": (0.0, 0.25, 0.5, 0.75),
        },
    ),
    ModelEntry(
        "pca",
        "PCA",
        f"{_HOME}.pca",
        "VanillaPCA",
        "Eckart & Young",
        1936,
        "closed form",
        convex=True,
        hard_rank=True,
        search={"n_components": RANKS},
    ),
    ModelEntry(
        "normalized",
        "Normalized PCA",
        f"{_HOME}.pca",
        "NormalizedPCA",
        _LIU,
        2025,
        "closed form",
        convex=True,
        hard_rank=True,
        beyond_missing_data=True,
        search={"n_components": RANKS},
    ),
    ModelEntry(
        "weighted-mf",
        "Weighted MF",
        f"{_HOME}.weighted_mf",
        "WeightedMF",
        "Hu, Koren & Volinsky",
        2008,
        "iterative",
        convex=False,
        hard_rank=True,
        extra="als",
        search={
            "n_components": (64, 128, 256),
            "alpha": (1.0, 4.0, 16.0, 64.0),
            "regularization": (3.0, 10.0, 30.0, 100.0),
        },
    ),
    ModelEntry(
        "lightgcn",
        "LightGCN",
        f"{_HOME}.lightgcn",
        "LightGCN",
        "He et al.",
        2020,
        "iterative",
        convex=False,
        hard_rank=True,
        extra="lightgcn",
        # at this rate: 0.01 gains .002 of NDCG on MovieLens and takes three times as long
        search={"n_components": (64, 128), "learning_rate": (0.03,)},
    ),
    ModelEntry(
        "ease",
        "EASE",
        f"{_HOME}.ease",
        "EASE",
        "Steck",
        2019,
        "closed form",
        convex=True,
        hard_rank=False,
        # XᵀX is of the size of 0.1 for shares and of 1000 for clicks, and λ with it
        search={
            "regularization": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
        },
    ),
    ModelEntry(
        "gfcf",
        "GF-CF",
        f"{_HOME}.gfcf",
        "GFCF",
        "Shen et al.",
        2021,
        "closed form",
        convex=None,
        hard_rank=False,
        search={"n_components": (32, 64, 128, 256), "ideal_weight": (0.1, 0.3, 1.0)},
    ),
    ModelEntry(
        "item-knn",
        "ItemKNN",
        f"{_HOME}.item_knn",
        "ItemKNN",
        "Sarwar et al.",
        2001,
        "closed form",
        convex=None,
        hard_rank=False,
        search={"n_neighbors": (20, 50, 100, 200), "shrinkage": (0.0, 0.1, 1.0, 10.0, 100.0)},
    ),
    ModelEntry(
        "popularity",
        "Popularity",
        f"{_HOME}.floors",
        "Popularity",
        "",
        None,
        "closed form",
        convex=None,
        hard_rank=False,
    ),
    ModelEntry(
        "random",
        "Random",
        f"{_HOME}.floors",
        "Random",
        "",
        None,
        "closed form",
        convex=None,
        hard_rank=False,
    ),
    ModelEntry(
        "ips-mf",
        "IPS-MF",
        f"{_HOME}.reweighted_mf",
        "IPSMF",
        "Schnabel et al.",
        2016,
        "iterative",
        convex=False,
        hard_rank=True,
        beyond_missing_data=False,
        search=_REWEIGHTED,
    ),
    ModelEntry(
        "popularity-mf",
        "Popularity-weighted MF",
        f"{_HOME}.reweighted_mf",
        "PopularityWeightedMF",
        "Steck",
        2011,
        "iterative",
        convex=False,
        hard_rank=True,
        beyond_missing_data=True,
        search=_REWEIGHTED,
    ),
    ModelEntry(
        "trace-norm",
        "Trace-norm MF",
        f"{_HOME}.trace_norm",
        "TraceNormMF",
        "Srebro, Rennie & Jaakkola",
        2004,
        "closed form",
        convex=True,
        hard_rank=False,
        beyond_missing_data=True,
        search={"penalty": (0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)},
    ),
)

#: every model by its name on the command line
MODELS: Mapping[str, ModelEntry] = {entry.key: entry for entry in _ENTRIES}

#: every model by the name of its class
BY_CLASS: Mapping[str, ModelEntry] = {entry.class_name: entry for entry in _ENTRIES}


def find_model(key: str) -> ModelEntry:
    """Return the entry of this name.

    Examples
    --------
    >>> find_model("ease").paper
    'Steck 2019'
    """
    if key not in MODELS:
        raise InvalidParameterError(f"unknown model {key!r}. Known: {', '.join(MODELS)}.")
    return MODELS[key]


def find_models(keys: Iterable[str]) -> list[ModelEntry]:
    """Return the entries of these names, each once; ``"all"`` is every one.

    Examples
    --------
    >>> [entry.title for entry in find_models(["ease", "pca", "ease"])]
    ['EASE', 'PCA']
    >>> len(find_models(["all"])) == len(MODELS)
    True
    """
    wanted = [name for key in keys for name in (MODELS if key == "all" else [key])]
    return [find_model(key) for key in dict.fromkeys(wanted)]
