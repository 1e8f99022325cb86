"""Whole jobs: recalibrating a graph, building a card, starting the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp
from benchmarks.timing import ROOT, Row, best, in_own_process

from graphtemper import Graph, SourceCard, csbm, datasets, recalibrate
from graphtemper.card import atlas
from graphtemper.models import GCN, SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.harness.memory import peak_gigabytes

ENVIRONMENTS = 100
CARD_BARS = {"SIGN": 45, "GCN": 240}


def naive_operator(graph: Graph) -> sp.csr_matrix:
    """Return the normalised adjacency as a textbook computes it."""
    n = graph.num_nodes
    low, high = graph.edges.T
    ones = np.ones(low.size, dtype=np.float32)
    half = sp.coo_matrix((ones, (low, high)), shape=(n, n))
    loops = sp.identity(n, np.float32, format="csr")
    matrix = sp.csr_matrix(half + half.T + loops)
    scale = sp.diags(1.0 / np.sqrt(np.asarray(matrix.sum(axis=1)).ravel()), dtype=np.float32)
    return sp.csr_matrix(scale @ matrix @ scale)


def naive_pass(model: SIGN, graph: Graph) -> np.ndarray:
    """Go from edges to logits as a textbook does: normalise, propagate all columns, apply heads."""
    step, columns = naive_operator(graph), graph.features
    first, *later = model.weights_.astype(np.float32)
    total = columns @ first + model.intercept_.astype(np.float32)
    for weights in later:
        columns = step @ columns
        total += columns @ weights
    return total


def drawn(num_nodes: int, num_classes: int, seed: int) -> Graph:
    return csbm.sample(
        num_nodes, 20, 0.8, 1.0, num_classes=num_classes, num_features=100, seed=seed
    )


def fitted(source: Graph) -> tuple[SIGN, SourceCard]:
    nodes = source.labelled[:4000]
    model = SIGN(hops=2, tol=1e-2).fit(source, nodes[::2])
    return model, SourceCard.build(model, source, nodes[1::2][:1000], compositions=0)


def draw_million() -> None:
    start = time.perf_counter()
    csbm.sample(1_000_000, 20, 0.8, 1.0, seed=1)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": round(peak_gigabytes(), 2)}))


def recalibrate_large(num_nodes: int) -> None:
    """Print the times of recalibration and of its peers, and the peak memory of the former."""
    model, card = fitted(drawn(4000, 10, 1))
    graph = drawn(num_nodes, 10, 2)
    # A graph is new each time: its operator is part of the job.
    ours = best(lambda: recalibrate(model, graph.replace(), card), 2)
    peak = peak_gigabytes()
    whole = best(lambda: naive_pass(model, graph), 2)
    step = naive_operator(graph)
    products = best(lambda: step @ (step @ graph.features), 2)
    votes = best(lambda: vote(model, graph.replace()), 1)
    times = {"ours": ours, "peak": peak, "pass": whole, "products": products, "votes": votes}
    print(json.dumps(times))


def vote(model: SIGN, graph: Graph) -> None:
    """Count votes over eight noisy passes and eight with dropped edges."""
    observation = Observation(model, graph)
    for kind in ("feature", "edge"):
        observation.votes(kind, passes=8)


def recalibrate_rows(num_nodes: int) -> list[Row]:
    times = in_own_process(f"jobs.recalibrate_large({num_nodes})")
    size = f"{num_nodes:,} nodes, degree 20, F = 100, K = 10"
    ours, peak = times["ours"], round(times["peak"], 2)
    run = "1 clean, 6 half views, 2 x 2 noisy, 1 held-out pass; temperature, verdict"
    full = "clean and 8 + 8 votes"
    peers = {
        "one naive SIGN pass from edges to logits, SciPy": times["pass"],
        "its two products S(SX) alone, SciPy, S given": times["products"],
    }
    rows = []
    for peer, theirs in peers.items():
        met = ours <= 2.5 * theirs and peak <= 4.0
        bar = "at most 2.5 times the peer and 4 GB"
        rows.append(Row("recalibrate", size, ours, peer, theirs, peak, run, bar, met))
        rows.append(Row(full, size, times["votes"], peer, theirs))
    for name in ("pubmed", "cora"):
        if datasets.find(name) is not None:
            graph = datasets.load(name)
            model, card = fitted(graph)
            ours = best(lambda m=model, g=graph, c=card: recalibrate(m, g.replace(), c))
            theirs = best(lambda m=model, g=graph: naive_pass(m, g))
            peer = "one naive SIGN pass from edges to logits, SciPy"
            rows.append(Row("recalibrate", name, ours, peer, theirs))
    return rows


def build_card(name: str) -> None:
    """Print how long a card of a hundred environments on pubmed takes."""
    graph = datasets.load("pubmed")
    nodes = np.random.default_rng(0).permutation(graph.labelled)
    train, held = nodes[:6000], nodes[6000:11000]
    model = SIGN(hops=2, tol=1e-2).fit(graph, train) if name == "SIGN" else GCN().fit(graph, train)
    more = ENVIRONMENTS - len(atlas.plan(0, (), 0))
    start = time.perf_counter()
    card = SourceCard.build(model, graph, held, compositions=more)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "environments": len(card.environments)}))


def card_rows() -> list[Row]:
    if datasets.find("pubmed") is None:
        return []
    rows = []
    for name, limit in CARD_BARS.items():
        built = in_own_process(f"jobs.build_card({name!r})")
        size = f"pubmed, {name}, {built['environments']} environments"
        seconds = built["seconds"]
        met = seconds < limit
        rows.append(Row("source card", size, seconds, bar=f"under {limit} s", met=met))
    return rows


def cpu_of(*command: str) -> float:
    """Return the CPU seconds of a command and its children, the least of five runs."""
    times = []
    for _ in range(5):
        before = os.times()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        after = os.times()
        before_cpu = before.children_user + before.children_system
        times.append(after.children_user + after.children_system - before_cpu)
    return min(times)


def start_rows() -> list[Row]:
    rows = []
    for what, limit, command in (
        ("import graphtemper", 0.4, (sys.executable, "-c", "import graphtemper")),
        ("graphtemper --help", 0.6, (sys.executable, "-m", "graphtemper", "--help")),
    ):
        seconds = cpu_of(*command)
        bar = f"under {limit} s of CPU"
        rows.append(Row(what, "CPU seconds", seconds, bar=bar, met=seconds < limit))
    return rows
