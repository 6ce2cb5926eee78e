"""Base class of the three PCAs: components, scores X U f(Λ) Uᵀ, transformer methods."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_array
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._tags import Tags
from sklearn.utils.validation import check_is_fitted

from equipoise.checks import check_whole_number
from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare
from equipoise.exceptions import InvalidDataError, SolverWarning
from equipoise.metrics._ties import row_norms, user_limits
from equipoise.models.base import COMMON_CONSTRAINTS, Recommender
from equipoise.models.item_vectors import Factors, Floats, cosines_to, item_norms
from equipoise.models.low_rank import LowRank, unchanged
from equipoise.models.persistence import SavedModel, check_scalars
from equipoise.models.ranking import Scored
from equipoise.spectral.certificate import Certificate, certify, suboptimality
from equipoise.spectral.gram import DenseGram, Gram
from equipoise.spectral.lanczos import (
    LANCZOS_ZERO,
    basis_columns,
    block_width,
    wide_block,
)
from equipoise.spectral.lapack import BoundMethod, Eigenpairs
from equipoise.spectral.solve import (
    Components,
    Solver,
    solve,
)

Passes = Literal["auto", "few", "many"]
PASSES: tuple[Passes, ...] = get_args(Passes)


# Components of this accuracy rank items as exact ones do, but for near-ties; `tune` refits its
# choice at the model's own tolerance.
_SEARCH_TOLERANCE = 1e-5

# A smaller rank may end between two close eigenvalues, whose components converge last: on MovieLens
# at rank 32 a residual of 1e-6 still moves the fourth digit of recall.
_NESTED_TOLERANCE = 1e-8


class ProjectionModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Recommender):
    """Base of the models that project users onto leading components.

    A subclass may differ from PCA in the transform of rows (`_row_transform`), in the components
    (`_solve`) and in their weights in a score (`filter_factors`).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "passes": [StrOptions(set(PASSES))],
    }
    _arrays: ClassVar[dict[str, str]] = {
        **Recommender._arrays,
        "components_": "rm",
        "eigenvalues_": "r",
        "residuals_": "r",
        "item_norms_": "m",
    }
    _scalars: ClassVar[dict[str, type]] = {
        **Recommender._scalars,
        "n_components_": int,
        "solver_": str,
        "certificate_": dict,
    }

    components_: NDArray[Any]
    eigenvalues_: Floats
    residuals_: Floats
    item_norms_: Floats
    certificate_: Certificate
    n_components_: int
    solver_: Solver
    _dtype: np.dtype[Any]

    def __init__(
        self,
        n_components: int = 32,
        *,
        solver: Solver = "auto",
        tol: float = 1e-6,
        passes: Passes = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.passes = passes
        self.random_state = random_state

    @property
    def nested_parameter(self) -> str | None:
        """``n_components``: a smaller rank is `truncate` of a larger one."""
        return self.size_parameter

    def for_search(self) -> Self:
        """Return an unfitted copy whose components rank items as exact ones, but for near-ties."""
        faster: Self = clone(self).set_params(tol=max(self.tol, _SEARCH_TOLERANCE))
        return faster

    def for_evaluation(self) -> Self:
        """Return an unfitted copy that is accurate at every rank up to its own."""
        accurate: Self = clone(self).set_params(tol=min(self.tol, _NESTED_TOLERANCE))
        return accurate

    def low_rank(self) -> LowRank:
        """Return components, their weights, and the preparation of rows."""
        check_is_fitted(self)
        return LowRank(self.components_, self.filter_factors(), self._row_transform() or unchanged)

    def _solve(self, gram: Gram) -> Components:
        """Find the components; by default those of PCA: all weights one."""
        return solve(
            gram,
            np.ones(gram.n_items),
            self.n_components,
            solver=self.solver_,
            tol=self.tol,
            rng=self._generator(),
            block=self._block(gram),
            progress=self._progress,
        )

    def preprocess(self, user_items: sp.csr_array) -> sp.csr_array:
        """Return the rows that are projected: values transformed, rows or columns scaled."""
        transform = self._row_transform()
        return user_items if transform is None else transform(user_items)

    def filter_factors(self) -> NDArray[Any]:
        """Return f(λ_i), the weight of component i in a score; 1 in the paper's projector."""
        return np.ones(self.n_components_, self.components_.dtype)

    def _fit(self, data: Interactions) -> None:
        """Learn the components of users × items."""
        gram = self._prepare(data)
        self._learn(self._solve(gram))

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the users' coordinates X U, of shape (n_users, n_components_)."""
        check_is_fitted(self)
        coordinates: NDArray[Any] = self.preprocess(self._read(X)) @ self.components_.T
        return coordinates

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the approximation X̂ of these coordinates: a dense n_users × n_items array."""
        check_is_fitted(self)
        coordinates = check_array(X, dtype=[np.float64, np.float32])
        if coordinates.shape[1] != self.n_components_:
            raise InvalidDataError(
                f"inverse_transform takes {self.n_components_} coordinates per user, "
                f"got {coordinates.shape[1]}. Pass what transform returned."
            )
        approximation: NDArray[Any] = (coordinates * self.filter_factors()) @ self.components_
        return approximation

    def reconstruct(self, X: Any) -> NDArray[Any]:
        """Return the model's approximation X̂ of X: a dense n_users × n_items array."""
        return self.inverse_transform(self.transform(X))

    def self_reconstruction(self) -> NDArray[Any]:
        """Return the diagonal of P = UUᵀ: how much of each item's score comes from the item itself.

        This is the paper's projector; a spectral filter does not change it.
        """
        check_is_fitted(self)
        diagonal: NDArray[Any] = np.einsum("ij,ij->j", self.components_, self.components_)
        return diagonal

    def truncate(self, n_components: int) -> Self:
        """Return the model at a smaller rank, without refitting: solutions are nested.

        Parameters
        ----------
        n_components : int
            At most `n_components_`.
        """
        check_is_fitted(self)
        check_whole_number("n_components", n_components, least=1, most=self.n_components_)
        if n_components == self.n_components:
            return copy.copy(self)
        shorter: Self = copy.copy(self).set_params(n_components=n_components)
        kept = Eigenpairs(
            values=self.eigenvalues_[:n_components],
            vectors=self.components_[:n_components].T.astype(np.float64),
            residuals=self.residuals_[:n_components],
            next_value=self._first_left_out(n_components),
            passes=self.certificate_.passes,
            method=self.certificate_.method,
        )
        objective = float(kept.values.sum())
        bound = objective + suboptimality(kept, n_components)
        shorter.certificate_ = certify(
            kept, objective=objective, bound=bound, scale=1.0, passes=kept.passes
        )
        shorter.components_ = self.components_[:n_components]
        shorter.eigenvalues_, shorter.residuals_ = kept.values, kept.residuals
        shorter.n_components_ = n_components
        return shorter

    def _first_left_out(self, n_components: int) -> float:
        """Return an upper bound of the largest eigenvalue beyond the first components."""
        if n_components == self.n_components_:  # fewer were kept than requested: no more positive
            return 0.0
        rest = float(np.linalg.norm(self.residuals_[n_components:]))
        return float(self.eigenvalues_[n_components]) + rest

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _prepare(self, data: Interactions, *, fits: int = 1) -> Gram:
        """Build the Gram operator of the training data."""
        if self.solver in ("gram", "dense"):
            advice = "Use solver='matrix_free', which forms none."
            DenseGram.require_memory(data.n_items, f"solver={self.solver!r}", advice)
        auto = self.solver == "auto"
        self.solver_ = data.fastest_solver(self.n_components, fits=fits) if auto else self.solver
        self._dtype = data.dtype
        gram = self._signal(data).gram(kind=self.solver_)
        if self.solver_ == "matrix_free":
            width = self._block(gram) or block_width(self.n_components)
            data.check_memory(width, basis_columns(self.n_components, width))
        return gram

    def _signal(self, data: Interactions) -> Interactions:
        """Return the data that are projected, and learn their p_j = ‖X_·j‖₂."""
        signal = data.prepared(self._row_transform())
        self.item_norms_ = item_norms(signal)
        return signal

    def _row_transform(self) -> Prepare | None:
        """Return a function of rows that can be sent to other processes; None for no change."""
        return None

    def _block(self, gram: Gram) -> int | None:
        """Vectors per pass: many where reading the data dominates the cost."""
        few = gram.reading_dominates if self.passes == "auto" else self.passes == "few"
        return min(wide_block(self.n_components), gram.n_items) if few else None

    def _learn(self, found: Components) -> None:
        self.n_components_ = len(found.eigenvalues)
        if self.n_components_ < self.n_components:
            warnings.warn(
                f"{self.n_components_} of the {self.n_components} requested components were "
                f"kept: the data have no more with an eigenvalue above {self._zero():.0e} of the "
                "largest.",
                SolverWarning,
                stacklevel=5,
            )
        self.components_ = np.ascontiguousarray(found.vectors.T, dtype=self._dtype)
        self.eigenvalues_ = found.eigenvalues
        self.residuals_ = found.residuals
        self.certificate_ = found.certificate

    def _zero(self) -> float:
        """Return the eigenvalue below which the solver keeps none, relative to the largest."""
        dense = self.n_features_in_ * float(np.finfo(np.float64).eps)
        return dense if self.solver_ == "dense" else LANCZOS_ZERO

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return self._scorer(user_items)(slice(None)).scores

    def _scorer(self, user_items: sp.csr_array) -> Callable[[slice], Scored]:
        # in the order that SciPy multiplies with: otherwise it copies them for every block
        loadings = np.ascontiguousarray(self.components_.T)
        filter_factors = self.filter_factors()

        def score(block: slice) -> Scored:
            signal = self.preprocess(user_items[block])
            coordinates = signal @ loadings
            with np.errstate(over="ignore", invalid="ignore"):  # refused when they are ranked
                scores: NDArray[Any] = (coordinates * filter_factors) @ self.components_
            return Scored(scores, user_limits(row_norms(signal), coordinates, filter_factors))

        return score

    def factors(self) -> Factors:
        """Return the columns of the components, and the function from rows to user vectors."""
        check_is_fitted(self)

        def embed(user_items: sp.csr_array) -> NDArray[Any]:
            coordinates = self.preprocess(user_items) @ self.components_.T
            vectors: NDArray[Any] = coordinates * self.filter_factors()
            return vectors

        return Factors(self.components_.T, embed)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine between the items' rows of U f(Λ)^½; −inf for items with no such row."""
        return cosines_to(item, self.components_.T * np.sqrt(self.filter_factors()))

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        weighted = self.components_[:, item] * self.filter_factors()
        contributions: NDArray[Any] = signal.data * (weighted @ self.components_[:, signal.indices])
        return contributions

    def _learned_scalars(self) -> dict[str, Any]:
        return super()._learned_scalars() | {"certificate_": asdict(self.certificate_)}

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        model = super()._deserialize(saved)
        record = saved.scalars["certificate_"]
        kinds = {"float": float, "int": int, "BoundMethod": str}
        check_scalars(record, {field.name: kinds[str(field.type)] for field in fields(Certificate)})
        if record["method"] not in get_args(BoundMethod):
            raise ValueError(f"method of certificate_ is {record['method']!r:.40}")
        model.certificate_ = Certificate(**record)
        return model
