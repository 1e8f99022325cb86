"""Which run a workspace belongs to: a digest of everything that its numbers depend on."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import scipy

from graphtemper._core.source_digest import NOT_MEASURING, source_digest
from graphtemper.card.card import SourceCard
from graphtemper.card.format import to_json
from graphtemper.graph.operators import COLUMNS_AT_ONCE
from graphtemper.models.linear import LinearGNN
from graphtemper.scale.storage.shards import MANIFEST, ShardedGraph


def identity(model: LinearGNN, graph: ShardedGraph, card: SourceCard, seed: int) -> str:
    """Return a name for the run: another graph, model, card, seed or library has another one.

    The library is known by its source. A graph is known by its manifest, which has the size and
    checksum of every file as it was written: files that are changed in place are not noticed here,
    but by `ShardedGraph.verify`.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.scale.conversion.convert import convert_graph
    >>> g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 300), compositions=0)
    >>> graph = convert_graph(g, tempfile.mkdtemp() + "/g")
    >>> len({identity(model, graph, card, seed) for seed in (0, 0, 1)})
    2
    """
    found = hashlib.sha256()
    libraries = [source_digest(NOT_MEASURING), np.__version__, scipy.__version__]
    settings = [type(model).__name__, model.hops, list(model.hops_used), model.operator]
    numbers = [*libraries, *settings, model.weights_.shape, seed, COLUMNS_AT_ONCE]
    for part in (
        json.dumps(numbers).encode(),
        np.ascontiguousarray(model.weights_).tobytes(),
        np.ascontiguousarray(model.intercept_).tobytes(),
        to_json(card).encode(),
        (graph.path / MANIFEST).read_bytes(),
    ):
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:16]
