"""Fuzz a target: `python fuzz/run.py TARGET --inputs 100000 --seed 0`."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("RUST_BACKTRACE", "0")  # printing a backtrace takes longer than the panic
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
RESULTS = HERE / "results.json"

# How runs with several seeds are combined
_SUMMED = ("inputs", "accepted", "refused", "findings", "aborts", "seconds", "cpu_seconds", "seeds")
_HIGHEST = ("peak_mb", "grown_mb", "edges")
# Beyond the memory at the start: a forged length must not be allocated
_ADDRESS_SPACE = 4 << 30


def main() -> int:
    """Run, print a table, and keep the counts."""
    from fuzz.targets import NAMES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=(*NAMES, "all"))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--add", action="store_true", help="add to the counts of runs before")
    parser.add_argument("--guided", action="store_true", help="coverage-guided, with atheris")
    parser.add_argument("--keep", type=Path, help="folder for inputs that found something")
    asked = parser.parse_args()
    found = 0
    for name in NAMES if asked.target == "all" else (asked.target,):
        if asked.guided:
            from fuzz.guided import follow

            record, findings = follow(name, asked.inputs, asked.seed, asked.minutes)
        else:
            record, findings = blind(name, asked.inputs, asked.seed, asked.minutes)
        _show(record)
        for number, finding in enumerate(findings):
            print(f"  {finding['kind']}: {finding['summary']}")
            if asked.keep:
                asked.keep.mkdir(parents=True, exist_ok=True)
                (asked.keep / f"{name}-{number}").write_bytes(bytes.fromhex(finding["content"]))
                (asked.keep / f"{name}-{number}.txt").write_text(finding["detail"])
        _remember(record, add=asked.add)
        found += len(findings)
    return 1 if found else 0


def blind(
    name: str, inputs: int, seed: int, minutes: float
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Mutate inputs without coverage."""
    from fuzz.isolated import campaign_isolated
    from fuzz.target import campaign, peak_mb
    from fuzz.targets import corpus, target

    warnings.simplefilter("ignore")
    with scratch() as folder:
        tried = target(name)
        if not tried.isolated:  # threads of polars would not survive a fork
            campaign(tried, len(tried.seeds()), seed, Path(folder))  # loads and compiles code
        limit_memory()
        started, before = time.perf_counter(), peak_mb()
        used, until = time.process_time(), time.monotonic() + 60 * minutes
        run = campaign_isolated if tried.isolated else campaign
        tally = run(tried, inputs, seed, Path(folder), corpus(name), until)
    findings = [{**one._asdict(), "content": one.content.hex()} for one in tally.findings.values()]
    return {
        "target": name,
        "mode": "mutation",
        "inputs": tally.inputs,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "findings": len(findings),
        "aborts": tally.aborts,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "edges": None,
        "peak_mb": round(peak_mb()),
        "grown_mb": round(peak_mb() - before),
        "seeds": [seed],
        "python": platform.python_version(),
    }, findings


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory if possible: a hundred thousand files are written to it."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="equipoise-fuzz-", dir=memory if memory.is_dir() else None
    )


def limit_memory() -> None:
    """Make large allocations fail: inputs have only some kilobytes."""
    if Path("/proc/self/statm").exists():
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + _ADDRESS_SPACE, resource.RLIM_INFINITY))


def _show(record: dict[str, Any]) -> None:
    columns = ("target", "mode", "inputs", "accepted", "refused", "findings", "seconds", "edges",
               "peak_mb", "grown_mb")  # fmt: skip
    print("  ".join(f"{column:>12}" for column in columns))
    print("  ".join(f"{'' if record[c] is None else record[c]!s:>12}" for c in columns), flush=True)


def _remember(record: dict[str, Any], *, add: bool) -> None:
    """Replace the last run of the same target and mode, or add to it."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    same = [one for one in known if all(one[key] == record[key] for key in ("target", "mode"))]
    for one in same if add else ():
        record |= {key: one[key] + record[key] for key in _SUMMED}
        record |= {
            key: max(filter(None, (one[key], record[key])), default=None) for key in _HIGHEST
        }
    others = [one for one in known if one not in same]
    kept = sorted([*others, record], key=lambda one: (one["target"], one["mode"]))
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
