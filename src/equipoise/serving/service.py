"""A model as a web service: lists, similar items and explanations as JSON over HTTP.

Needs the extra ``serve``. The file of the model may be replaced while the service runs: the new
model is verified first, and the old one serves until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from equipoise import __version__
from equipoise.checks import check_choice, check_whole_number
from equipoise.defaults import SERVED_K
from equipoise.display import Shown, page
from equipoise.exceptions import EquipoiseError, InvalidDataError, first_line, require_extra
from equipoise.models.base import Recommender
from equipoise.models.persistence import read_model
from equipoise.models.ranking import Ranking

_LOG = logging.getLogger("equipoise.serve")

# Upper ends of the histogram of response times, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Limits(NamedTuple):
    """The largest request that is answered.

    Attributes
    ----------
    body : int
        Bytes of a request.
    users : int
        Users of a batch.
    k : int
        Items per list.
    """

    body: int = 1 << 20
    users: int = 256
    k: int = 1000


class Loaded(NamedTuple):
    """A model, and a text that is equal for equal files."""

    model: Recommender
    version: str


class LiveModel:
    """The model of a file, loaded again when the file is replaced.

    Parameters
    ----------
    path : path
        File that `Recommender.save` wrote, and will replace.
    mmap : bool
        Keep large arrays in the pages of the file, which processes share. The file must then be
        replaced by renaming, as `save` does: overwriting it would change the model that serves.

    Attributes
    ----------
    current : Loaded
        What serves now; read it once per request.
    error : str or None
        Why the file that is there now was not loaded.
    reloads, failures : int
        How often the file was loaded again, or refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, mmap: bool = False) -> None:
        self.path, self.mmap = Path(path), mmap
        self.error: str | None = None
        self.reloads = self.failures = 0
        self._stamp = self._look()
        self.current = self._load()

    def refresh(self) -> bool:
        """Load the file if it was replaced; keep the old model if that fails."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp  # a damaged file is not tried again until it changes
        try:
            self.current = self._load()
        except Exception as error:  # whatever the file is: the service must outlive it
            self.error, self.failures = first_line(error), self.failures + 1
            is_defect = not isinstance(error, EquipoiseError)
            _LOG.warning("the old model keeps serving: %s", self.error, exc_info=is_defect)
            return False
        self.error, self.reloads = None, self.reloads + 1
        _LOG.info("loaded %s, version %s", self.path, self.current.version)
        return True

    def _load(self) -> Loaded:
        saved = read_model(self.path, mmap=self.mmap)
        return Loaded(saved.restore(self.path), saved.digest)

    def _look(self) -> tuple[int, int, int] | None:
        """Return what changes when a file is replaced; None if it is not there."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


class _Metrics:
    """Counts of requests and times, as Prometheus reads them; used by one thread."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._below: Counter[float] = Counter()
        self._seconds = 0.0

    def count(self, path: str, status: int, seconds: float) -> None:
        self._requests[path, status] += 1
        self._seconds += seconds
        self._below.update(end for end in _BUCKETS if seconds <= end)

    def text(self, live: LiveModel) -> str:
        requests = {
            f'{{path="{path}",status="{status}"}}': count
            for (path, status), count in sorted(self._requests.items())
        }
        times: dict[str, float] = {f'_bucket{{le="{end}"}}': self._below[end] for end in _BUCKETS}
        total = self._requests.total()
        times |= {'_bucket{le="+Inf"}': total, "_sum": self._seconds, "_count": total}
        values: dict[str, Mapping[str, float]] = {
            "equipoise_requests_total counter": requests,
            "equipoise_request_seconds histogram": times,
            "equipoise_model_items gauge": {"": live.current.model.n_features_in_},
            "equipoise_model_reloads_total counter": {"": live.reloads},
            "equipoise_model_reload_failures_total counter": {"": live.failures},
        }
        lines = []
        for name, rows in values.items():
            lines.append(f"# TYPE {name}")
            lines += [f"{name.split()[0]}{end} {value}" for end, value in rows.items()]
        return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------- requests


def _recommend(model: Recommender, body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    users = body.get("users")
    if users is None:
        return _list_of(model, body, limits)
    if not isinstance(users, list) or len(users) > limits.users:
        raise InvalidDataError(f"users must be a list of at most {limits.users} users.")
    shared = {key: value for key, value in body.items() if key != "users"}
    return {"lists": [_list_of(model, {**shared, **_an_object(user)}, limits) for user in users]}


def _list_of(model: Recommender, body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    found = model.recommend(
        _basket(model, body),
        _length(body, model, limits),
        filter_already_liked_items=not body.get("include_seen", False),
        filter_items=_ids(model, body, "filter_items"),
        items=_ids(model, body, "only_items"),
        unknown=body.get("unknown", "drop"),
    )
    return {"items": _rows(found), "fallback": bool(found.fallback)}


def _similar(model: Recommender, body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    item = _typed(model, [_required(body, "item")])[0]
    return {"items": _rows(model.similar_items(item, _length(body, model, limits)))}


def _explain(model: Recommender, body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    item = _typed(model, [_required(body, "item")])[0]
    basket, k = _basket(model, body), _length(body, model, limits)
    why = model.explain(basket, item, k, unknown=body.get("unknown", "drop"))
    because = [
        {"item": each, "contribution": part}
        for each, part in zip(why.ids.tolist(), why.contributions.tolist(), strict=True)
    ]
    return {"score": why.score, "because": because, "rest": why.rest}


def _rows(found: Ranking) -> list[dict[str, Any]]:
    pairs = zip(found.ids.tolist(), found.scores.tolist(), strict=True)
    return [{"item": item, "score": score} for item, score in pairs if score == score]


def _an_object(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise InvalidDataError('a request is a JSON object, e.g. {"items": ["a", "b"], "k": 5}.')
    return given


def _required(body: Mapping[str, Any], name: str) -> Any:
    if name not in body:
        raise InvalidDataError(f"the request has no {name!r}.")
    return body[name]


def _basket(model: Recommender, body: Mapping[str, Any]) -> dict[Any, float]:
    """Return a user's items: a list of ids, of [id, value] pairs, or an object of values by id."""
    check_choice("unknown", body.get("unknown", "drop"), ("drop", "error"))
    given = _required(body, "items")
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list):
        raise InvalidDataError("items must be a list of ids, of [id, value] pairs, or an object.")
    pairs = [pair if isinstance(pair, list | tuple) else (pair, 1.0) for pair in pairs]
    if not all(len(pair) == 2 and isinstance(pair[1], int | float) for pair in pairs):
        raise InvalidDataError("values of items must be numbers.")
    basket: dict[Any, float] = {}
    for item, (_, value) in zip(_typed(model, [p[0] for p in pairs]), pairs, strict=True):
        basket[item] = basket.get(item, 0.0) + value
    return basket


def _ids(model: Recommender, body: Mapping[str, Any], name: str) -> list[Any] | None:
    given = body.get(name)
    if given is not None and not isinstance(given, list):
        raise InvalidDataError(f"{name} must be a list of item ids.")
    return None if given is None else _typed(model, given)


def _typed(model: Recommender, ids: list[Any]) -> list[Any]:
    """Return ids in the type of the model's: the names in a JSON object are always text."""
    if any(isinstance(item, list | dict) or item is None for item in ids):
        raise InvalidDataError("item ids are text or numbers.")
    if model.item_ids_ is not None and model.item_ids_.dtype.kind not in "iu":
        return ids
    return [int(i) if isinstance(i, str) and i.lstrip("-").isdecimal() else i for i in ids]


def _length(body: Mapping[str, Any], model: Recommender, limits: Limits) -> int:
    k = body.get("k", SERVED_K)
    check_whole_number("k", k, 1, limits.k)
    return min(k, model.n_features_in_)


_ANSWERS: Mapping[str, Callable[[Recommender, Mapping[str, Any], Limits], dict[str, Any]]] = {
    "/recommend": _recommend,
    "/similar": _similar,
    "/explain": _explain,
}


# ------------------------------------------------------------------------------------- service


def create_app(
    path: str | os.PathLike[str],
    *,
    reload_seconds: float | None = 1.0,
    limits: Limits | None = None,
    mmap: bool = False,
) -> Any:
    """Return the service as a Starlette application.

    Parameters
    ----------
    path : path
        A saved model.
    reload_seconds : float, optional
        How often to look for a new file; None does not.
    limits : Limits, optional
        The largest request that is answered.
    mmap : bool
        As in `LiveModel`.
    """
    require_extra("starlette", "serve", "A web service")
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    allowed = limits or Limits()
    live, metrics = LiveModel(path, mmap=mmap), _Metrics()
    described = _openapi(allowed)

    async def answer(request: Request) -> Response:
        started = time.perf_counter()
        content, status = await reply(request)
        metrics.count(request.url.path, status, time.perf_counter() - started)
        return JSONResponse(content, status)

    async def reply(request: Request) -> tuple[dict[str, Any], int]:
        received = bytearray()
        async for piece in request.stream():
            received += piece
            if len(received) > allowed.body:
                return {"error": f"a request has at most {allowed.body} bytes"}, 413
        current = live.current  # one model for the whole request
        function = _ANSWERS[request.url.path]
        try:
            body = _an_object(json.loads(received))
            content = await run_in_threadpool(function, current.model, body, allowed)
        except (ValueError, RecursionError, EquipoiseError) as error:
            return {"error": first_line(error)}, 400
        except Exception:  # a defect: for the log, not for the client
            _LOG.exception("request to %s failed", request.url.path)
            return {"error": "internal error"}, 500
        return content | {"model": current.version}, 200

    def health(_: Request) -> Response:
        model, version = live.current
        facts: dict[str, Any] = {"status": "ok", "model": version, "class": type(model).__name__}
        facts |= {"items": model.n_features_in_, "reloads": live.reloads, "error": live.error}
        return JSONResponse(facts)

    async def counters(_: Request) -> Response:  # in the thread that counts
        return PlainTextResponse(metrics.text(live))

    async def watch(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(live.refresh)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        watching = None if reload_seconds is None else asyncio.create_task(watch(reload_seconds))
        yield
        if watching is not None:
            watching.cancel()

    routes = [Route(address, answer, methods=["POST"]) for address in _ANSWERS]
    routes += [
        Route("/health", health),
        Route("/metrics", counters),
        Route("/openapi.json", lambda _: JSONResponse(described)),
        Route("/", lambda _: HTMLResponse(_page(described))),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.live = live
    return app


def serve(path: Path, host: str, port: int, **options: Any) -> None:
    """Run the service until it is interrupted; open requests are answered first."""
    uvicorn = require_extra("uvicorn", "serve", "A web service")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    app = create_app(path, **options)
    uvicorn.run(app, host=host, port=port, access_log=False, timeout_graceful_shutdown=10)


def _openapi(limits: Limits) -> dict[str, Any]:
    """Return the description of the service in the format of OpenAPI."""
    text = Path(__file__).with_name("openapi.json").read_text(encoding="utf-8")
    description: dict[str, Any] = json.loads(text)
    description["info"]["version"] = __version__
    fields = description["components"]["schemas"]
    fields["users"]["maxItems"] = limits.users
    fields["k"] |= {"maximum": limits.k, "default": SERVED_K}
    return description


def _page(description: Mapping[str, Any]) -> str:
    """Return the description as a page without scripts."""
    rows = [
        (f"{verb.upper()} {path}", one["summary"])
        for path, verbs in description["paths"].items()
        for verb, one in verbs.items()
    ]
    note = 'A request is JSON, e.g. {"items": ["a", "b"], "k": 5}.'
    table = Shown("Requests", ["address", "answer"], rows, [note]).html()
    fields = '<a href="/openapi.json">All fields: openapi.json</a>'
    return page(f"equipoise {__version__}", [table, fields])
