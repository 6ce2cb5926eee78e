"""Base classes: models of leading components, and the PCAs with their scores X U f(Λ) Uᵀ."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.data.identifiers import as_id_array
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.metrics.ties import row_norms, user_limits
from equipoise.models.base import Recommender
from equipoise.models.estimator import Transformer, check_is_fitted, clone
from equipoise.models.explanations import PaddedRows
from equipoise.models.item_vectors import (
    Factors,
    Floats,
    LowRank,
    cosines_to,
    item_norms,
    project_onto,
    unchanged,
)
from equipoise.models.parameters import Count, Finite, NonNegative, RandomState, Tolerance
from equipoise.models.persistence import SavedModel
from equipoise.models.ranking import Scored
from equipoise.models.user_rows import TransformsValues
from equipoise.progress import Progress
from equipoise.spectral.certificate import Certificate, Components, certify_pairs
from equipoise.spectral.gram import DenseGram, Gram
from equipoise.spectral.groups.minmax import EigenSolver
from equipoise.spectral.lanczos import (
    LANCZOS_ZERO,
    basis_columns,
    block_width,
    wide_block,
)
from equipoise.spectral.lapack import Eigenpairs
from equipoise.spectral.norms import column_norms
from equipoise.spectral.solve import (
    Solver,
    solve,
)

if TYPE_CHECKING:
    from equipoise.models.pca.update import Update

Passes = Literal["auto", "few", "many"]
SpectralFilter = Literal["hard", "power", "ridge"]

# Components of this accuracy rank items as exact ones do, but for near-ties; `tune` refits its
# choice at the model's own tolerance.
_SEARCH_TOLERANCE = 1e-5

# A smaller rank may end between two close eigenvalues, whose components converge last: on MovieLens
# at rank 32 a residual of 1e-6 still moves the fourth digit of recall.
_NESTED_TOLERANCE = 1e-8


# What a model learns for each component: `truncate` keeps the first ones.
_BY_COMPONENT = {
    *("components_", "eigenvalues_", "residuals_"),
    *("explained_variance_", "explained_variance_ratio_"),
}


class NewItems(NamedTuple):
    """Vectors of items from their interactions, without a fit; see `project_items`.

    Attributes
    ----------
    vectors : ndarray of shape (n_new, n_components_)
        v = BᵀU Θ⁻¹, where B is the block of M between known and new items: the entries that make
        Mu = θu hold for the new items, to first order.
    errors : ndarray of shape (n_components_,)
        Residual of each component of the larger problem, relative to θ_1. An eigenvalue lies within
        this distance of θ_i.
    """

    vectors: Floats
    errors: Floats


@dataclass(eq=False, repr=False)
class ComponentModel(TransformsValues, Recommender):
    """Base of the models whose smaller ranks are the first of their components.

    A subclass learns `components_` and `eigenvalues_`.
    """

    n_components: Count = 32
    _: KW_ONLY
    solver: Solver = "auto"
    tol: Tolerance = 1e-6
    random_state: RandomState = None

    passes = "auto"  # a parameter of those models that declare it

    @property
    def nested_parameter(self) -> str | None:
        """``n_components``: a smaller rank is `truncate` of a larger one."""
        return self.size_parameter

    def truncate(self, n_components: int) -> Self:
        """Return the model at a smaller rank, without refitting: solutions are nested.

        Parameters
        ----------
        n_components : int
            At most that of the model.
        """
        self._check_truncation(n_components, self.n_components)
        shorter: Self = copy.copy(self).set_params(n_components=n_components)
        for name in _BY_COMPONENT & vars(self).keys():
            setattr(shorter, name, getattr(self, name)[:n_components])
        shorter.n_components_ = len(shorter.eigenvalues_)
        return shorter

    def _check_truncation(self, n_components: int, most: int) -> None:
        check_is_fitted(self)
        if self.nested_parameter is None:
            raise InvalidParameterError(
                f"{self} has no nested ranks: its optimum of one rank does not contain that of a "
                f"smaller one. Refit with n_components={n_components}."
            )
        check_whole_number("n_components", n_components, least=1, most=most)

    def _choose_solver(self, data: Interactions, *, fits: int = 1) -> Solver:
        """Return the solver for these data; refuse a Gram matrix that does not fit into memory."""
        if self.solver in ("gram", "dense"):
            advice = "Use solver='matrix_free', which forms none."
            DenseGram.require_memory(data.n_items, f"solver={self.solver!r}", advice)
        auto = self.solver == "auto"
        return data.fastest_solver(self.n_components, fits=fits) if auto else self.solver

    def _check_memory(self, data: Interactions, gram: Gram, solver: Solver) -> None:
        """Refuse a fit by passes over the data whose vectors do not fit into memory."""
        if solver == "matrix_free":
            width = self._block(gram) or block_width(self.n_components)
            data.check_memory(width, basis_columns(self.n_components, width))

    def _block(self, gram: Gram) -> int | None:
        """Vectors per pass: many where reading the data dominates the cost."""
        few = gram.reading_dominates if self.passes == "auto" else self.passes == "few"
        return min(wide_block(self.n_components), gram.n_items) if few else None

    def _leading(
        self, gram: Gram, solver: Solver, weights: Floats | None = None, **options: Any
    ) -> Components:
        """Find the leading components under weights of items, by default all one."""
        return solve(
            gram,
            np.ones(gram.n_items) if weights is None else weights,
            self.n_components,
            solver=solver,
            tol=self.tol,
            rng=self._generator(),
            progress=self._progress,
            **options,
        )

    def _keep(self, found: Components, dtype: Any, why_fewer: str) -> None:
        """Learn the components; warn, in the name of the caller of `fit`, if there are fewer."""
        self.eigenvalues_ = found.pairs.values
        self.n_components_ = len(self.eigenvalues_)
        self.components_ = np.ascontiguousarray(found.pairs.vectors.T, dtype)
        if self.n_components_ < self.n_components:
            warnings.warn(
                f"{self.n_components_} of the {self.n_components} requested components were "
                f"kept: {why_fewer}.",
                SolverWarning,
                stacklevel=5,
            )


@dataclass(eq=False, repr=False)
class ProjectionModel(Transformer, ComponentModel):
    """Base of the models that project users onto leading components.

    A subclass may differ from PCA in the transform of rows (`_row_transform`), in the components
    (`_solve`) and in their weights in a score (`filter_factors`).
    """

    _certificate: ClassVar[type] = Certificate

    _: KW_ONLY
    user_scaling: Finite = 0.0
    passes: Passes = "auto"

    def for_search(self) -> Self:
        """Return an unfitted copy whose components rank items as exact ones, but for near-ties."""
        return clone(self).set_params(tol=max(self.tol, _SEARCH_TOLERANCE))

    def for_evaluation(self) -> Self:
        """Return an unfitted copy that is accurate at every rank up to its own."""
        return clone(self).set_params(tol=min(self.tol, _NESTED_TOLERANCE))

    def low_rank(self) -> LowRank:
        """Return components, their weights, and the preparation of rows."""
        check_is_fitted(self)
        return LowRank(self.components_, self.filter_factors(), self._row_transform() or unchanged)

    def _solve(self, gram: Gram) -> Components:
        """Find the components; by default those of PCA: all weights one."""
        return self._leading(gram, self.solver_, block=self._block(gram))

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
        return self._in_container(self.preprocess(self._read(X)) @ self.components_.T, X)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the approximation X̂ of these coordinates: a dense n_users × n_items array."""
        from sklearn.utils import check_array

        check_is_fitted(self)
        coordinates = check_array(X, dtype=[np.float64, np.float32])
        if coordinates.shape[1] != self.n_components_:
            raise InvalidDataError(
                f"inverse_transform takes {self.n_components_} coordinates per user, "
                f"got {coordinates.shape[1]}. Pass what transform returned."
            )
        return (coordinates * self.filter_factors()) @ self.components_

    def reconstruct(self, X: Any) -> NDArray[Any]:
        """Return the model's approximation X̂ of X: a dense n_users × n_items array."""
        return self.inverse_transform(self.transform(X))

    def project_items(self, user_items: sp.csr_array, new: sp.csr_array) -> NewItems:
        """Compute vectors of items from the rows of users who interacted with them.

        Parameters
        ----------
        user_items : csr_array of shape (n_users, n_items)
            Interactions of these users with the model's items, prepared like the training data.
        new : csr_array of shape (n_users, n_new)
            Their interactions with the other items. Other users add nothing.
        """
        check_is_fitted(self)
        m = user_items.shape[1]
        signal = self.preprocess(sp.csr_array(sp.hstack([user_items, new], format="csr")))
        X, x = sp.csr_array(signal[:, :m]), sp.csr_array(signal[:, m:])
        w = self._weights_of(self.item_norms_)[:, None]
        w_new = self._weights_of(column_norms(x))[:, None]
        U, theta = self.components_.T.astype(np.float64), self.eigenvalues_
        v = (w_new * (x.T @ (X @ U)) + x.T @ (X @ (w * U))) / (2 * theta)
        old = (w * (X.T @ (x @ v)) + X.T @ (x @ (w_new * v))) / 2  # B v: not in the components
        own = (w_new * (x.T @ (x @ v)) + x.T @ (x @ (w_new * v))) / 2
        left = np.sqrt(np.square(old).sum(axis=0) + np.square(own).sum(axis=0)) + self.residuals_
        return NewItems(v, left / theta[0])

    def add_items(self, interactions: Interactions) -> Self:
        """Return the model with the items of these rows that it lacks, by `project_items`.

        All else, and the certificate, stay those of the fit: this is for the time until the next
        `update` or fit. The model has `projection_errors_`, the errors of `project_items`.

        Parameters
        ----------
        interactions : Interactions
            All interactions of the users who interacted with the new items, in memory.
        """
        interactions = Interactions.require(interactions)
        larger, known = self._with_new_items(interactions.item_ids), self.n_features_in_
        if larger.n_features_in_ == known:
            larger.projection_errors_ = np.zeros(0)
            return larger
        rows = larger._read(interactions)
        new = sp.csr_array(rows[:, known:])
        found = self.project_items(sp.csr_array(rows[:, :known]), new)
        vectors = found.vectors.T.astype(self.components_.dtype)
        larger.components_ = np.ascontiguousarray(np.hstack([self.components_, vectors]))
        larger.item_norms_ = np.append(self.item_norms_, column_norms(new))
        larger.item_counts_ = np.append(self.item_counts_, np.diff(new.tocsc().indptr))
        if hasattr(self, "item_weights_"):
            larger.item_weights_ = self._weights_of(larger.item_norms_)
        larger.projection_errors_ = found.errors
        return larger

    def _with_new_items(self, item_ids: NDArray[Any]) -> Self:
        """Return a copy with the items that it lacks behind its own; nothing is learned of them."""
        if self.item_ids_ is None:
            raise InvalidParameterError("new items need a model with ids: fit on Interactions.")
        self._weights_of(self.item_norms_)  # refuses models without a rule for weights
        fresh = item_ids[self._item_lookup.find(item_ids) < 0]
        larger: Self = copy.copy(self)
        larger.__dict__.pop("_item_lookup", None)
        larger.item_ids_ = as_id_array([*self.item_ids_.tolist(), *fresh.tolist()], "item")
        larger.n_features_in_ = len(larger.item_ids_)
        return larger

    def update(
        self,
        interactions: Interactions,
        *,
        all_data: bool = False,
        replaced: Interactions | None = None,
        passes: int = 2,
        refit_above: float | None = None,
        progress: Progress | None = None,
    ) -> Update:
        """Return the model with new rows, users and items, and a bound of what a refit would gain.

        By default the rows are added to the sums XᵀX that `keep_gram` stored, and the problem is
        solved again: exact, without the old data. After a fit on filtered data, its items stay, and
        users with too few items are left out.

        With `all_data`, the components are improved in one or two passes over all data, old and
        new: Rayleigh–Ritz on the old components, a few random vectors and, from the second pass on,
        their residuals. The certificate bounds what a full refit would gain. The result keeps no
        sums; `keep_gram` stores them again.

        Parameters
        ----------
        interactions : Interactions
            The rows of new users, or all data of today, in memory, on disk or on a cluster; the
            preparation of the fit is repeated.
        all_data : bool
            Whether the rows are all data. A model without sums needs them.
        replaced : Interactions, optional
            The former rows of users whose rows changed, which `interactions` contain in full. Not
            with `all_data`.
        passes : int
            Passes over all data.
        refit_above : float, optional
            With `all_data`: as long as the bound, relative to the objective, exceeds this, take
            another pass; after the sixth, refit from the start.
        progress : Progress, optional
            Receives the progress of a refit.

        Returns
        -------
        Update
            ``model``, ``loss``, ``passes``, ``refitted``.
        """
        from equipoise.models.pca.update import update, update_from_gram

        interactions = Interactions.require(interactions)
        if not all_data:
            former = None if replaced is None else Interactions.require(replaced, "replaced")
            return update_from_gram(self, interactions, former)
        if replaced is not None:
            raise InvalidParameterError("replaced= has no effect with all_data=True. Leave it out.")
        return update(self, interactions, passes=passes, refit_above=refit_above, progress=progress)

    def keep_gram(self, interactions: Interactions) -> Self:
        """Store XᵀX of the training data in the model; `update` can then add rows to it.

        This takes 8 bytes per pair of items, in memory and in the file: 0.8 GB for 10,000 items.
        """
        check_is_fitted(self)
        self._weights_of(self.item_norms_)  # refuses models that are not updated
        if not hasattr(self, "item_weights_"):
            raise InvalidParameterError(
                f"{type(self).__name__} keeps no sums. Use ItemWeightedPCA with gamma; gamma=0 is "
                "PCA."
            )
        DenseGram.require_memory(self.n_features_in_, "keep_gram", "Update with all data instead.")
        signal = self.prepare(interactions).prepared(self._row_transform())
        self.gram_ = signal.dense_gram().matrix()
        return self

    def _weights_of(self, norms: Floats) -> Floats:  # noqa: ARG002
        """Return the weights of items with these norms, for items that are added without a fit."""
        raise InvalidParameterError(
            f"items are not added to a {type(self).__name__} without a fit. Use ItemWeightedPCA "
            "with gamma, or VanillaPCA."
        )

    def self_reconstruction(self) -> NDArray[Any]:
        """Return the diagonal of P = UUᵀ: how much of each item's score comes from the item itself.

        This is the paper's projector; a spectral filter does not change it.
        """
        check_is_fitted(self)
        return np.einsum("ij,ij->j", self.components_, self.components_)

    def truncate(self, n_components: int) -> Self:
        """Return the model at a smaller rank, without refitting: solutions are nested.

        Parameters
        ----------
        n_components : int
            At most `n_components_`.
        """
        self._check_truncation(n_components, self.n_components_)
        if n_components == self.n_components:
            return copy.copy(self)
        shorter = super().truncate(n_components)
        kept = Eigenpairs(
            values=shorter.eigenvalues_,
            vectors=shorter.components_.T.astype(np.float64),
            residuals=shorter.residuals_,
            next_value=self._first_left_out(n_components),
            passes=self.certificate_.passes,
            method=self.certificate_.method,
        )
        shorter.certificate_ = certify_pairs(kept, n_components)
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

    def _prepare(self, data: Interactions, *, fits: int = 1) -> Gram:
        """Build the Gram operator of the training data."""
        self.solver_ = self._choose_solver(data, fits=fits)
        self._dtype = data.dtype
        gram = self._signal(data).gram(kind=self.solver_)
        self._check_memory(data, gram, self.solver_)
        return gram

    def _signal(self, data: Interactions) -> Interactions:
        """Return the data that are projected, and learn their p_j = ‖X_·j‖₂."""
        signal = data.prepared(self._row_transform())
        self.item_norms_ = item_norms(signal)
        return signal

    def _learn(self, found: Components) -> None:
        zero = f"{self._zero():.0e} of the largest"
        self._keep(found, self._dtype, f"the data have no more with an eigenvalue above {zero}")
        self.residuals_ = found.pairs.residuals
        self.certificate_ = found.certificate
        self._learn_more(found)

    def _learn_more(self, found: Components) -> None:
        """Learn what only this model has; by default nothing."""

    def _zero(self) -> float:
        """Return the eigenvalue below which the solver keeps none, relative to the largest."""
        dense = self.n_features_in_ * float(np.finfo(np.float64).eps)
        return dense if self.solver_ == "dense" else LANCZOS_ZERO

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return self._scorer(user_items)(slice(None)).scores

    def _scorer(self, user_items: sp.csr_array) -> Callable[[slice], Scored]:
        coordinates_of = project_onto(self.components_, user_items.nnz)
        filter_factors = self.filter_factors()
        alone = user_items.shape[0] == 1

        def score(block: slice) -> Scored:
            signal = self.preprocess(user_items if alone else user_items[block])
            coordinates = coordinates_of(signal)
            with np.errstate(over="ignore", invalid="ignore"):  # refused when they are ranked
                weighted = coordinates * filter_factors
                # one row as a vector: BLAS then reads the components once, without a copy
                product = weighted[0] @ self.components_ if alone else weighted @ self.components_
            scores = product[None] if alone else product
            return Scored(scores, user_limits(row_norms(signal), coordinates, filter_factors))

        return score

    def factors(self) -> Factors:
        """Return the columns of the components, and the function from rows to user vectors."""
        low_rank = self.low_rank()
        return Factors(low_rank.components.T, low_rank.user_vectors)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine between the items' rows of U f(Λ)^½; −inf for items with no such row."""
        return cosines_to(item, self.components_.T * np.sqrt(self.filter_factors()))

    def _contributions_to(self, user_items: sp.csr_array, lists: NDArray[np.intp]) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        columns, stored = PaddedRows.of(signal)
        used = np.zeros(self.n_features_in_, dtype=bool)
        used[signal.indices] = used[lists] = True
        vectors = np.ascontiguousarray(self.components_[:, used].T)
        place = np.cumsum(used) - 1
        weighted = vectors[place[lists]] * self.filter_factors()
        products = weighted @ vectors[place[columns]].swapaxes(1, 2)
        return np.asarray(products * PaddedRows.spread(signal.data, stored)[:, None])

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        record = saved.scalars.pop("certificate_")
        model = super()._deserialize(saved)
        lists = {k: tuple(v) for k, v in record.items() if isinstance(v, list)}
        model.certificate_ = cls._certificate(**record | lists)
        return model


@dataclass(eq=False, repr=False)
class FilteredProjection(ProjectionModel):
    """A projection with a spectral filter."""

    _: KW_ONLY
    spectral_filter: SpectralFilter = "hard"
    filter_strength: NonNegative = 0.0

    @property
    def free_parameters(self) -> frozenset[str]:
        """The spectral filter: it weighs the components when scoring."""
        return frozenset({"spectral_filter", "filter_strength"})

    def filter_factors(self) -> NDArray[Any]:
        """Return f(λ_i), the weight of component i in a score."""
        return self._filtered_values().astype(self.components_.dtype)

    def _eigen_solver(self, gram: Gram) -> EigenSolver:
        """Return the solver of eigenproblems of these data, whatever their weights."""
        return EigenSolver(
            self._generator(),
            block=self._block(gram),
            progress=self._progress,
            lapack=self.solver_ == "dense",
        )

    def _filtered_values(self) -> Floats:
        tiny = np.finfo(np.float64).tiny
        values = np.maximum(self.eigenvalues_, 0.0)
        relative: Floats = values / max(float(values.max(initial=0.0)), tiny)
        if self.spectral_filter == "power":
            relative = relative**self.filter_strength
        elif self.spectral_filter == "ridge":
            relative = relative / np.maximum(relative + self.filter_strength, tiny)
        else:
            relative = np.ones_like(relative)
        return relative
