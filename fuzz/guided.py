"""Coverage-guided runs: atheris (libFuzzer) keeps the inputs that reach a new branch.

`python fuzz/run.py TARGET --guided` starts this file in a separate process, because libFuzzer ends
its process.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
_MISSING = (
    "guided runs need atheris, which has wheels for Linux: pip install atheris. Without it, leave "
    "--guided out: inputs are changed without looking at the branches they reach."
)


def follow(
    name: str, inputs: int, seed: int, minutes: float
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Run in a child process, and read off what it says."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        raise SystemExit(_MISSING) from None
    from fuzz.run import scratch

    with scratch() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, str(HERE / "guided.py"), name, str(result), folder,
                   f"-runs={inputs}", f"-seed={seed + 1}", "-max_len=4096",
                   "-print_final_stats=1"]  # fmt: skip
        command += [f"-max_total_time={60 * minutes:.0f}"] if minutes < 1e6 else []
        started = time.perf_counter()
        done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
        said = done.stderr.decode(errors="replace")
        told = json.loads(result.read_text()) if result.exists() else None
    if told is None or done.returncode:
        raise SystemExit(f"the guided run failed:\n{said[-3000:]}")
    edges = [int(number) for number in re.findall(r"\bcov: (\d+)", said)]
    findings = told.pop("findings")
    return {
        "target": name, "mode": "guided", **told, "findings": len(findings), "aborts": 0,
        "seconds": round(time.perf_counter() - started, 1), "edges": max(edges, default=None),
        "grown_mb": None, "seeds": [seed], "python": platform.python_version(),
    }, findings  # fmt: skip


def _child() -> None:
    """Instrument the target's modules, then hand over to libFuzzer."""
    import atheris

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = "1"
    sys.path.insert(0, str(HERE.parent))
    name, result, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    watched = {"text": "equipoise.data.readers", "lightgcn": "equipoise.data.readers",
               "model": "equipoise.models.persistence"}.get(name, "equipoise")  # fmt: skip
    with atheris.instrument_imports(include=[watched]):
        from fuzz.target import Finding, Tally, judge, peak_mb
        from fuzz.targets import corpus, target

        tried = target(name)
    warnings.simplefilter("ignore")
    starts = Path(tempfile.mkdtemp(dir=folder))
    for number, content in enumerate([*tried.seeds(), *corpus(name)]):
        (starts / str(number)).write_bytes(content)
    tally, pool = Tally(), list(tried.seeds())

    def write_down() -> None:
        kept = [{**one._asdict(), "content": one.content.hex()} for one in tally.findings.values()]
        counts = {"inputs": tally.inputs, "accepted": tally.accepted, "refused": tally.refused}
        cpu = {"cpu_seconds": round(time.process_time(), 1), "peak_mb": round(peak_mb())}
        result.write_text(json.dumps(counts | cpu | {"findings": kept}))

    def one_input(content: bytes) -> None:
        verdict = judge(tried, content, folder)
        tally.add(verdict)
        if isinstance(verdict, Finding) or tally.inputs % 500 == 0:
            write_down()

    def mutator(content: bytes, largest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.5:
            return tried.changed(random, content, pool)[:largest]
        return bytes(atheris.Mutate(content, largest))

    atheris.Setup([sys.argv[0], *sys.argv[4:], str(starts)], one_input, custom_mutator=mutator)
    try:
        atheris.Fuzz()
    except BaseException:  # an ordinary end would wait for ever for the mutator
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    _child()
