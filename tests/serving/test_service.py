"""The web service: answers of the Python API, limits, and files that are replaced or damaged."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter

import numpy as np
import pytest

from equipoise import Interactions, ItemWeightedPCA, Popularity, VanillaPCA, load
from equipoise.array_files import ArrayArchive
from equipoise.data.synthetic import listening
from equipoise.exceptions import ArtifactError
from tests.waiting import HANGS, wait_until

pytest.importorskip(
    "starlette", reason='The service was NOT tested: pip install "equipoise[serve]"'
)
pytest.importorskip("httpx", reason="The service was NOT tested: pip install httpx")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it prefers another version of httpx
    from starlette.testclient import TestClient

from equipoise.serving.service import Limits, LiveModel, create_app


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=300, n_items=90)


@pytest.fixture(scope="module")
def fitted(plays):
    return ItemWeightedPCA(6).fit(plays.normalize_rows())


@pytest.fixture
def path(fitted, tmp_path):
    return fitted.save(tmp_path / "model.eqp")


@pytest.fixture
def client(path):
    limits = Limits(body=5000, users=3, k=20)
    with TestClient(create_app(path, reload_seconds=None, limits=limits)) as client:
        yield client


def post(client, address, **body):
    return client.post(address, json=body)


class TestAnswers:
    BASKET = {"artist-0003": 5.0, "artist-0010": 2.0}  # noqa: RUF012

    @pytest.mark.parametrize("form", [dict, lambda b: [list(pair) for pair in b.items()]])
    def test_a_list_is_that_of_the_python_api(self, client, fitted, form):
        answer = post(client, "/recommend", items=form(self.BASKET), k=4).json()
        expected = fitted.recommend(self.BASKET, k=4)
        assert [row["item"] for row in answer["items"]] == expected.ids.tolist()
        np.testing.assert_allclose([row["score"] for row in answer["items"]], expected.scores)
        assert answer["fallback"] is False

    def test_options_restrict_the_list(self, client, fitted):
        ids = list(self.BASKET)
        only = ["artist-0003", "artist-0020", "artist-0021"]
        answer = post(client, "/recommend", items=ids, only_items=only, filter_items=only[1:2])
        assert [row["item"] for row in answer.json()["items"]] == ["artist-0021"]
        seen = post(client, "/recommend", items=ids, only_items=only, include_seen=True).json()
        expected = fitted.recommend(ids, items=only, filter_already_liked_items=False, k=3).ids
        assert [row["item"] for row in seen["items"]] == expected.tolist()

    def test_a_batch_gives_the_lists_of_single_requests(self, client):
        users = [{"items": ["artist-0003"]}, {"items": ["artist-0010"], "k": 2}, {"items": []}]
        lists = post(client, "/recommend", users=users, k=5).json()["lists"]
        for user, found in zip(users, lists, strict=True):
            alone = post(client, "/recommend", **{"k": 5, **user}).json()
            assert found == {key: alone[key] for key in ("items", "fallback")}
        assert [found["fallback"] for found in lists] == [False, False, True]

    def test_unknown_items_are_dropped_or_refused(self, client):
        lists = [
            [row["item"] for row in post(client, "/recommend", items=items).json()["items"]]
            for items in (["artist-0003", "new"], ["artist-0003"])
        ]
        assert lists[0] == lists[1]
        asked = {"item": "artist-0020", "items": ["artist-0003", "new"]}
        assert post(client, "/explain", **asked).json()["because"][0]["item"] == "artist-0003"
        for address in ("/recommend", "/explain"):
            refused = post(client, address, **asked, unknown="error")
            assert refused.status_code == 400
            assert "new" in refused.json()["error"]

    def test_similar_items_and_explanations(self, client, fitted):
        similar = post(client, "/similar", item="artist-0003", k=3).json()["items"]
        assert [row["item"] for row in similar] == fitted.similar_items(
            "artist-0003", 3
        ).ids.tolist()
        why = post(client, "/explain", items=self.BASKET, item="artist-0020").json()
        total = sum(part["contribution"] for part in why["because"]) + why["rest"]
        assert total == pytest.approx(why["score"])
        assert why["score"] == pytest.approx(fitted.explain(self.BASKET, "artist-0020").score)

    def test_ids_that_are_numbers_may_be_names_in_an_object(self, plays, tmp_path):
        numbered = Interactions.from_sparse(plays.matrix, item_ids=np.arange(90) + 100)
        model = ItemWeightedPCA(4).fit(numbered)
        app = create_app(model.save(tmp_path / "m.eqp"), reload_seconds=None)
        with TestClient(app) as client:
            by_name = post(client, "/recommend", items={"107": 2.0}, k=3).json()["items"]
            by_pair = post(client, "/recommend", items=[[107, 2.0]], k=3).json()["items"]
            named = {"items": {"107": 2.0}, "k": 3, "filter_items": [str(by_name[0]["item"])]}
            filtered = post(client, "/recommend", **named).json()["items"]
        assert by_name == by_pair
        assert filtered[:2] == by_name[1:]
        assert [row["item"] for row in by_name] == model.recommend({107: 2.0}, k=3).ids.tolist()

    def test_health_metrics_and_description(self, client, fitted):
        assert client.get("/health").json()["items"] == fitted.n_features_in_
        post(client, "/recommend", items=["artist-0003"])
        post(client, "/recommend")
        text = client.get("/metrics").text
        assert 'equipoise_requests_total{path="/recommend",status="200"} 1' in text
        assert 'equipoise_requests_total{path="/recommend",status="400"} 1' in text
        assert "equipoise_request_seconds_count 2" in text
        described = client.get("/openapi.json").json()
        assert {"/recommend", "/similar", "/explain", "/health"} <= set(described["paths"])
        assert "openapi.json" in client.get("/").text


REFUSED = {
    "text": (b"hello", 400),
    "a list": (b"[1]", 400),
    "nesting": (b"[" * 4000, 400),
    "no items": (b"{}", 400),
    "items of another type": (b'{"items": 5}', 400),
    "values of another type": (b'{"items": {"artist-0003": "many"}}', 400),
    "negative values": (b'{"items": {"artist-0003": -1}}', 400),
    "values that are not numbers": (b'{"items": {"artist-0003": NaN}}', 400),
    "ids of another type": (b'{"items": [{"a": 1}, null]}', 400),
    "a long list": (b'{"items": [], "k": 21}', 400),
    "another rule for unknown items": (b'{"items": [], "unknown": "keep"}', 400),
    "k of another type": (b'{"items": [], "k": true}', 400),
    "a large batch": (b'{"users": [{}, {}, {}, {}]}', 400),
    "users of another type": (b'{"users": [5]}', 400),
    "a large body": (b" " * 5001, 413),
}


@pytest.mark.parametrize("body", REFUSED)
def test_a_bad_request_is_refused_without_a_traceback(client, body):
    content, status = REFUSED[body]
    answer = client.post("/recommend", content=content)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert "Traceback" not in answer.text


def test_a_defect_is_reported_without_details(client, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(ItemWeightedPCA, "recommend", fail)
    answer = post(client, "/recommend", items=[])
    assert answer.status_code == 500
    assert "secret" not in answer.text


class TestReplacedFiles:
    def test_a_new_file_takes_over(self, path, plays):
        live = LiveModel(path)
        first = live.current
        assert not live.refresh()
        VanillaPCA(3).fit(plays).save(path)
        assert live.refresh()
        assert isinstance(live.current.model, VanillaPCA)
        assert live.current.version != first.version
        assert first.model.recommend(["artist-0003"], k=3).ids.tolist()  # requests under way

    @pytest.mark.parametrize("damage", ["truncated", "changed", "other", "missing"])
    def test_the_old_model_serves_while_the_file_is_damaged(self, path, plays, damage):
        app = create_app(path, reload_seconds=None)
        live = app.state.live
        with TestClient(app) as client:
            before = post(client, "/recommend", items=["artist-0003"]).json()
            content = path.read_bytes()
            replacement = path.with_name("replacement")
            damaged = {
                "truncated": content[: len(content) // 2],
                "changed": content[:200] + bytes([content[200] ^ 1]) + content[201:],
                "other": b"not a model",
            }
            if damage == "missing":
                path.unlink()
            else:
                replacement.write_bytes(damaged[damage])
                os.replace(replacement, path)
            assert not live.refresh()
            assert post(client, "/recommend", items=["artist-0003"]).json() == before
            assert client.get("/health").json()["error"]
            assert "equipoise_model_reload_failures_total 1" in client.get("/metrics").text
            VanillaPCA(3).fit(plays).save(path)
            assert live.refresh()
            assert client.get("/health").json()["error"] is None

    def test_a_damaged_file_is_refused_at_the_start(self, tmp_path):
        (tmp_path / "bad.eqp").write_bytes(b"not a model")
        with pytest.raises(ArtifactError):
            create_app(tmp_path / "bad.eqp")

    @pytest.mark.medium
    def test_savers_that_are_killed_leave_a_complete_model(self, path, plays):
        one, other = ItemWeightedPCA(6).fit(plays.normalize_rows()), VanillaPCA(3).fit(plays)
        other.save(path.with_name("other.eqp"))
        one.save(path.with_name("one.eqp"))
        known = {tuple(m.recommend(["artist-0003"]).ids.tolist()) for m in (one, other)}
        script = (
            "import itertools, sys; from equipoise import load\n"
            "models = [load(name) for name in sys.argv[2:]]\n"
            "print('ready', flush=True)\n"
            "for model in itertools.cycle(models): model.save(sys.argv[1])"
        )
        names = [path, path.with_name("one.eqp"), path.with_name("other.eqp")]
        live = LiveModel(path)
        for _ in range(4):
            saver = subprocess.Popen(
                [sys.executable, "-c", script, *map(str, names)], stdout=subprocess.PIPE
            )
            saver.stdout.readline()
            for _ in range(20):
                live.refresh()
                found = live.current.model.recommend(["artist-0003"]).ids.tolist()
                assert tuple(found) in known
            saver.kill()
            saver.communicate()
            live.refresh()
            assert live.error is None
            assert tuple(load(path).recommend(["artist-0003"]).ids.tolist()) in known


class Service:
    """`equipoise serve` in a process of its own, on a free port; a context manager."""

    def __init__(self, path, *start: str) -> None:
        start = start or ("-m", "equipoise")
        words = ["serve", str(path), "--port", "0", "--reload-seconds", "0.02"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, *start, *words], **pipes)

    def __enter__(self):
        running = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
        self.port = next(int(m[1]) for line in self.process.stderr if (m := running.search(line)))
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self, method, address, **body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS)
        connection.request(method, address, json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def items(self) -> list[str]:
        answer = self.ask("POST", "/recommend", items=["artist-0003"], k=3)
        return [row["item"] for row in answer["items"]]


@pytest.mark.medium
def test_the_command_serves_reloads_and_stops_gracefully(path, plays, fitted):
    with Service(path) as service:
        assert service.items() == fitted.recommend(["artist-0003"], k=3).ids.tolist()
        VanillaPCA(3).fit(plays).save(path)
        wait_until(lambda: service.ask("GET", "/health")["class"] == "VanillaPCA")
        service.process.send_signal(signal.SIGTERM)
        service.process.communicate(timeout=HANGS)
        assert service.process.returncode in (0, -signal.SIGTERM)


# The command, but the second model stops after its first array: in the middle of a reload.
STOPS_IN_A_RELOAD = """
import sys, threading
from equipoise.array_files import ArrayArchive
from equipoise.cli.app import run
opened, read = [], ArrayArchive.array
def stopping(archive, name):
    opened.extend([archive] * (archive not in opened))
    found = read(archive, name)
    if len(opened) == 2:
        print("reloading", flush=True)
        threading.Event().wait()
    return found
ArrayArchive.array = stopping
run(sys.argv[1:])
"""

# A publisher that stops after the first entry of its file: in the middle of a save.
STOPS_IN_A_SAVE = """
import sys, threading, zipfile
from equipoise import load
model, write = load(sys.argv[1]), zipfile.ZipFile.open
def stopping(archive, *given, **options):
    if archive.namelist():
        print("saving", flush=True)
        threading.Event().wait()
    return write(archive, *given, **options)
zipfile.ZipFile.open = stopping
model.save(sys.argv[2])
"""


@pytest.mark.medium
def test_kills_in_a_save_and_in_a_reload_under_load_give_no_wrong_answer(path, plays, fitted):
    other = VanillaPCA(3).fit(plays)
    second = other.save(path.with_name("second.eqp"))
    old, new = (m.recommend(["artist-0003"], k=3).ids.tolist() for m in (fitted, other))
    assert old != new
    answers: list[list[str]] = []

    def client() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # the service was killed
            while True:
                answers.append(service.items())

    def answered(more: int) -> None:
        enough = len(answers) + more
        wait_until(lambda: len(answers) >= enough)

    with Service(path, "-c", STOPS_IN_A_RELOAD) as service:
        clients = [threading.Thread(target=client) for _ in range(2)]
        for each in clients:
            each.start()
        command = [sys.executable, "-c", STOPS_IN_A_SAVE, str(second), str(path)]
        publisher = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert publisher.stdout.readline() == b"saving\n"
        answered(20)
        publisher.kill()
        publisher.communicate()
        answered(20)
        other.save(path)
        assert service.process.stdout.readline() == "reloading\n"
        answered(20)
        service.process.kill()
        for each in clients:
            each.join()
    assert set(map(tuple, answers)) == {tuple(old)}
    with Service(path) as service:
        assert service.items() == new
        assert service.ask("GET", "/health")["error"] is None


class TestFiles:
    """What the service reads, and what it does not depend on once a model serves."""

    @pytest.fixture
    def large(self, tmp_path):
        """A file whose arrays are large enough to stay in its pages, if that is asked for."""
        X = np.random.default_rng(0).random((60, 4000)).round()
        path = VanillaPCA(40, solver="matrix_free").fit(X).save(tmp_path / "large.eqp")
        assert path.stat().st_size > 1 << 20
        return path

    def test_a_file_that_is_overwritten_in_place_does_not_change_the_model(self, large):
        live = LiveModel(large)
        before = live.current.model.recommend({7: 1.0}, k=5)
        content = large.read_bytes()
        with large.open("r+b") as file:  # as cp does; reading mapped pages would now be fatal
            file.truncate(1000)
        assert not live.refresh()
        assert live.error
        after = live.current.model.recommend({7: 1.0}, k=5)
        np.testing.assert_array_equal(after.scores, before.scores)
        large.write_bytes(content)
        assert live.refresh()
        assert live.error is None

    def test_versions_differ_when_only_arrays_do(self, tmp_path):
        X = np.eye(5) + np.eye(5, k=1)
        paths = [
            Popularity().fit(data).save(tmp_path / f"{place}.eqp")
            for place, data in enumerate([X, X, X[:, ::-1]])
        ]
        one, same, other = (LiveModel(path).current.version for path in paths)
        assert one == same != other

    def test_a_file_that_is_replaced_while_it_is_opened_is_not_mixed_with_the_new_one(self, large):
        with ArrayArchive(large) as archive:
            expected = archive.array("arrays/components_")
            VanillaPCA(41, solver="matrix_free").fit(np.eye(50, 4000)).save(large)
            np.testing.assert_array_equal(archive.mapped("arrays/components_"), expected)

    @pytest.mark.medium
    @pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="needs Linux")
    def test_processes_share_the_pages_of_a_mapped_model(self, large):
        script = (
            "import sys; from equipoise import load\n"
            "model = load(sys.argv[1], mmap=True)\n"
            "model.recommend({7: 1.0})\n"
            "print('ready', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", script, str(large)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
        try:
            for process in processes:
                assert process.stdout.readline() == b"ready\n"
            for process in processes:
                found = mapped_memory(process.pid, large)
                assert found["Rss"] >= 1 << 20  # components were read
                # dirty: not yet on disk, as always where temporary files are in memory
                assert found["Shared_Clean"] + found["Shared_Dirty"] == found["Rss"]
                assert found["Private_Clean"] == found["Private_Dirty"] == 0
                assert found["Pss"] <= found["Rss"] / 2 + 4096  # at least two processes
        finally:
            for process in processes:
                process.communicate()


def mapped_memory(pid: int, path) -> Counter[str]:
    """Bytes of a process in pages of a file, by kind, as Linux counts them."""
    found: Counter[str] = Counter()
    ours = False
    with open(f"/proc/{pid}/smaps") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if not re.fullmatch(r"[A-Z]\w+", name):  # the first line of a mapping names its file
                ours = line.rstrip().endswith(str(path))
            elif ours and rest.endswith("kB\n"):
                found[name] += 1024 * int(rest.split()[0])
    return found
