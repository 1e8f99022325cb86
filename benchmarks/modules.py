"""What a card and a recalibration of PyG modules cost, next to one forward pass of the module.

Run ``python -m benchmarks.modules`` for all rows, or ``python -m benchmarks.modules twitch_de GCN``
for one; ``million`` is a drawn graph whose logits are given, so that the module runs on a sample,
and ``sample`` compares such samples with passes over all nodes. Seconds are those of the processor,
over all threads. Rows are kept in docs/results/modules.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.timing import ROOT, keep, kept

from graphtemper import Graph, SourceCard, csbm, recalibrate, shifts
from graphtemper._core.numerics import to_share
from graphtemper.card.reading import Reading, read
from graphtemper.graph.operators import multiply, operator
from graphtemper.signals.observation import Observation
from graphtemper.signals.sample import SIZE, in_memory
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.memory import peak_gigabytes
from graphtemper_research.trials.trial import MODELS

FILE = ROOT / "docs" / "results" / "modules.json"
CASES = [(name, kind) for name in ("pubmed", "twitch_de") for kind in ("GCN", "GAT", "SAGE")]
_COLUMNS, _CLASSES = 100, 5


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor's seconds and the result of a job."""
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def measure(name: str, kind: str, **options: Any) -> dict[str, Any]:
    """Return the row of a graph that is run whole; ``options`` go to the card."""
    graph = datasets.load(name) if name != "drawn" else _drawn(400, 1)
    order = np.random.default_rng(0).permutation(graph.labelled)
    train, nodes, rest = np.split(order, [int(0.4 * order.size), int(0.7 * order.size)])
    model = MODELS[f"PyG-{kind}"](0).fit(graph, train)
    target = shifts.noise(0.7)(graph, seed=5).replace(labels=None)
    model(graph)  # what is computed once per graph is computed now
    one = min(seconds(lambda: model(graph))[0] for _ in range(3))
    card_seconds, card = seconds(
        lambda: SourceCard.build(model, graph, nodes, progress=False, **options)
    )
    found, result = seconds(lambda: recalibrate(model, target, card, rest))
    torch.set_num_threads(2)
    start = time.perf_counter()
    SourceCard.build(model, graph, nodes, progress=False, **options)
    waited = time.perf_counter() - start
    torch.set_num_threads(1)
    row = {"graph": name, "module": kind, "pass": one, "card": card_seconds, "waited": waited}
    return row | {"card_passes": card.passes, "recalibrate": found, "passes": result.passes}


def on_a_sample(
    num_nodes: int = 1_000_000,
    degree: int = 20,
    at_source: int = 3000,
    sample: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the row of a large graph whose logits are given."""
    source, part = _drawn(at_source, 1, degree), at_source // 3
    model = MODELS["PyG-SAGE"](0).fit(source, np.arange(part))
    card = SourceCard.build(model, source, range(part, at_source), progress=False, **options)
    graph = _drawn(num_nodes, 2, degree, homophily=0.5)
    one, logits = seconds(lambda: layer_by_layer(model.module, graph))
    unlabelled = graph.replace(labels=None)
    found, result = seconds(
        lambda: recalibrate(model, unlabelled, card, logits=logits, sample=sample)
    )
    row = {"graph": "million", "module": "SAGE", "pass": one, "card": None}
    codes = [reason.code.value for reason in result.reasons]
    return row | {
        "card_passes": None,
        "recalibrate": found,
        "passes": result.passes,
        "peak": peak_gigabytes(),
        "sampled": "sample_run" in codes,
        "accuracy": [result.accuracy.low, result.accuracy.value, result.accuracy.high],
        "truth": float((logits.argmax(axis=1) == graph.labels).mean()),
    }


def sample_and_all(
    num_nodes: int = 400_000,
    degree: int = 6,
    at_source: int = 3000,
    seeds: int = 8,
    sample: int = SIZE,
    **options: Any,
) -> dict[str, Any]:
    """Return answers from samples next to those from passes over all nodes, for several targets."""
    source, part = _drawn(at_source, 1, degree), at_source // 3
    model = MODELS["PyG-SAGE"](0).fit(source, np.arange(part))
    card = SourceCard.build(model, source, range(part, at_source), progress=False, **options)
    rows = []
    for seed in range(seeds):
        graph = _drawn(num_nodes, 10 + seed, degree, homophily=0.4 + 0.4 * seed / seeds)
        graph = graph.replace(labels=None)
        logits = model(graph)
        one, other = (Observation(model, graph, seed=seed, logits=logits) for _ in range(2))
        all_seconds, whole = seconds(partial(read, card, one))
        few_seconds, (nodes, few) = seconds(partial(_read_sample, card, other, sample))
        gap = few.prior.centre - whole.prior.centre
        row = {"all": to_share(whole.prior.centre), "sample": to_share(few.prior.centre)}
        row |= {"z": gap / few.sampled**0.5, "of_interval": abs(gap) / few.prior.deviation / 3.29}
        row |= {"nodes": nodes, "all_seconds": all_seconds, "sample_seconds": few_seconds}
        rows.append(row)
    return {"graph": "sample", "module": "SAGE", "nodes": num_nodes, "degree": degree, "rows": rows}


def _read_sample(card: SourceCard, seen: Observation, size: int) -> tuple[int, Reading]:
    sampled = in_memory(seen, card.probe, size)
    if sampled is None:
        raise ValueError("the graph is too small for a sample")
    return sampled.num_nodes, read(card, seen, sampled)


def layer_by_layer(net: torch.nn.Module, graph: Graph) -> np.ndarray:
    """Return the logits of a GraphSAGE, as a pipeline for large graphs makes them."""
    mean, values = operator(graph, "mean"), graph.features
    for position, layer in enumerate(net.convs):
        near, own = (part.weight.detach().numpy().T for part in (layer.lin_l, layer.lin_r))
        values = multiply(mean, values) @ near + values @ own + layer.lin_l.bias.detach().numpy()
        if position + 1 < len(net.convs):
            values = np.maximum(values, 0.0)
    return values


def _drawn(num_nodes: int, seed: int, degree: int = 6, homophily: float = 0.6) -> Graph:
    return csbm.sample(
        num_nodes, degree, homophily, 1.0, num_classes=_CLASSES, num_features=_COLUMNS, seed=seed
    )


def write(rows: list[dict[str, Any]], path: Path = FILE) -> None:
    """Merge rows into the file, in their order."""
    own = {(row["graph"], row["module"]) for row in rows}
    known = kept(path, lambda row: (row["graph"], row["module"]) in own)
    listed = sorted([*known, *rows], key=lambda row: (row["graph"], row["module"]))
    keep(path, "modules", listed)


def main(arguments: list[str]) -> None:
    """Measure one case or all, each row written as soon as it is known."""
    torch.set_num_threads(1)
    cases = [tuple(arguments)] if arguments else [*CASES, ("million",), ("sample",)]
    for case in cases:
        drawn = {("million",): on_a_sample, ("sample",): sample_and_all}
        write([drawn[case]() if case in drawn else measure(*case)])


if __name__ == "__main__":
    main(sys.argv[1:])
