"""Sparse products next to SciPy and torch, in random and in local order, and memory bandwidth."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.timing import Row, race
from scipy.linalg.blas import daxpy

from graphtemper import Graph
from graphtemper._core.reproducible import num_cores
from graphtemper.graph.operators import multiply, operator

DEGREE, REACH = 20, 200
LINE = 64  # bytes of a cache line


def random_graph(num_nodes: int, seed: int = 0) -> Graph:
    """Return a graph of uniformly random links."""
    rng = np.random.default_rng(seed)
    return _graph(rng.integers(num_nodes, size=(num_nodes * DEGREE // 2, 2)), num_nodes)


def community_graph(num_nodes: int, seed: int = 0, *, mixed: bool = True) -> Graph:
    """Return a chain of communities: links join nodes less than `REACH` places apart.

    With ``mixed``, nodes are numbered at random, as in a file without any order.
    """
    rng = np.random.default_rng(seed)
    low = np.repeat(np.arange(num_nodes), DEGREE // 2)
    edges = np.column_stack([low, (low + rng.integers(1, REACH, low.size)) % num_nodes])
    return _graph(rng.permutation(num_nodes)[edges] if mixed else edges, num_nodes)


def _graph(edges: np.ndarray, num_nodes: int) -> Graph:
    edges = edges[edges[:, 0] != edges[:, 1]]
    return Graph(features=np.zeros((num_nodes, 1), np.float32), edges=edges, directed=True)


def triad_bandwidth(size: int = 20_000_000) -> float:
    """Return bytes per second of one thread in y = a x + y on arrays that fit no cache."""
    x, y = np.ones(size), np.ones(size)
    times = race({"triad": (lambda: daxpy(x, y, a=1e-9), 1)}, 5)
    return 3 * 8 * size / times["triad"]


def traffic(matrix: sp.csr_matrix, width: int) -> float:
    """Return the bytes that a product must move if no neighbour's row is in a cache."""
    row = 4 * width
    lines = 1 + (row - 4) / LINE  # a row starts anywhere in a line
    return matrix.nnz * (8 + LINE * lines) + matrix.shape[0] * (row + 4)


GRAPHS = {"random order": random_graph, "mixed communities": community_graph}


def product_rows(num_nodes: int) -> list[Row]:
    bandwidth, rows = triad_bandwidth(), []
    for name, make in GRAPHS.items():
        graph = make(num_nodes)
        matrix = operator(graph)
        for width in (10, 100):
            rows += _rows(name, matrix, width, bandwidth)
    return rows


def _rows(name: str, matrix: sp.csr_matrix, width: int, bandwidth: float) -> list[Row]:
    x = np.random.default_rng(0).standard_normal((matrix.shape[0], width)).astype(np.float32)
    threads = num_cores()
    jobs: dict[str, Any] = {
        "ours": (partial(multiply, matrix, x), threads),
        "SciPy, one thread": (lambda: matrix @ x, 1),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        sparse = torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data.copy()),
            size=matrix.shape,
        )
        tensor = torch.from_numpy(x)
        jobs["torch CSR, int32"] = (lambda: sparse @ tensor, torch.get_num_threads())
    times = race(jobs, 3)
    ours = times.pop("ours")
    size = f"{name}, {matrix.shape[0]:,} nodes, {matrix.nnz:,} non-zeros, {width} columns"
    share = traffic(matrix, width) / (ours * threads) / bandwidth
    note = f"{share:.0%} of the bandwidth of a triad ({bandwidth / 1e9:.1f} GB/s a thread)"
    return [
        Row(
            "S X",
            size,
            ours,
            peer,
            theirs,
            note=note,
        )
        for peer, theirs in times.items()
    ]


def growth_rows(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> list[Row]:
    """Return how the cost per edge of a product in local order grows with the graph."""
    costs = []
    for num_nodes in sizes:
        matrix = operator(community_graph(num_nodes, mixed=False))
        x = np.ones((num_nodes, 10), np.float32)
        repeats = max(sizes[-1] // num_nodes, 1)

        def job(matrix: sp.csr_matrix = matrix, x: np.ndarray = x, repeats: int = repeats) -> None:
            for _ in range(repeats):
                multiply(matrix, x)

        costs.append(race({"ours": (job, 1)}, 5)["ours"] / repeats / matrix.nnz)
    growth = max(costs) / costs[0] - 1.0
    edges = [f"{size * DEGREE // 2:,}" for size in sizes]
    note = f"ns per entry at {', '.join(edges)} edges: " + ", ".join(
        f"{1e9 * cost:.2f}" for cost in costs
    )
    size = "10 columns, local order, least to most edges"
    return [
        Row(
            f"growth of cost per edge: {growth:+.0%}",
            size,
            costs[-1] * 1e6,
            note=note + "; the time is for a million entries",
            bar="at most +15 %",
            met=growth <= 0.15,
        )
    ]
