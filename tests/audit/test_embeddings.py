"""Embedding tables and lists of other systems: read by id, measured like the model itself."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import EASE, VanillaPCA, WeightedMF
from equipoise import metrics as m
from equipoise.audit import Embeddings, audit, to_json, to_markdown
from equipoise.audit.models.given import notes_on, read_models
from equipoise.data.synthetic import listening
from equipoise.evaluation.scoring import measure_lists
from equipoise.evaluation.task import Task
from equipoise.exceptions import InvalidDataError, MissingExtraError
from equipoise.metrics.registry import parse_metrics

N, M, R, K = 120, 60, 5, 10
RNG = np.random.default_rng(0)
ITEMS, USERS = RNG.normal(size=(M, R)), RNG.normal(size=(N, R))


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=N, n_items=M, seed=5)


@pytest.fixture(scope="module")
def shuffled(plays):
    """Rows in an order of their own, a padding row of zeros first, and their ids."""
    items, users = RNG.permutation(M), RNG.permutation(N)
    table = np.vstack([np.zeros((1, R)), ITEMS[items]]).astype(np.float32)
    return table, plays.item_ids[items], USERS[users].astype(np.float32), plays.user_ids[users]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def lists_of(model, data, k=K):
    """Lists of all users in the order of the data, as columns."""
    (found,) = model.lister([model.depth]).lists(data.matrix, k, model.for_users(data.user_ids))
    return found


def expected_lists(plays, k=K):
    """By the definition: user · item, without what the user has."""
    scores = USERS.astype(np.float32).astype(float) @ ITEMS.astype(np.float32).astype(float).T
    return np.argsort(np.where(plays.matrix.toarray() > 0, np.inf, -scores), axis=1)[:, :k]


def self_reconstruction(model, data):
    sizes = [model.depth]
    return model.measure_items(data, sizes, np.arange(M), 1).self_reconstruction[0]


def checkpoints(folder, shuffled, torch):
    """One file per format, with two tables and something else in each."""
    table, _, users, _ = shuffled
    arrays = {"item.weight": table, "user.weight": users, "head.bias": np.zeros(R, np.float32)}
    tensors = {name: torch.tensor(values) for name, values in arrays.items()}
    torch.save(tensors, folder / "plain.pt")
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "lightning.ckpt")
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(tensors, folder / "model.safetensors")
    onnx = pytest.importorskip("onnx")
    stored = [onnx.numpy_helper.from_array(values, name) for name, values in arrays.items()]
    graph = onnx.helper.make_graph([], "towers", [], [], initializer=stored)
    onnx.save(onnx.helper.make_model(graph), folder / "model.onnx")
    np.savez(folder / "model.npz", **arrays)
    return sorted(folder.iterdir())


@pytest.mark.medium
def test_every_checkpoint_gives_the_scores_of_its_two_towers(plays, shuffled, tmp_path, torch):
    _, item_ids, _, user_ids = shuffled
    Q = np.linalg.qr(ITEMS)[0]
    for path in checkpoints(tmp_path, shuffled, torch):
        given = Embeddings(
            path, item_ids, user_ids=user_ids, tensor="item.weight", user_tensor="user.weight"
        )
        (model,) = read_models({path.name: given}, plays)
        assert (model.kind, model.given, model.notes) == ("embeddings", True, ()), path
        np.testing.assert_array_equal(lists_of(model, plays), expected_lists(plays), path.name)
        np.testing.assert_allclose(
            self_reconstruction(model, plays), (Q**2).sum(axis=1), atol=1e-5, err_msg=path.name
        )


@pytest.mark.torch
def test_modules_state_dicts_and_embeddings_of_torch_are_read(plays, shuffled, torch):
    table, item_ids, users, user_ids = shuffled
    padded = torch.nn.Embedding.from_pretrained(torch.tensor(table) + 1e-3, padding_idx=0)
    both = torch.nn.ModuleDict(
        {"item": padded, "user": torch.nn.Embedding.from_pretrained(torch.tensor(users))}
    )
    known = {"item_ids": item_ids, "user_ids": user_ids}
    given = {
        "embedding": Embeddings(padded, users=torch.tensor(users), **known),
        "module": Embeddings(both, tensor="item.weight", user_tensor="user.weight", **known),
    }
    for model in read_models(given, plays):
        np.testing.assert_allclose(model.vectors, ITEMS + 1e-3, atol=1e-6)
        assert model.kind == "embeddings"
    state = Embeddings(both.state_dict(), item_ids, tensor="item.weight")
    with pytest.raises(InvalidDataError, match="61 rows without padding"):
        read_models([state], plays)  # a state dict does not tell which row is padding


def test_vocabularies_are_read_from_every_kind_of_file(plays, shuffled, tmp_path):
    table, item_ids, _, _ = shuffled
    np.save(tmp_path / "table.npy", table)
    by_row = {each: row + 1 for row, each in enumerate(item_ids)}
    (tmp_path / "ids.txt").write_text("\n".join(item_ids))
    (tmp_path / "list.json").write_text(json.dumps(item_ids.tolist()))
    (tmp_path / "rows.json").write_text(json.dumps(by_row))
    pl.DataFrame({"item": item_ids, "row": list(by_row.values())}).write_csv(tmp_path / "ids.csv")
    pl.DataFrame({"name": item_ids}).write_parquet(tmp_path / "ids.parquet")
    sources = [
        tmp_path / f for f in ("ids.txt", "list.json", "rows.json", "ids.csv", "ids.parquet")
    ]
    for ids in (*sources, by_row, item_ids):
        (model,) = read_models([Embeddings(tmp_path / "table.npy", ids)], plays)
        np.testing.assert_allclose(model.vectors, ITEMS, atol=1e-6, err_msg=str(ids)[:40])


def test_ids_of_another_type_are_compared_as_text(plays):
    numbers = type(plays)(plays.matrix, np.arange(N), np.arange(M))
    (model,) = read_models([Embeddings(ITEMS[::-1], [str(j) for j in range(M)][::-1])], numbers)
    np.testing.assert_array_equal(model.vectors, ITEMS)


def test_missing_and_other_items_and_users_are_counted_and_never_recommended(plays):
    missing = [3, 8, 11]
    kept = np.delete(np.arange(M), missing)
    ids = [*plays.item_ids[kept], "another", "one more"]
    table = np.vstack([ITEMS[kept], np.ones((2, R))])
    users = pl.DataFrame({"user": plays.user_ids[4:], **{f"f{i}": USERS[4:, i] for i in range(R)}})
    (model,) = read_models({"ours": Embeddings(table, ids, users=users)}, plays)
    notes = " ".join(notes_on([model]))
    assert "ours: 3 of the 60 items" in notes
    assert "2 of its items" in notes
    assert "4 of the 120 users" in notes
    found = lists_of(model, plays)
    assert (found[:4] == -1).all()
    assert not np.isin(found, missing).any()
    scores = USERS @ ITEMS.T
    scores[:, missing] = -np.inf
    best = np.argsort(np.where(plays.matrix.toarray() > 0, np.inf, -scores), axis=1)[:, :K]
    np.testing.assert_array_equal(found[4:], best[4:])


def test_users_and_items_of_implicit_give_its_own_lists(plays, tmp_path):
    als = pytest.importorskip("implicit.cpu.als")
    model = als.AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    X = sp.csr_matrix(plays.binarize().matrix)
    model.fit(X, show_progress=False)
    model.save(str(tmp_path / "als.npz"))
    own, _ = model.recommend(np.arange(N), X, N=K)
    for given in read_models([model, tmp_path / "als.npz"], plays):
        assert given.kind == "embeddings"
        np.testing.assert_array_equal(lists_of(given, plays), own)


def test_factor_models_of_this_package_keep_their_own_lists(plays):
    model = WeightedMF(4, random_state=0).fit(plays)
    (given,) = read_models([model], plays)
    found = lists_of(given, plays)
    np.testing.assert_array_equal(plays.item_ids[found], model.recommend(plays, k=K).ids)


def list_table(plays, model, by="rank"):
    """Return the lists of a model, shuffled."""
    ranking = model.recommend(plays, k=K)
    rows = pl.DataFrame(
        {
            "user": np.repeat(plays.user_ids, K),
            "item": ranking.ids.ravel(),
            "rank": np.tile(np.arange(1, K + 1), len(plays.user_ids)),
            "score": ranking.scores.ravel(),
        }
    )
    drop = "score" if by == "rank" else "rank"
    return rows.drop(drop)[RNG.permutation(len(rows))]


@pytest.mark.parametrize("by", ["rank", "score"])
def test_a_list_file_has_the_exposure_and_accuracy_of_its_model(plays, tmp_path, by):
    split = plays.holdout(seed=0)
    task = Task.of(split, "test", "interactions")
    model = EASE(50.0).fit(split.train_validation)
    table = list_table(split.train_validation, model, by)
    table.write_csv(tmp_path / "lists.csv")
    table.write_parquet(tmp_path / "lists.parquet")
    pandas = pytest.importorskip("pandas").DataFrame(table.to_dict(as_series=False))
    given = {
        "model": model, "csv": tmp_path / "lists.csv", "parquet": tmp_path / "lists.parquet",
        "polars": table, "pandas": pandas,
    }  # fmt: skip
    metrics = ["recall", "ndcg", "arp", "aplt", "coverage", "gini", "group_exposure"]
    requests, context = parse_metrics(metrics, [K]), task.context(np.nan)
    found = []
    for each in read_models(given, split.train_validation):
        own = each.for_users(task.seen.user_ids)
        (rows,) = measure_lists(task, each.lister([each.depth]), requests, context, given=own)
        found.append([(row.metric, row.group, row.value) for row in rows])
    for label, rows in zip(given, found, strict=True):
        assert rows == found[0], label


@pytest.mark.medium
def test_a_list_file_has_the_numbers_of_its_model_in_the_report(plays, tmp_path):
    split = plays.holdout(seed=0)
    model = EASE(50.0).fit(split.train)
    list_table(split.train, model).write_csv(tmp_path / "lists.csv")
    given = {"model": model, "lists": tmp_path / "lists.csv"}
    found = audit(split, models=given, k=K, depth="quick", budget=0)
    own, lists = (next(each for each in found.variants if each.label == label) for label in given)
    for metric in ("arp", "aplt", "coverage", "gini", "recall", "ndcg", "precision", "mrr"):
        assert lists.mean(metric) == own.mean(metric), metric
        assert np.isfinite(own.mean(metric)), metric


@pytest.mark.medium
def test_lists_alone_claim_nothing_about_items(plays):
    table = list_table(plays, EASE(50.0).fit(plays))
    found = audit(plays, rank=4, k=K, models={"lists": table})
    (variant,) = [each for each in found.variants if each.label == "lists"]
    for metric in ("self_reconstruction", "item_error", "item_auc", "specialization"):
        assert np.isnan(variant.means[metric]["all"]).all()
    assert (variant.neighbors == -1).all()
    assert variant.owned == ()
    assert variant.means["coverage"]["all"][0] > 0
    assert any("lists: Lists of 120 users" in note for note in found.settings.notes)


def test_the_latest_list_of_a_user_counts_and_unknown_items_keep_their_place(plays):
    users, items = plays.user_ids[:2], plays.item_ids
    table = pl.DataFrame(
        {
            "user": [users[0]] * 4 + [users[1], "nobody"],
            "item": [items[0], items[1], items[5], "gone", items[2], items[3]],
            "rank": [1, 2, 7, 3, 1, 1],
            "time": [1, 1, 2, 2, 1, 1],
        }
    )
    (model,) = read_models({"lists": table}, plays)
    found = lists_of(model, plays, 3)
    assert found[0].tolist() == [-1, 5, -1]
    assert found[1].tolist() == [2, -1, -1]
    notes = " ".join(model.notes)
    assert "58 of the 60 items" in notes
    assert "118 of the 120 users" in notes
    assert "1 items of the lists are not" in notes
    assert "2 rows of earlier lists" in notes


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"user": ["a"], "item": ["x"]}, "rank or score"),
        ({"user": ["a", "a"], "item": ["x", "x"], "rank": [1, 2]}, "more than once"),
        ({"user": ["a"], "item": ["x"], "score": ["high"]}, "must contain numbers"),
        ({"user": ["nobody"], "item": ["artist-0001"], "rank": [1]}, "any of the 120 users"),
    ],
)
def test_bad_lists_are_refused(plays, table, words):
    with pytest.raises(InvalidDataError, match=words):
        read_models([pl.DataFrame(table)], plays)


def test_bad_checkpoints_are_refused(plays, shuffled, tmp_path, torch):
    table, item_ids, _, _ = shuffled
    pickled = tmp_path / "pickled.pt"
    torch.save({"item.weight": torch.tensor(table), "code": torch.nn.Linear}, pickled)
    for name in ("noise.pt", "noise.safetensors", "noise.onnx"):
        (tmp_path / name).write_bytes(b"\x00\x01 not a model")
        with pytest.raises(InvalidDataError, match="cannot be read as"):
            read_models([Embeddings(tmp_path / name, item_ids)], plays)
    with pytest.raises(InvalidDataError, match="read as a matrix"):
        read_models([Embeddings(pickled, item_ids)], plays)
    torch.save({"a": torch.tensor(table), "b": torch.tensor(table)}, tmp_path / "two.pt")
    cases = {
        "--tensor": Embeddings(tmp_path / "two.pt", item_ids),
        "called 'c'": Embeddings(tmp_path / "two.pt", item_ids, tensor="c"),
        "--item-ids": Embeddings(tmp_path / "two.pt", tensor="a"),
        "there are 59 ids": Embeddings(tmp_path / "two.pt", item_ids[1:], tensor="a"),
        "more than once": Embeddings(table[1:], [*item_ids[1:], item_ids[1]]),
        "any of the 60 items": Embeddings(table[1:], np.arange(M)),
        "120 users × 5": Embeddings(table[1:], item_ids, users=USERS[:, :3]),
    }
    for words, given in cases.items():
        with pytest.raises(InvalidDataError, match=words):
            read_models([given], plays)


@pytest.mark.parametrize("library", ["safetensors", "torch", "onnx"])
def test_a_missing_library_is_named_with_its_extra(plays, tmp_path, monkeypatch, library):
    ending = "pt" if library == "torch" else library
    (tmp_path / f"model.{ending}").touch()
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"equipoise\[{library}\]"):
        read_models([tmp_path / f"model.{ending}"], plays)


def test_a_model_without_some_items_of_the_data_is_aligned_by_id(plays, tmp_path):
    fewer = plays.select_items(plays.item_ids[np.r_[40:M, 0:37]])
    missing = [37, 38, 39]
    for model in (VanillaPCA(4), EASE(50.0), WeightedMF(4, random_state=0)):
        model.fit(fewer)
        (given,) = read_models([model.save(tmp_path / "model.eqp")], plays)
        assert "3 of the 60 items" in given.notes[0]
        found = lists_of(given, plays, 5)
        best = model.recommend(fewer, k=5).ids
        np.testing.assert_array_equal(plays.item_ids[found], best, type(model).__name__)
        own = self_reconstruction(given, plays)
        assert np.all(own[missing] == 0)


def test_lengths_of_vectors_mean_something_unless_they_are_orthonormal(plays):
    given = [ITEMS, np.linalg.qr(ITEMS)[0], plays.matrix.T @ plays.matrix, pl.DataFrame(ITEMS)]
    found = [each.embeddings() for each in read_models(given, plays)]
    np.testing.assert_array_equal(found[0], ITEMS)
    np.testing.assert_array_equal(found[3], ITEMS)
    assert found[1] is None
    assert found[2] is None


@pytest.mark.medium
def test_the_findings_contain_the_geometry_of_given_vectors(plays):
    table = pl.DataFrame({"item": plays.item_ids, **{f"f{i}": ITEMS[:, i] for i in range(R)}})
    found = audit(plays, models={"vectors": table}, k=5, depth="quick", budget=0)
    expected = {
        "effective_rank": m.effective_rank(ITEMS),
        "anisotropy": m.anisotropy(ITEMS),
        "popularity_cosine": m.popularity_direction(ITEMS, plays.popularity()).cosine,
        "popularity_share": m.popularity_direction(ITEMS, plays.popularity()).shares.mean(),
    }
    for metric, value in expected.items():
        assert found.subject.mean(metric) == pytest.approx(value)
        assert np.isnan(found.compared[1].mean(metric))
    assert "popularity_share" in to_json(found)
    assert "effective rank" in to_markdown(found)
    assert "cosine with popularity" in to_markdown(found)


@pytest.mark.medium
def test_svd_pca_and_a_file_have_equal_rows_in_the_report(plays, tmp_path):
    svd = pytest.importorskip("sklearn.decomposition").TruncatedSVD(4, algorithm="arpack")
    split = plays.binarize().holdout(seed=0)
    svd.fit(split.train.matrix)
    np.save(tmp_path / "svd.npy", svd.components_)
    pca = VanillaPCA(4, tol=1e-12).fit(split.train)
    given = {"svd": svd, "pca": pca, "file": tmp_path / "svd.npy"}
    found = audit(split, models=given, k=5, depth="quick", budget=0)
    first, *others = (each for each in found.variants if each.label in given)
    assert np.isfinite(first.mean("ndcg"))
    for other in others:
        assert other.sizes == first.sizes
        for one, same in zip(other.results, first.results, strict=True):
            assert (one.metric, one.group) == (same.metric, same.group)
            assert one.value == pytest.approx(same.value, abs=1e-6, nan_ok=True), one.metric


def test_truncated_svd_our_pca_and_their_file_are_measured_alike(plays, tmp_path):
    svd = pytest.importorskip("sklearn.decomposition").TruncatedSVD(4, algorithm="arpack")
    data = plays.binarize()
    svd.fit(data.matrix)
    np.save(tmp_path / "svd.npy", svd.components_)
    pca = VanillaPCA(4, tol=1e-12).fit(data)
    given = {"svd": svd, "pca": pca, "file": tmp_path / "svd.npy"}
    measured = []
    for model in read_models(given, data):
        numbers = model.measure_items(data, [4], np.arange(M), 5)
        lists = next(iter(model.lister([4]).lists(data.matrix, K)))
        measured.append((numbers, lists))
    for numbers, lists in measured[1:]:
        for one, other in zip(numbers, measured[0][0], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-7)
        np.testing.assert_array_equal(lists, measured[0][1])
    assert m.item_auc(data.matrix, svd.components_.T) == pytest.approx(measured[0][0].auc[0])
