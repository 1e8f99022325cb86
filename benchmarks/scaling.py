"""How cost grows: time and memory against nodes, edges, classes, passes, environments.

    python -m benchmarks.scaling [--quick] [--out FOLDER] [--only AXIS]

Every point runs in a process of its own, so that peak memory is that of the point. CPU seconds are
those of the process with all its threads. An exponent is the slope of a straight line through the
logarithms: 1 is proportional. The points with the fewest nodes are mostly the interpreter; the
exponent leaves out those under a tenth of a second. ``--only`` measures some axes and keeps the
other rows of the last run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.timing import in_own_process, keep, kept

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.card import atlas
from graphtemper.graph.checks import tidy_edges
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.models.linear import LinearGNN
from graphtemper.signals import passes as perturb
from graphtemper_research.harness.memory import peak_gigabytes

COLUMNS = 32
# How far apart the ends of a link of an ordered graph may be.
REACH = 200
# What is varied: its values, and those of a quick run. The others stay at BASE.
BASE = {"nodes": 50_000, "degree": 20, "classes": 5, "passes": 8, "environments": 0}
AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "nodes": ("recalibrate", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "ordered nodes": ("ordered", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "degree": ("recalibrate", (5, 10, 20, 40, 80)),
    "classes": ("recalibrate", (2, 5, 10, 20, 40)),
    "pass over nodes": ("pass", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "passes": ("passes", (4, 8, 16, 32, 64)),
    "environments": ("card", (0, 20, 40, 80)),
}
QUICK: dict[str, tuple[int, ...]] = {"nodes": (2_000, 8_000), "passes": (2, 8)}
SINGLES = len(atlas.plan(0, (), 0))
SHORTEST = 0.1
# How far cost per edge may vary.
PER_EDGE = 0.25


def drawn(nodes: int, degree: int, classes: int, seed: int) -> Graph:
    return csbm.sample(
        nodes, degree, 0.8, 1.0, num_classes=classes, num_features=max(COLUMNS, classes), seed=seed
    )


def in_order(nodes: int, degree: int, classes: int, seed: int) -> Graph:
    """Return a chain of communities: links join nodes less than `REACH` places apart."""
    rng = np.random.default_rng(seed)
    low = np.repeat(np.arange(nodes), degree // 2)
    high = np.minimum(low + rng.integers(1, REACH, low.size), nodes - 1)
    features = rng.standard_normal((nodes, max(COLUMNS, classes)), dtype=np.float32)
    return Graph(features=features, edges=tidy_edges(np.column_stack([low, high]), nodes))


def trained(point: dict[str, int]) -> tuple[LinearGNN, Graph]:
    source = drawn(3000, min(point["degree"], 20), point["classes"], 1)
    return SIGN(hops=2, tol=1e-2).fit(source, np.arange(1500)), source


def card_of(model: LinearGNN, source: Graph, compositions: int = 0) -> SourceCard:
    return SourceCard.build(model, source, np.arange(1500, 3000), compositions=compositions)


def job_of(what: str, point: dict[str, int]) -> Callable[[], Any]:
    """Return the work to be timed; everything before it is preparation."""
    model, source = trained(point)
    if what == "card":
        return lambda: card_of(model, source, point["environments"])
    make = in_order if what == "ordered" else drawn
    graph = make(point["nodes"], point["degree"], point["classes"], 2)
    if what == "pass":
        return lambda: [model(graph) for _ in range(point["passes"])]
    if what == "passes":
        return lambda: perturb.count_votes(
            perturb.feature_noise(model, graph, 0.5, point["passes"])
        )
    card = card_of(model, source)
    return lambda: recalibrate(model, graph, card)


def measure(what: str, point: dict[str, int]) -> None:
    """Print what one point costs; the process ends after it."""
    job = job_of(what, point)
    held = peak_gigabytes()
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    peak = peak_gigabytes()
    print(json.dumps({"wall": seconds[0], "cpu": seconds[1], "peak": peak, "before": held}))


def run_point(what: str, point: dict[str, int]) -> dict[str, float]:
    found: dict[str, float] = in_own_process(f"scaling.measure({what!r}, {point!r})")
    return found


def exponent(sizes: list[int], costs: list[float], least: float = 0.0) -> float | None:
    """Return the slope of log cost against log size, over costs of at least ``least``.

    >>> round(exponent([1, 10, 100], [2.0, 20.0, 200.0]), 3)
    1.0
    """
    kept = [(s, c) for s, c in zip(sizes, costs, strict=True) if s > 0 and c >= least]
    if len(kept) < 2:
        return None
    x, y = np.log(np.array(kept, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def axis_rows(axis: str, quick: bool) -> list[dict[str, Any]]:
    what, values = AXES[axis]
    key = "nodes" if axis.endswith("nodes") else axis
    rows = []
    for value in QUICK.get(axis, ()) if quick else values:
        point = BASE | {key: value} | ({"nodes": 5_000} if quick and key != "nodes" else {})
        cost = run_point(what, point)
        rows.append(
            {
                "axis": axis,
                "job": what,
                # Compositions come on top of the single shifts.
                "value": value + (SINGLES if axis == "environments" else 0),
                "edges": point["nodes"] * point["degree"] // 2,
                "wall_seconds": round(cost["wall"], 3),
                "cpu_seconds": round(cost["cpu"], 3),
                "peak_gigabytes": round(cost["peak"], 3),
                "held_gigabytes": round(cost["before"], 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for axis, group in groupby(rows, key=lambda row: row["axis"]):
        some = list(group)
        sizes = [row["value"] for row in some]
        found.append(
            {
                "axis": axis,
                "job": some[0]["job"],
                "time": exponent(sizes, [row["cpu_seconds"] for row in some], SHORTEST),
                "memory": exponent(sizes, [row["peak_gigabytes"] for row in some]),
            }
        )
    return found


def per_edge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare cost per edge between graphs of a hundred thousand and of ten million edges.

    Time is CPU time over edges. Memory is what the next larger point holds more, over how many
    edges it has more: the interpreter itself is larger than the smaller graphs.
    """
    found = []
    for axis in ("nodes", "ordered nodes", "pass over nodes"):
        some = [row for row in rows if row["axis"] == axis]
        if len(some) < 3:
            continue
        time_ = [row["cpu_seconds"] / row["edges"] for row in some]
        memory = [
            (b["peak_gigabytes"] - a["peak_gigabytes"]) / (b["edges"] - a["edges"])
            for a, b in pairwise(some)
        ]
        for what, costs, unit in (("time", time_, 1e6), ("memory", memory, 1e9)):
            spread = max(costs) / min(costs) - 1.0 if min(costs) > 0 else None
            met = spread is not None and spread <= PER_EDGE
            each = [round(cost * unit, 3) for cost in costs]
            item = {"axis": axis, "what": what, "per_edge": each, "spread": spread, "met": met}
            found.append(item | {"growth": costs[-1] / costs[0] - 1.0 if costs[0] > 0 else None})
    return found


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    from graphtemper.recalibration.report import style

    def content(figure: Any) -> None:
        axes = figure.subplots(1, 2)
        for axis, group in groupby(rows, key=lambda row: row["axis"]):
            some = [row for row in group if row["value"] > 0]
            base = some[0]
            x = [row["value"] / base["value"] for row in some]
            for plot, key in zip(axes, ("cpu_seconds", "peak_gigabytes"), strict=True):
                y = [row[key] / base[key] for row in some]
                plot.plot(x, y, marker="o", label=axis)
        for plot, title in zip(axes, ("CPU time", "peak memory"), strict=True):
            plot.set(xscale="log", yscale="log", title=title, xlabel="size, first point = 1")
            high = plot.get_xlim()[1]
            plot.plot([1, high], [1, high], color=style.GREY, linestyle=":", linewidth=1)
        axes[0].legend()

    style.draw(path, content, width=8.0, height=3.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--only", nargs="+", choices=AXES, default=())
    arguments = parser.parse_args()
    file = arguments.out / "scaling.json"
    measured = arguments.only or AXES
    known = kept(file, lambda row: row["axis"] in measured)
    rows = []
    for axis in QUICK if arguments.quick else AXES:
        if axis not in measured:
            rows += [row for row in known if row["axis"] == axis]
        else:
            rows += axis_rows(axis, arguments.quick)
    more = {"base": BASE, "exponents": exponents(rows), "per_edge": per_edge(rows)}
    keep(file, "scaling", rows, **more)
    picture(rows, arguments.out / "scaling.png")


if __name__ == "__main__":
    main()
