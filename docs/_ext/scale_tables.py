"""Tables of what large graphs cost, computed from the committed results, for `scale.md`."""

from pathlib import Path
from statistics import mean

from evidence import table

from graphtemper_research.harness.provenance import load

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
EVIDENCE = "running the model on a sample"
MODELS = {"sage": "GraphSAGE", "sign": "SIGN"}


def tables(source: Path) -> dict[str, str]:
    """Return Markdown by file name."""
    folder = source / "results"
    large, errors, peers = (
        load(folder / f"{name}.json")["rows"] for name in ("large", "sampling", "large_peers")
    )
    streamed = [row for row in large if len(row["stages"]) == len(STAGES)]
    return {
        "scale_costs": costs(streamed),
        "scale_growth": growth(streamed),
        "scale_errors": sampled(streamed, errors),
        "scale_peers": others(peers),
        "scale_on_paper": on_paper(streamed),
    }


def edges(count: int) -> str:
    """Return a number of edges in words."""
    return f"{count // 10**6} million" if count >= 10**6 else f"{count:,}"


def costs(rows: list[dict]) -> str:
    """Return the cost of every stage of large runs: seconds, and peak memory so far."""
    shown = [row for row in rows if row["edges"] >= 10**7 and in_default(row)]
    shown.sort(key=lambda row: (row["model"], row["edges"]))
    sizes = (f"{MODELS[x['model']]}, {edges(x['edges'])}, {x['sample']:,} nodes" for x in shown)
    head, body = ["stage", "grows with", *sizes], []
    for number, (name, grows) in enumerate(STAGES.values()):
        cells = [row["stages"][number] for row in shown]
        body.append([name, grows, *(f"{x['cpu']:.1f} s, {x['peak']:.1f} GB" for x in cells)])
    body.append(["all", "", *(f"{sum(spent(row)):.0f} s" for row in shown)])
    return table(head, body)


def in_default(row: dict) -> bool:
    """Return whether a row is of the default sample."""
    return row["sample"] == 2000


def spent(row: dict) -> tuple[float, float]:
    """Return the processor seconds of the streams, and of the evidence."""
    evidence = sum(stage["cpu"] for stage in row["stages"] if stage["stage"] == EVIDENCE)
    return sum(stage["cpu"] for stage in row["stages"]) - evidence, evidence


def growth(rows: list[dict]) -> str:
    """Return how the cost grows with the graph, for one size of the sample."""
    head = ["edges", "streams, per million edges", "evidence", "peak"]
    shown = sorted(
        (row for row in rows if row["sample"] == 500 and row["model"] == "sage"),
        key=lambda row: row["edges"],
    )
    body = []
    for row in shown:
        streams, evidence = spent(row)
        peak = max(stage["peak"] for stage in row["stages"])
        each = f"{streams / row['edges'] * 1e6:.2f} s"
        body.append([edges(row["edges"]), each, f"{evidence:.1f} s", f"{peak:.1f} GB"])
    return table(head, body)


def sampled(rows: list[dict], errors: list[dict]) -> str:
    """Return how far the estimates of samples are from that of all nodes in memory."""
    head = ["model", "edges", "sampled nodes", "samples", "all nodes", "off by, in points"]
    body = []
    for row in sorted(errors, key=lambda row: (row["model"], row["nodes"], row["sample"])):
        size = [MODELS[row["model"]], edges(10 * row["nodes"]), f"{row['sample']:,}"]
        value = f"mean {mean(row['samples']):.4f}"
        error = f"{100 * row['rms_error']:.2f} (root mean square of {len(row['samples'])})"
        body.append([*size, value, f"{row['in_memory']:.4f}", error])
    for row in rows:
        if "in_memory" in row:
            size = [MODELS[row["model"]], edges(row["edges"]), f"{row['sample']:,}"]
            value = f"{row['accuracy']:.4f} in [{row['low']:.3f}, {row['high']:.3f}]"
            error = f"{100 * abs(row['accuracy'] - row['in_memory']):.2f}"
            body.append([*size, value, f"{row['in_memory']:.4f}", error])
    return table(head, body)


def others(rows: list[dict]) -> str:
    """Return the cost of the same jobs in Dask and DuckDB."""
    names = {"floor": "a temperature and probabilities", "joins": "all nodes within two edges"}
    head = ["job", "edges", "written with", "CPU seconds", "peak"]
    body = [
        [
            names[row["what"]],
            edges(row["edges"]),
            row["way"] + (f", {row['passes']} passes" if "passes" in row else ""),
            f"{row['cpu']:.1f}",
            f"{row['peak']:.1f} GB",
        ]
        for row in sorted(rows, key=lambda row: (row["what"], row["edges"]))
    ]
    return table(head, body)


def on_paper(rows: list[dict]) -> str:
    """Return what ten billion edges cost on 50 workers, from the largest run of GraphSAGE."""
    row = max(filter(in_default, rows), key=lambda row: (row["model"] == "sage", row["edges"]))
    factor, workers = 10**10 / row["edges"], 50
    streams, evidence = spent(row)
    cpu = {stage["stage"]: stage["cpu"] for stage in row["stages"]}
    edge, node = (factor * cpu[f"reading the {name}"] for name in ("edges", "nodes"))
    return (
        f"{factor:.0f} times the streams of {edges(row['edges'])} edges is "
        f"{factor * streams:,.0f} CPU seconds, {factor * streams / workers:.0f} seconds on "
        f"{workers} workers. A pass over the edges takes at most {edge:,.0f} CPU seconds and one "
        f"over the nodes {node:,.0f}; the sample of a model of two layers needs nine and three of "
        f"them, and five and one for every further block: {9 * edge + 3 * node:,.0f} CPU seconds, "
        f"{(9 * edge + 3 * node) / workers:.0f} seconds on {workers} workers, for one block. The "
        f"model on {row['sample']:,} nodes takes at most the {evidence:.0f} seconds that it took "
        "here with its passes, where the call is made.\n"
    )
