"""Claim: a service under load gives no wrong answer, whatever happens to its file and its process.

Clients ask `equipoise serve` over loopback, each in one connection, and compare every answer with
the list of the model that the answer names. In the first part the file of the model is replaced all
the time: by another model, by half of one, and by one that is copied over it in place. In the
second part the process of the service is killed again and again, and started on the same port;
clients repeat the requests that were cut off. The private memory of the service is read after each
tenth of the first part.

The bare loop calls `recommend` of the same model in one process, without HTTP and JSON. Run
``python benchmarks/bench_service.py --quick``, or ``--full`` for 100,000 requests.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import listening
from equipoise.serving.service import LiveModel
from harness import Report, Table, machine, progress

_BASKETS, _K, _CLIENTS = 200, 10, 4
# Memory that a server may gain in the second half of its requests and still counts as flat
_FLAT_KB = 4096


class Plan(NamedTuple):
    """Requests with replaced files, requests with kills, size of the catalog."""

    name: str
    requests: int
    with_kills: int
    n_items: int = 20_000


class Service:
    """A process of `equipoise serve`, which can be killed and started again on its port."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "equipoise", "serve", str(path), "--port", str(self.port)]
        self.command = [*command, "--reload-seconds", "0.2"]
        self.start()

    def start(self) -> None:
        """Start, and wait until it answers."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, **quiet)
        while True:
            try:
                return ask(http.client.HTTPConnection("127.0.0.1", self.port), "GET", "/health")
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)

    def kill(self) -> None:
        """End it without notice."""
        self.process.kill()
        self.process.wait()

    def seconds(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def private_kb(self) -> int:
        """Memory that is not in the pages of files."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+)", text)
        return int(found[1]) if found else 0


def ask(connection: http.client.HTTPConnection, method: str, address: str, body: Any = None) -> Any:
    """Send one request and return the answer."""
    connection.request(method, address, None if body is None else json.dumps(body))
    return json.loads(connection.getresponse().read())


class Clients:
    """Threads that ask and compare."""

    def __init__(self, port: int, baskets: list[list[str]], expected: dict[str, Any]) -> None:
        self.port, self.baskets, self.expected = port, baskets, expected
        self.milliseconds: list[float] = []
        self.wrong = self.repeated = 0
        self._lock = threading.Lock()

    def start(self, requests: int) -> list[threading.Thread]:
        """Share the requests among the clients."""
        share = requests // _CLIENTS
        threads = [threading.Thread(target=self._run, args=(share,)) for _ in range(_CLIENTS)]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, count: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        for number in range(count):
            place = number % len(self.baskets)
            body = {"items": self.baskets[place], "k": _K}
            while True:
                started = time.perf_counter()
                try:
                    answer = ask(connection, "POST", "/recommend", body)
                    break
                except (OSError, http.client.HTTPException):
                    connection.close()
                    with self._lock:
                        self.repeated += 1
                    time.sleep(0.02)
            taken = 1e3 * (time.perf_counter() - started)
            ids = [row["item"] for row in answer.get("items", [])]
            right = self.expected.get(answer.get("model"), {}).get(place) == ids
            with self._lock:
                self.milliseconds.append(taken)
                self.wrong += not right
        connection.close()


def replace(path: Path, files: list[Path], turn: int) -> None:
    """Replace the file of the service: by another model, by half of one, or in place."""
    content = files[turn % 2].read_bytes()
    if turn % 3 == 2:
        path.write_bytes(content)
        return
    temporary = path.with_name("next")
    temporary.write_bytes(content[: len(content) // 2] if turn % 3 else content)
    temporary.replace(path)


def with_reloads(service: Service, clients: Clients, files: list[Path], plan: Plan) -> Any:
    """The first part."""
    path, memory, turn = Path(service.command[4]), [service.private_kb()], 0
    started, cpu = time.perf_counter(), service.seconds()
    threads = clients.start(plan.requests)
    while any(thread.is_alive() for thread in threads):
        if len(clients.milliseconds) >= len(memory) * plan.requests // 10:
            memory.append(service.private_kb())
        replace(path, files, turn)
        turn += 1
        time.sleep(0.4)
    taken, used = time.perf_counter() - started, service.seconds() - cpu
    health = ask(http.client.HTTPConnection("127.0.0.1", service.port), "GET", "/health")
    return {
        "requests": len(clients.milliseconds),
        "requests per second": len(clients.milliseconds) / taken,
        "CPU ms per request": 1e3 * used / len(clients.milliseconds),
        "p50 ms": float(np.percentile(clients.milliseconds, 50)),
        "p99 ms": float(np.percentile(clients.milliseconds, 99)),
        "private memory, kB": [*memory[:10], service.private_kb()],
        "files replaced": turn,
        "reloads": health["reloads"],
        "wrong answers": clients.wrong,
        "repeated requests": clients.repeated,
    }


def with_kills(service: Service, clients: Clients, plan: Plan) -> Any:
    """The second part."""
    kills, threads = 0, clients.start(plan.with_kills)
    while any(thread.is_alive() for thread in threads):
        time.sleep(1.0)
        service.kill()
        kills += 1
        service.start()
    return {
        "requests": len(clients.milliseconds),
        "kills": kills,
        "wrong answers": clients.wrong,
        "repeated requests": clients.repeated,
    }


def bare_loop(model: ItemWeightedPCA, baskets: list[list[str]]) -> dict[str, float]:
    """The same lists without a service."""
    times, cpu = [], time.process_time()
    for basket in baskets * 5:
        started = time.perf_counter()
        model.recommend(basket, k=_K)
        times.append(1e3 * (time.perf_counter() - started))
    used = 1e3 * (time.process_time() - cpu) / len(times)
    p50, p99 = np.percentile(times, [50, 99]).tolist()
    return {"CPU ms per request": used, "p50 ms": p50, "p99 ms": p99}


def run(plan: Plan) -> Report:
    """Both parts and the bare loop."""
    facts = machine()
    plays = listening(n_users=2000, n_items=plan.n_items)
    baskets = [
        plays.item_ids[plays.matrix[[user]].indices].tolist()[:20] for user in range(_BASKETS)
    ]
    with TemporaryDirectory() as folder, progress(3) as step:
        files, expected = [], {}
        for rank in (32, 33):
            model = ItemWeightedPCA(rank, tol=1e-4).fit(plays)
            files.append(model.save(Path(folder) / f"{rank}.eqp"))
            lists = [model.recommend(basket, k=_K).ids.tolist() for basket in baskets]
            expected[LiveModel(files[-1]).current.version] = dict(enumerate(lists))
        bare = bare_loop(model, baskets)
        step("bare loop")
        path = Path(folder) / "model.eqp"
        path.write_bytes(files[0].read_bytes())
        service = Service(path)
        try:
            for thread in Clients(service.port, baskets, expected).start(400):  # warm
                thread.join()
            reloads = with_reloads(service, Clients(service.port, baskets, expected), files, plan)
            step("replaced files")
            path.write_bytes(files[0].read_bytes())
            kills = with_kills(service, Clients(service.port, baskets, expected), plan)
            step("kills")
        finally:
            service.process.terminate()
            service.process.wait()
    cells = {"bare loop": bare, "replaced files": reloads, "kills": kills}
    return Report(plan.name, _claim(), facts, cells, _tables(cells, plan), _verdicts(cells))


def _claim() -> str:
    return (__doc__ or "").split(" Run\n``python")[0]


def _verdicts(cells: dict[str, Any]) -> list[str]:
    first, second = cells["replaced files"], cells["kills"]
    memory = first["private memory, kB"]
    middle = memory[len(memory) // 2]
    gained = max(memory[len(memory) // 2 :]) - middle
    return [
        f"{_held(not first['wrong answers'] and not first['repeated requests'])}: "
        f"{first['wrong answers']} wrong answers and {first['repeated requests']} failed requests "
        f"of {first['requests']:,}, with {first['files replaced']} replaced files.",
        f"{_held(not second['wrong answers'])}: {second['wrong answers']} wrong answers of "
        f"{second['requests']:,}, with {second['kills']} kills; {second['repeated requests']:,} "
        "attempts found no service.",
        f"{_held(gained <= _FLAT_KB)}: private memory gained {gained:,} kB in the second half of "
        f"the requests (goal: {_FLAT_KB:,}), from {middle:,}.",
    ]


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


def _tables(cells: dict[str, Any], plan: Plan) -> list[Table]:
    keys = ("requests per second", "CPU ms per request", "p50 ms", "p99 ms")
    rows = [
        [name, *(f"{cells[name][key]:.3g}" if key in cells[name] else "" for key in keys)]
        for name in ("bare loop", "replaced files")
    ]
    times = Table(
        f"{_CLIENTS} clients, {plan.n_items:,} items, rank 32, lists of {_K}",
        ("", *keys),
        rows,
        "p50 and p99 are seen by the clients, which share the cores with the service.",
    )
    memory = cells["replaced files"]["private memory, kB"]
    shares = [f"{10 * place} %" for place in range(len(memory))]
    kept = Table("Private memory of the service, kB", shares, [[f"{kb:,}" for kb in memory]])
    return [times, kept]


if __name__ == "__main__":
    quick, full = Plan("bench_service-quick", 20_000, 1000), Plan("bench_service", 100_000, 3_000)
    harness.main(__doc__, run, quick, full)
