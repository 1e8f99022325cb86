"""Graphs by name, with their features as stored or as a dense embedding.

``cora`` is the graph as stored; ``cora+svd64`` has the first 64 components of its sparse features
(truncated SVD, not centred), as a pipeline would store an embedding. No label is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphtemper import Graph
from graphtemper.errors import InputError
from graphtemper_research.graphs import datasets
from graphtemper_research.graphs.datasets import load_any as load_graph

COLUMNS = 64
SUFFIX = f"+svd{COLUMNS}"


def short(name: str) -> str:
    """Return the name of a graph in a table, from its name in the catalogue or its path.

    Examples
    --------
    >>> short("cora"), short("bugs_camel_2.9.0"), short("data/cora.npz+svd64")
    ('cora', 'bugs_camel_2.9.0', 'cora+svd64')
    """
    base = name.removesuffix(SUFFIX)
    return Path(base).name.removesuffix(".npz") + name[len(base) :]


def content(*names: str) -> str:
    """Return 12 digits that change with the files of graphs, so that no cell is another's.

    Examples
    --------
    >>> len(content())
    12
    """
    digest = hashlib.sha256()
    for name in names:
        base = name.removesuffix(SUFFIX)
        path = datasets.find(base) if base in datasets.CATALOGUE else Path(base)
        if path is None or not path.is_file():
            continue  # whoever loads it says that it is missing
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:12]


def present(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the graphs that are on this machine, by name or path, and those that are not.

    Examples
    --------
    >>> present(["nowhere/de.npz"])
    ([], ['nowhere/de.npz'])
    """
    here = [name for name in names if _is_here(name.removesuffix(SUFFIX))]
    return here, [name for name in names if name not in here]


def _is_here(name: str) -> bool:
    by_name = name in datasets.CATALOGUE or not Path(name).suffix
    return datasets.find(name) is not None if by_name else Path(name).is_file()


def load(name: str) -> Graph:
    """Load a graph by name or path; the suffix ``+svd64`` means its embedding."""
    graph = load_graph(name.removesuffix(SUFFIX))
    return embedded(graph) if name.endswith(SUFFIX) else graph


def embedded(graph: Graph, columns: int = COLUMNS) -> Graph:
    """Return the graph with its sparse features replaced by their leading components.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> words = sp.random(30, 100, 0.2, format="csr", random_state=0)
    >>> embedded(Graph(features=words, edges=[[0, 1]]), 8).features.shape
    (30, 8)
    """
    from sklearn.decomposition import TruncatedSVD

    dense = isinstance(graph.features, np.ndarray)
    if dense or min(graph.features.shape) <= columns:
        raise InputError(
            f"the graph {graph.name!r} has {graph.num_features} {'dense' if dense else 'sparse'} "
            f"feature columns; an embedding of {columns} needs sparse features with more."
        )
    reduced = TruncatedSVD(columns, random_state=0).fit_transform(graph.features)
    return graph.replace(features=np.ascontiguousarray(reduced), feature_names=None)
