"""How a benchmark is timed, and one row of its table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphtemper_research.harness import provenance
from graphtemper_research.harness.outcome import write_text

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """Our time next to a peer's; ``met`` says whether the ``bar`` holds."""

    what: str
    size: str
    seconds: float
    peer: str = ""
    peer_seconds: float | None = None
    peak_gigabytes: float | None = None
    note: str = ""
    bar: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """How many times faster than the peer we are."""
        return None if self.peer_seconds is None else self.peer_seconds / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        ratio = self.ratio
        return asdict(self) | {"ratio": None if ratio is None else round(ratio, 3)}


def best(job: Callable[[], Any], repeats: int = 3) -> float:
    """Return the shortest of a few wall-clock times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def race(jobs: dict[str, tuple[Callable[[], Any], int]], rounds: int = 3) -> dict[str, float]:
    """Return the least CPU seconds of each job, divided by its number of threads.

    The jobs take turns, so that all of them meet the same state of the machine, and CPU seconds do
    not grow while other programs run. Dividing by the threads is generous to a peer that does not
    keep all of them busy.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, (job, threads) in jobs.items():
            start = time.process_time()
            job()
            times[name].append((time.process_time() - start) / threads)
    return {name: min(found) for name, found in times.items()}


def kept(path: Path, replaced: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Return the rows of a result that this commit measured and that are not measured again."""
    if not path.exists() or provenance.read(path).commit != provenance.commit():
        return []
    return [row for row in provenance.load(path)["rows"] if not replaced(row)]


def keep(path: Path, command: str, rows: Iterable[dict[str, Any]], **more: Any) -> None:
    """Write rows as a result that says who measured them."""
    content = {"measured": provenance.stamp(f"python -m benchmarks.{command}"), "rows": [*rows]}
    write_text(path, provenance.text(content | more))


def in_own_process(call: str) -> Any:
    """Run ``module.function(...)`` of this folder in a fresh process; it prints JSON at its end."""
    module = call.split(".")[0]
    done = subprocess.run(
        [sys.executable, "-c", f"from benchmarks import {module}; {call}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
