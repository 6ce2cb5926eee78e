"""Try a door: `python fuzz/run.py DOOR --inputs 100000 --seed 0`."""

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
os.environ.setdefault("RUST_BACKTRACE", "0")  # a page of text for each panic takes longer than it
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
RESULTS = HERE / "results.json"

# How runs with several seeds come together
_SUMMED = ("inputs", "accepted", "refused", "findings", "aborts", "seconds", "cpu_seconds", "seeds")
_HIGHEST = ("peak_mb", "grown_mb", "edges")
# Beyond what the process has at the start: a header that lies must not get what it asks for
_ADDRESS_SPACE = 4 << 30


def main() -> int:
    """Run, print a table, and keep the counts."""
    from fuzz.doors import NAMES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("door", choices=(*NAMES, "all"))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--add", action="store_true", help="add to the counts of runs before")
    parser.add_argument("--guided", action="store_true", help="let atheris follow the branches")
    parser.add_argument("--keep", type=Path, help="folder for inputs that found something")
    asked = parser.parse_args()
    found = 0
    for name in NAMES if asked.door == "all" else (asked.door,):
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
    """Change inputs without looking at what the code does with them."""
    from fuzz.apart import campaign_apart
    from fuzz.door import campaign, peak_mb
    from fuzz.doors import corpus, door

    warnings.simplefilter("ignore")
    with scratch() as folder:
        tried = door(name)
        if not tried.apart:  # threads of polars would not survive a fork
            campaign(tried, len(tried.seeds()), seed, Path(folder))  # loads and compiles code
        limit_memory()
        started, before = time.perf_counter(), peak_mb()
        used, until = time.process_time(), time.monotonic() + 60 * minutes
        run = campaign_apart if tried.apart else campaign
        tally = run(tried, inputs, seed, Path(folder), corpus(name), until)
    findings = [{**one._asdict(), "content": one.content.hex()} for one in tally.findings.values()]
    return {
        "door": name,
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
    """A folder in memory where there is one: a hundred thousand files are written to it."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="equipoise-fuzz-", dir=memory if memory.is_dir() else None
    )


def limit_memory() -> None:
    """Let an allocation fail that no input of some kilobytes can justify."""
    if Path("/proc/self/statm").exists():
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + _ADDRESS_SPACE, resource.RLIM_INFINITY))


def _show(record: dict[str, Any]) -> None:
    columns = ("door", "mode", "inputs", "accepted", "refused", "findings", "seconds", "edges",
               "peak_mb", "grown_mb")  # fmt: skip
    print("  ".join(f"{column:>12}" for column in columns))
    print("  ".join(f"{'' if record[c] is None else record[c]!s:>12}" for c in columns), flush=True)


def _remember(record: dict[str, Any], *, add: bool) -> None:
    """Keep the run in place of the last one of its door and mode, or add it to that."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    same = [one for one in known if all(one[key] == record[key] for key in ("door", "mode"))]
    for one in same if add else ():
        record |= {key: one[key] + record[key] for key in _SUMMED}
        record |= {
            key: max(filter(None, (one[key], record[key])), default=None) for key in _HIGHEST
        }
    others = [one for one in known if one not in same]
    kept = sorted([*others, record], key=lambda one: (one["door"], one["mode"]))
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
