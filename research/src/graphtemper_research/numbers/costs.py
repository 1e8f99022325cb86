"""What the answers cost: time, memory and privacy, from the results of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import Any

from graphtemper_research.harness.frame import Row
from graphtemper_research.numbers.tables import Results, table


def cost(results: Results) -> str:
    """Return what the main job costs, beside one plain pass of the model."""
    rows = [
        [
            f"`recalibrate`, {row['size'].partition('<br>')[0]}",
            f"{row['seconds']:.3g} s",
            f"{row['peer_seconds']:.3g} s",
            f"{row['seconds'] / row['peer_seconds']:.1f}",
        ]
        for row in results.rows("benchmarks", what="recalibrate")
        if row["peer"].startswith("one naive SIGN pass")
    ]
    return table(["job", "time", "one plain pass of the model", "ratio"], rows)


def benchmarks(results: Results) -> str:
    """Return every measurement of ``make bench``, beside its peer."""
    return _beside_peers(results.rows("benchmarks"))


def bars(results: Results) -> str:
    """Return the measurements that have a bar."""
    return _beside_peers(row for row in results.rows("benchmarks") if row["bar"])


def _beside_peers(rows: Iterable[Row]) -> str:
    head = ("what", "size", "ours, s", "peer", "peer, s", "ratio", "peak, GB", "bar", "met")
    body = [
        [
            row["what"],
            row["size"] + (f"<br>*{row['note']}*" if row["note"] else ""),
            _shown(row["seconds"], ".3g"),
            row["peer"],
            _shown(row["peer_seconds"], ".3g"),
            _shown(row["ratio"], ".2f"),
            _shown(row["peak_gigabytes"], ".2f"),
            row["bar"],
            {True: "yes", False: "no", None: "-"}[row["met"]],
        ]
        for row in rows
    ]
    return table(head, body)


def _shown(value: float | None, spec: str) -> str:
    return "" if value is None else format(value, spec)


def modules(results: Results) -> str:
    """Return what cards and answers of torch modules cost."""
    body = []
    for row in results.rows("modules"):
        if row["graph"] != "sample":
            card, answer, each = row["card"], row["recalibrate"], row["pass"]
            body.append(
                [
                    row["graph"],
                    row["module"],
                    f"{each:.3g}",
                    _shown(card, ".1f"),
                    _shown(card and card / each, ".0f"),
                    _shown(row["card_passes"] if card else None, "d"),
                    _shown(row.get("waited") or None, ".0f"),
                    _shown(answer, ".1f"),
                    _shown(answer and answer / each, ".0f"),
                    _shown(row["passes"], "d"),
                    _shown(row.get("peak") or None, ".1f"),
                ]
            )
    head = ("graph", "module", "pass, s", "card, s", "ratio", "passes", "waited", "answer, s")
    return table([*head, "ratio", "passes", "GB"], body)


def sample_and_all(results: Results) -> str:
    """Return answers from a sample beside those from all nodes."""
    (found,) = (row["rows"] for row in results.rows("modules", graph="sample"))
    rms = mean(item["z"] ** 2 for item in found) ** 0.5
    body = [
        [
            str(number),
            f"{item['all']:.3f}",
            f"{item['sample']:.3f}",
            f"{item['z']:.1f}",
            f"{item['nodes']:,}",
            f"{item['all_seconds']:.1f}",
            f"{item['sample_seconds']:.1f}",
        ]
        for number, item in enumerate(found, 1)
    ]
    head = ("target", "all nodes", "sample", "z", "sampled nodes", "all nodes, s", "sample, s")
    return (
        f"{table(head, body)}\n\nThe root mean square of *z* is {rms:.2f}. The difference is at "
        f"most {max(item['of_interval'] for item in found):.0%} of the width of the 90 % interval."
    )


def scaling_exponents(results: Results) -> str:
    """Return how time and memory grow, as exponents."""
    body = (
        [item["axis"], item["job"], _shown(item["time"], ".2f"), _shown(item["memory"], ".2f")]
        for item in results.read("scaling")["exponents"]
    )
    return table(["axis", "job", "exponent of time", "exponent of memory"], body)


def scaling_per_edge(results: Results) -> str:
    """Return the cost per edge from the fewest edges to the most."""
    body = (
        [
            item["axis"],
            item["what"],
            ", ".join(f"{value:g}" for value in item["per_edge"]),
            _shown(item["growth"], "+.0%"),
            _shown(item["spread"], "+.0%"),
            "yes" if item["met"] else "no",
        ]
        for item in results.read("scaling")["per_edge"]
    )
    return table(["axis", "cost", "per edge", "growth", "spread", "met"], body)


def scaling_points(results: Results) -> str:
    """Return every point that was measured."""
    body = (
        [
            row["axis"],
            row["job"],
            f"{row['value']:,}",
            f"{row['wall_seconds']:.2f}",
            f"{row['cpu_seconds']:.2f}",
            f"{1e6 * row['cpu_seconds'] / max(row['edges'], 1):.2f}",
            f"{row['peak_gigabytes']:.2f}",
        ]
        for row in results.rows("scaling")
    )
    return table(["axis", "job", "value", "wall, s", "CPU, s", "us/edge", "peak, GB"], body)


def private_cards(results: Results) -> str:
    """Return what a privacy budget costs: ECE, error of the accuracy, coverage."""
    body = []
    for row in results.rows("private_cards"):
        budget = "none" if row["epsilon"] is None else f"{row['epsilon']:g}"
        cells = [row["graph"], f"{row['nodes']:.0f}", budget]
        cells += [f"{row[name]:.4f}" for name in ("nothing", "source")]
        for kind in ("known", "unknown"):
            cells += [f"{row[kind]:.4f}", f"{row[f'{kind} error']:.3f}"]
            cells.append(f"{row[f'{kind} coverage']:.0%}")
        body.append([*cells, f"{row['oracle']:.4f}"])
    head = ["graph", "nodes", "epsilon", "doing nothing", "source temperature"]
    for kind in ("known", "unknown"):
        head += [f"{kind}: ECE", "error", "coverage"]
    return table([*head, "best temperature"], body)


STAGES = {
    "reading the logits": ("logits: sums, confidence sketch, pool", "nodes x classes"),
    "reading the nodes": ("nodes: moments of the features", "nodes x columns"),
    "reading the edges": ("edges: classes at their ends", "edges"),
    "running the model on a sample": (
        "sample: passes over the tables, then the model",
        "tables; sample x degree^layers",
    ),
    "writing probabilities": ("probabilities", "nodes x classes"),
}
MODELS = {"sage": "GraphSAGE", "sign": "SIGN"}


def _streamed(results: Results, **having: Any) -> list[dict[str, Any]]:
    """Return runs of all stages, from the smallest."""
    rows = results.rows("large", **having)
    whole = (row for row in rows if len(row["stages"]) == len(STAGES))
    return sorted(whole, key=lambda row: (row["model"], row["edges"]))


def _edges(count: int) -> str:
    return f"{count // 10**6} million" if count >= 10**6 else f"{count:,}"


def _spent(row: Row) -> tuple[float, float]:
    """Return the processor seconds of the streams, and of the evidence."""
    cpu = {stage["stage"]: stage["cpu"] for stage in row["stages"]}
    evidence = cpu.pop("running the model on a sample")
    return sum(cpu.values()), evidence


def scale_costs(results: Results) -> str:
    """Return the cost of every stage of large runs: seconds, and peak memory so far."""
    runs = [row for row in _streamed(results, sample=2000) if row["edges"] >= 10**7]
    sizes = (f"{MODELS[x['model']]}, {_edges(x['edges'])}, {x['sample']:,} nodes" for x in runs)
    body = [
        [*names, *(f"{x['stages'][n]['cpu']:.1f} s, {x['stages'][n]['peak']:.1f} GB" for x in runs)]
        for n, names in enumerate(STAGES.values())
    ]
    body.append(["all", "", *(f"{sum(_spent(row)):.0f} s" for row in runs)])
    return table(["stage", "grows with", *sizes], body)


def scale_growth(results: Results) -> str:
    """Return how the cost grows with the graph, for one size of the sample."""
    body = []
    for row in _streamed(results, sample=500, model="sage"):
        streams, evidence = _spent(row)
        peak = max(stage["peak"] for stage in row["stages"])
        each = f"{streams / row['edges'] * 1e6:.2f} s"
        body.append([_edges(row["edges"]), each, f"{evidence:.1f} s", f"{peak:.1f} GB"])
    return table(["edges", "streams, per million edges", "evidence", "peak"], body)


def scale_errors(results: Results) -> str:
    """Return how far the estimates of samples are from that of all nodes in memory."""
    body = []
    for row in sorted(results.rows("sampling"), key=lambda row: (row["model"], row["nodes"])):
        size = [MODELS[row["model"]], _edges(10 * row["nodes"]), f"{row['sample']:,}"]
        error = f"{100 * row['rms_error']:.2f} (root mean square of {len(row['samples'])})"
        values = [f"mean {mean(row['samples']):.4f}", f"{row['in_memory']:.4f}"]
        body.append([*size, *values, error])
    for row in _streamed(results):
        if "in_memory" in row:
            size = [MODELS[row["model"]], _edges(row["edges"]), f"{row['sample']:,}"]
            value = f"{row['accuracy']:.4f} in [{row['low']:.3f}, {row['high']:.3f}]"
            error = f"{100 * abs(row['accuracy'] - row['in_memory']):.2f}"
            body.append([*size, value, f"{row['in_memory']:.4f}", error])
    return table(
        ["model", "edges", "sampled nodes", "samples", "all nodes", "off by, in points"], body
    )


def scale_peers(results: Results) -> str:
    """Return the cost of the same jobs in Dask and DuckDB."""
    names = {"floor": "a temperature and probabilities", "joins": "all nodes within two edges"}
    body = [
        [
            names[row["what"]],
            _edges(row["edges"]),
            row["way"] + (f", {row['passes']} passes" if "passes" in row else ""),
            f"{row['cpu']:.1f}",
            f"{row['peak']:.1f} GB",
        ]
        for row in sorted(results.rows("large_peers"), key=lambda row: (row["what"], row["edges"]))
    ]
    return table(["job", "edges", "written with", "CPU seconds", "peak"], body)


def scale_on_paper(results: Results) -> str:
    """Return what ten billion edges cost on 50 workers, from the largest run of GraphSAGE."""
    row = _streamed(results, sample=2000, model="sage")[-1]
    factor, workers = 10**10 / row["edges"], 50
    streams, evidence = _spent(row)
    cpu = {stage["stage"]: factor * stage["cpu"] for stage in row["stages"]}
    edge, node = cpu["reading the edges"], cpu["reading the nodes"]
    return (
        f"{factor:.0f} times the streams of {_edges(row['edges'])} edges is "
        f"{factor * streams:,.0f} CPU seconds, {factor * streams / workers:.0f} seconds on "
        f"{workers} workers. A pass over the edges takes at most {edge:,.0f} CPU seconds and one "
        f"over the nodes {node:,.0f}; the sample of a model of two layers needs nine and three of "
        f"them, and five and one for every further block: {9 * edge + 3 * node:,.0f} CPU seconds, "
        f"{(9 * edge + 3 * node) / workers:.0f} seconds on {workers} workers, for one block. The "
        f"model on {row['sample']:,} nodes takes at most the {evidence:.0f} seconds that it took "
        "here with its passes, where the call is made."
    )
