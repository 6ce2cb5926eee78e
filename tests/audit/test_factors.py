from __future__ import annotations

import zipfile
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import Interactions, ItemWeightedPCA, NormalizedPCA, VanillaPCA, memory
from equipoise import metrics as m
from equipoise.audit import audit
from equipoise.audit.models.given import leading_directions, read_models
from equipoise.data import Split
from equipoise.data.synthetic import listening
from equipoise.exceptions import EquipoiseError, InvalidDataError, InvalidParameterError

M, RANK = 60, 6
ANY = listening(n_users=30, n_items=M, seed=0)


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=200, n_items=M, seed=5).normalize_rows()


@pytest.fixture(scope="module")
def split(plays):
    return plays.holdout(seed=0)


@pytest.fixture(scope="module")
def fitted(split):
    """What given models are fitted on."""
    return split.train


def ridge_scores(X, strength=0.1):
    """EASE: B_ij = −G_ij / G_jj off the diagonal, 0 on it, G the inverse of XᵀX + λI."""
    C = (X.T @ X).toarray()
    G = np.linalg.inv(C + strength * np.eye(len(C)))
    B = -G / np.diag(G)
    np.fill_diagonal(B, 0)
    return B


def own_share(model, size):
    """Self-reconstruction of every item."""
    return model.measure_items(ANY, [size], np.arange(M), 1).self_reconstruction[0]


def lists_of(model, data, size, k):
    return next(iter(model.lister([size]).lists(data.matrix, k)))


def measures(variant, at=-1):
    return {
        f"{metric} {group}": values[at]
        for metric, by_group in variant.means.items()
        for group, values in by_group.items()
    }


@pytest.mark.medium
def test_components_of_pca_reproduce_the_pca_column(split, fitted, tmp_path):
    model = VanillaPCA(RANK, tol=1e-10).fit(fitted.matrix)
    np.save(tmp_path / "components.npy", model.components_)
    np.savez(tmp_path / "sklearn.npz", components_=model.components_, mean_=np.zeros(M))
    given = {"by hand": model.components_.T.copy(), "npy": tmp_path / "components.npy"}
    models = {**given, "npz": tmp_path / "sklearn.npz"}
    found = audit(split, rank=RANK, models=models, budget=0)
    pca = found.variant("pca")
    at = pca.at
    for place, label in enumerate(("by hand", "npy", "npz")):
        column = found.variant(f"given:{place}")
        assert (column.key, column.label, column.kind) == (f"given:{place}", label, "factors")
        assert column.sizes == (2, 6)
        assert measures(column) == pytest.approx(measures(pca, at), abs=1e-6)
        np.testing.assert_allclose(
            column.self_reconstruction_by_item[0],
            pca.self_reconstruction_by_item[0],
            atol=1e-6,
            err_msg=label,
        )
        np.testing.assert_array_equal(column.neighbors, pca.neighbors)
    assert any("fold-in" in note for note in found.settings.notes)
    assert any("no ids" in note for note in found.settings.notes)


@pytest.mark.medium
def test_factors_are_measured_by_their_span_whatever_their_scale_and_rotation(split, fitted):
    rng = np.random.default_rng(0)
    U = VanillaPCA(RANK).fit(fitted.matrix).components_.T
    mixed = U @ (rng.normal(size=(RANK, RANK)) * 50)
    models = [mixed, np.hstack([mixed, mixed[:, :2]])]
    found = audit(split, rank=RANK, models=models, budget=0)
    pca = found.variant("pca")
    of_span = measures(pca, pca.sizes.index(RANK))  # not the lengths of the given vectors
    for column in found.variants[-2:]:
        assert column.sizes[-1] == RANK, "a repeated factor adds no direction"
        own = measures(column)
        assert {name: own[name] for name in of_span} == pytest.approx(of_span, abs=1e-6)


def test_leading_directions_are_ordered_by_length_and_orthonormal():
    Y = np.diag([1.0, 5.0, 3.0])[:, :3]
    A = leading_directions(Y)
    np.testing.assert_allclose(np.abs(A), np.eye(3)[:, [1, 2, 0]], atol=1e-12)
    Q = np.eye(4)[:, [2, 0]]
    np.testing.assert_array_equal(leading_directions(Q), Q)


def test_implicit_factors_are_read_from_what_its_save_writes(plays, fitted, tmp_path):
    als = pytest.importorskip("implicit.cpu.als")
    model = als.AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model.fit(sp.csr_matrix(fitted.matrix), show_progress=False)
    model.save(tmp_path / "als.npz")
    subjects = read_models([tmp_path / "als.npz", model], plays)
    assert [each.label for each in subjects] == ["als.npz", "AlternatingLeastSquares"]
    for subject in subjects:
        Q = np.linalg.qr(model.item_factors.astype(float))[0]
        np.testing.assert_allclose(own_share(subject, 8), (Q**2).sum(axis=1), atol=1e-6)
        nearest = subject.similar(np.arange(M), 4, 3)[0]
        ids, _ = model.similar_items(0, N=4)
        assert nearest.tolist() == [j for j in ids if j != 0][:3]


def test_implicit_neighbors_are_read_as_an_item_item_matrix(plays, tmp_path):
    neighbors = pytest.importorskip("implicit.nearest_neighbours").CosineRecommender(K=5)
    neighbors.fit(sp.csr_matrix(plays.matrix), show_progress=False)
    neighbors.save(str(tmp_path / "cosine.npz"))
    (subject,) = read_models([tmp_path / "cosine.npz"], plays)
    np.testing.assert_array_equal(subject.model.coefficients, neighbors.similarity.toarray())


@pytest.mark.medium
def test_a_score_matrix_is_used_unchanged(split, fitted, tmp_path):
    B = ridge_scores(fitted.matrix)
    np.save(tmp_path / "ease.npy", B)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(B))
    models = [tmp_path / "ease.npy", sp.csr_array(B), tmp_path / "sparse.npz"]
    found = audit(split, models=models, budget=0)
    X, dense = fitted.matrix, fitted.matrix.toarray()
    expected = ((dense - dense @ B) ** 2).sum(axis=0) / (dense**2).sum(axis=0)
    scores = np.where(dense > 0, -np.inf, dense @ B)
    top = np.argsort(-scores, axis=1, kind="stable")[:, :20]
    for column in found.variants[-3:]:
        assert (column.kind, column.sizes) == ("scores", (M,))
        np.testing.assert_array_equal(column.self_reconstruction_by_item[0], np.zeros(M))
        np.testing.assert_allclose(column.error_by_item[0], expected)
        np.testing.assert_allclose(column.auc_by_item, m.item_auc(X, similarity=B))
        assert column.means["recall"]["all"][0] == pytest.approx(
            m.recall_at_k(top, split.test.matrix, 20).value
        )
        assert np.isnan(column.components_to_half_by_item).all()
        assert column.owned == ()
        strongest = np.argsort(-np.where(np.eye(M) > 0, -np.inf, B), axis=1, kind="stable")
        assert column.neighbors[4].tolist() == strongest[4, :10].tolist()
    recommended = found.users[0].recommended["given:0"]
    user = fitted.user_ids.tolist().index(found.users[0].user)
    assert recommended[0].item == top[user, 0]
    assert recommended[0].score == pytest.approx((dense @ B)[user, top[user, 0]])
    assert any("X B" in note for note in found.settings.notes)


@pytest.mark.medium
def test_the_diagonal_of_a_score_matrix_is_its_self_reconstruction(plays):
    found = audit(plays, models=[np.eye(M)], budget=0)
    column = found.variants[-1]
    assert column.means["self_reconstruction"]["all"].tolist() == [1.0]
    np.testing.assert_allclose(column.means["item_error"]["all"], [0.0])


def test_saved_models_are_aligned_by_their_item_ids(plays, tmp_path):
    order = np.random.default_rng(1).permutation(M)
    shuffled = plays.select_items(plays.item_ids[order])
    for model in (NormalizedPCA(RANK), ItemWeightedPCA(RANK, user_scaling=0.5)):
        model.fit(shuffled)
        path = model.save(tmp_path / f"{type(model).__name__}.eqp")
        subject = read_models([path], plays)[0]
        twin = type(model)(**model.get_params()).fit(plays)
        np.testing.assert_allclose(own_share(subject, RANK), twin.self_reconstruction(), atol=1e-6)
        lists = lists_of(subject, plays, RANK, 5)
        np.testing.assert_array_equal(plays.item_ids[lists], twin.recommend(plays, k=5).ids)
        score, parts = subject.explain(plays.matrix[[3]], 7, RANK)
        explained = twin.explain(plays.select_users([plays.user_ids[3]]), plays.item_ids[7], k=None)
        assert score == pytest.approx(parts.sum()) == pytest.approx(explained.score, abs=1e-7)


def test_graded_models_keep_their_grades(plays):
    model = ItemWeightedPCA(RANK, spectral_filter="ridge", filter_strength=0.5).fit(plays)
    subject = read_models([model], plays)[0]
    f, U = model.filter_factors(), model.components_.T
    np.testing.assert_allclose(own_share(subject, RANK), (U * U * f).sum(axis=1))


def test_parquet_rows_are_found_by_their_ids_or_taken_in_order(plays, tmp_path):
    import polars as pl

    rng = np.random.default_rng(0)
    Y = rng.normal(size=(M, 3))
    order = rng.permutation(M)
    columns = {f"f{i}": Y[:, i] for i in range(3)}
    pl.DataFrame(columns).write_parquet(tmp_path / "plain.parquet")
    pl.DataFrame({"item_id": plays.item_ids.tolist(), **columns})[order.tolist()].write_parquet(
        tmp_path / "ids.parquet"
    )
    pl.DataFrame({"item": plays.item_ids.tolist(), "vector": Y.tolist()}).write_parquet(
        tmp_path / "lists.parquet"
    )
    files = [tmp_path / name for name in ("plain.parquet", "ids.parquet", "lists.parquet")]
    for subject in read_models(files, plays):
        Q = np.linalg.qr(Y)[0]
        np.testing.assert_allclose(own_share(subject, 3), (Q**2).sum(axis=1))


def test_square_factors_under_a_factors_name_are_factors(plays, tmp_path):
    np.savez(tmp_path / "square.npz", item_factors=np.eye(M))
    np.savez(tmp_path / "bare.npz", anything=np.eye(M))
    named, bare = read_models([tmp_path / "square.npz", tmp_path / "bare.npz"], plays)
    assert (named.kind, bare.kind) == ("factors", "scores")


def write(path, content):
    path.write_bytes(content)
    return path


def bad_files(folder):
    """Name -> (file, words of the error)."""
    np.save(folder / "short.npy", np.ones((M - 1, 4)))
    np.save(folder / "cube.npy", np.ones((M, 2, 2)))
    np.save(folder / "text.npy", np.full((M, 2), "a"))
    np.save(folder / "complex.npy", np.ones((M, 2), complex))
    np.save(folder / "zeros.npy", np.zeros((M, 2)))
    np.save(folder / "pickle.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    holes = np.ones((M, 3))
    holes[4, 1] = np.nan
    np.save(folder / "nan.npy", holes)
    np.save(folder / "diverged.npy", holes.T[[0, 2]] * 1e200)
    np.savez(folder / "two.npz", a=np.ones((M, 2)), b=np.ones((3, M)))
    np.savez(folder / "none.npz", a=np.ones(3))
    np.savez(folder / "users.npz", item_factors=np.ones((200, 4)), user_factors=np.ones((M, 4)))
    sp.save_npz(folder / "thin.npz", sp.csr_array(np.ones((M, 2))))
    whole = (folder / "two.npz").read_bytes()
    write(folder / "cut.npz", whole[: len(whole) // 2])
    write(folder / "cut.npy", (folder / "nan.npy").read_bytes()[:200])
    write(folder / "noise.npy", b"no array at all")
    write(folder / "noise.npz", b"no archive at all")
    write(folder / "noise.parquet", b"PAR1 no table")
    write(folder / "model.pkl", b"x")
    with zipfile.ZipFile(folder / "no-arrays.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    (folder / "folder.npy").mkdir()
    return {
        "short.npy": f"59 × 4 matrix without ids, for {M} items",
        "cube.npy": r"must contain a matrix .* got shape \(60, 2, 2\)",
        "text.npy": "must contain real numbers, got dtype <U1",
        "complex.npy": "must contain real numbers, got dtype complex128",
        "zeros.npy": "contains only zeros",
        "pickle.npy": r"without pickles \(Object arrays",
        "nan.npy": "1 entries that are NaN, infinite or too large, the first in row 4, column 1",
        "diverged.npy": "NaN, infinite or too large",
        "noise.npz": r"as a matrix.*File is not a zip file",
        "two.npz": r"a, b all are a matrix .* as item_factors",
        "none.npz": "none is a matrix",
        "users.npz": "200 × 4 matrix without ids",
        "thin.npz": r"sparse matrix of shape \(60, 2\); a sparse one must be item × item",
        "cut.npz": "cannot be read as a matrix",
        "cut.npy": "cannot be read as a matrix",
        "noise.npy": "cannot be read as a matrix",
        "noise.parquet": "cannot be read as Parquet",
        "model.pkl": "models are read from .npy, .*.eqp files, got '.pkl'",
        "no-arrays.npz": "none is a matrix",
        "folder.npy": "is a folder",
        "gone.npy": "does not exist",
        "gone.eqp": "gone.eqp",
    }


def test_each_bad_file_is_refused_in_one_sentence(plays, tmp_path):
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(EquipoiseError, match=message):
            read_models([tmp_path / name], plays)


def test_arrays_fitted_on_the_file_of_a_training_part_have_its_items(plays, tmp_path):
    """Items and users that only later parts contain have no row in them."""
    plays.holdout(test=0.3, seed=0).write(tmp_path)
    files = [tmp_path / f"{name}.parquet" for name in ("train", "test")]
    split = Split.read(files[0], None, files[1])
    late = Interactions.from_pairs([*split.test.user_ids[:3], "new"], ["x", "y", "z", "x"])
    split = Split.read(files[0], None, pl.concat([split.test.to_polars(), late.to_polars()]))
    train = Interactions.read(files[0])
    assert (split.train.n_users, split.train.n_items) == (train.n_users + 1, train.n_items + 3)
    rng = np.random.default_rng(0)
    items, users = rng.normal(size=(train.n_items, 4)), rng.normal(size=(train.n_users, 4))
    implicit = SimpleNamespace(item_factors=items, user_factors=users)
    B = rng.normal(size=(train.n_items, train.n_items))
    factors, own, matrix = read_models(
        {"array": items.T, "implicit": implicit, "item × item": B}, split.train
    )
    for model in (factors, own, matrix):
        assert "3 of the" in " ".join(model.notes), "how many items have no row"
    place = split.train.item_index(train.item_ids)
    np.testing.assert_array_equal(factors.vectors[place], items)
    assert (np.delete(factors.vectors, place, axis=0) == 0).all()
    np.testing.assert_array_equal(matrix.model.coefficients[np.ix_(place, place)], B)
    assert np.count_nonzero(matrix.model.coefficients) == B.size
    who = split.train.user_index(train.user_ids)
    np.testing.assert_array_equal(own.scoring.by_user[who], users)
    fewer = SimpleNamespace(item_factors=items, user_factors=users[1:])
    (folded,) = read_models([fewer], split.train)
    assert "folded in" in folded.notes[-1]
    with pytest.raises(InvalidDataError, match=rf"{train.n_items} of them in the training"):
        read_models([items[1:]], split.train)


def test_bad_parquet_tables_are_refused(plays, tmp_path):
    import polars as pl

    numbers = {"f": np.ones(M)}
    tables = {
        "words": (pl.DataFrame({**numbers, "genre": ["x"] * M}), r"not: \['genre'"),
        "ragged": (pl.DataFrame({"v": [[1.0]] * (M - 1) + [[1.0, 2.0]]}), "same length"),
        "ids": (
            pl.DataFrame({**numbers, "item": [f"x{i}" for i in range(M)]}),
            "no row for any of the 60 items",
        ),
        "twice": (
            pl.DataFrame(
                {"f": np.ones(M + 1), "item": [*plays.item_ids, plays.item_ids[2]]}, strict=False
            ),
            f"more than one row for '{plays.item_ids[2]}'",
        ),
        "empty": (pl.DataFrame({"item": ["a"]}), "must be columns of numbers"),
    }
    for name, (table, message) in tables.items():
        table.write_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(InvalidDataError, match=message):
            read_models([tmp_path / f"{name}.parquet"], plays)


def test_models_of_other_items_are_refused(plays):
    other = listening(n_users=80, n_items=70, seed=1)
    with pytest.raises(InvalidDataError, match="10 are not among the 60"):
        read_models([VanillaPCA(2).fit(other)], plays)
    with pytest.raises(InvalidDataError, match=r"70 items, the data have 60"):
        read_models([VanillaPCA(2).fit(other.matrix)], plays)


def test_other_types_than_models_and_files_are_refused(plays):
    with pytest.raises(InvalidParameterError, match="list of files or models"):
        read_models("als.npz", plays)
    with pytest.raises(InvalidDataError, match="real numbers, got dtype object"):
        read_models([object()], plays)


def test_score_matrices_have_a_limit(plays, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 3 * 8 * 60**2 - 1)
    with pytest.raises(InvalidDataError, match="60 × 60 score matrix takes about"):
        read_models([np.eye(M)], plays)


def test_our_item_item_and_factor_models_are_measured(plays):
    from equipoise import EASE, WeightedMF

    ease = EASE().fit(plays)
    subject = read_models([ease], plays)[0]
    assert subject.kind == "scores"
    top = lists_of(subject, plays, M, 5)
    np.testing.assert_array_equal(plays.item_ids[top], ease.recommend(plays, k=5).ids)
    mf = WeightedMF(4).fit(plays)
    factors = read_models([mf], plays)[0]
    Q = np.linalg.qr(np.asarray(mf.item_factors_, dtype=float))[0]
    np.testing.assert_allclose(own_share(factors, 4), (Q**2).sum(axis=1), atol=1e-6)


@pytest.mark.medium
def test_items_stay_in_the_order_of_the_data(plays):
    Y = np.zeros((M, 1))
    Y[11] = 2.0
    found = audit(plays, models=[Y])
    owned = found.variants[-1].owned
    assert [(each.component, each.item) for each in owned] == [(0, 11)]
    assert isinstance(plays, Interactions)


def test_components_rounded_to_half_precision_keep_their_order():
    rng = np.random.default_rng(5)
    exact = np.linalg.qr(rng.standard_normal((60, 6)))[0]
    read = leading_directions(exact.astype(np.float16).astype(np.float64))
    np.testing.assert_allclose(read, exact, atol=2e-3)
    np.testing.assert_allclose(read.T @ read, np.eye(6), atol=1e-12)
