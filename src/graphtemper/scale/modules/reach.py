"""How far a model reads in a sharded graph, found by running it on fields of growing depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.errors import InputError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import Predictor
from graphtemper.scale.modules.sharded_fields import ShardedWhole, most_rows
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.signals import receptive_field
from graphtemper.signals.graph_parts import Field, Reach, logits_at

# Without known logits, those of a field must be those of a deeper one up to this difference.
_TOLERANCE = 1e-4
# Nodes among which some with neighbours are looked for, and how many of these are compared.
_DRAWN, _COMPARED = 2000, 1000
# How many nodes confirm a depth that a few have shown, with fields of how many edges more.
_CONFIRMING = ((_COMPARED, 1), (receptive_field.TESTED, 2), (4, 3))
# Each of these comparisons ends after this work, in passes over the graph, or after this number of
# blocks of nodes whose fields are too large.
_MOST_WORK, _MOST_FAILURES = 2.0, 20


@dataclass(frozen=True, eq=False)
class Module:
    """A model of any kind and the sharded graph it runs on, as tasks need them."""

    graph: ShardedGraph
    predictor: Predictor
    seed: int


def tested_nodes(graph: ShardedGraph, seed: int) -> Rows:
    """Return some nodes, with neighbours if any are found, at which the depth is tested."""
    rng = stream(seed, "tested nodes")
    drawn = rng.choice(graph.num_nodes, min(_DRAWN, graph.num_nodes), replace=False)
    degrees = ShardedWhole(graph).degrees(drawn)
    return np.concatenate([drawn[degrees > 0], drawn[degrees == 0]])[:_COMPARED]


def find_reach(module: Module, hops: int | None, known: FloatArray | None) -> Reach | None:
    """Return how far the model reads; None if that is too much for a useful sample of nodes.

    A depth is found at a few nodes and confirmed at up to a thousand, because a model may read
    farther at some nodes than at others. If none of n nodes shows that, it does so at less than 3/n
    of all, with 95 % confidence.

    Parameters
    ----------
    module
        The model and the graph.
    hops
        The number of edges, if it is known. Only whether outer degrees matter is then tested, and
        that more edges change nothing.
    known
        Centred logits of the `tested_nodes`, if they are known; the fields are then compared with
        them, and otherwise with fields that are one to three edges deeper.
    """
    tested = tested_nodes(module.graph, module.seed)
    few = receptive_field.TESTED
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        for reach in receptive_field.reaches(ShardedWhole(module.graph)):
            if hops is not None and reach.depth != hops:
                continue
            agrees = _agrees(module, tested[:few], reach, known, 1)
            if agrees is None and hops is not None:
                agrees = _needs_no_degrees(module, tested[0], reach)
            if agrees and not _allows_a_sample(module, reach):
                return None
            if agrees and all(
                _agrees(module, tested[:count], reach, known, more) is not False
                for count, more in (_CONFIRMING if known is None else _CONFIRMING[:1])
            ):
                return reach
            if agrees is None and reach.padded:
                return None
    if hops is not None:
        raise InputError(
            f"the model gives other logits with nodes farther than hops={hops} edges away; give a "
            "larger number, or leave it out to find it."
        )
    return None


def _agrees(
    module: Module, nodes: Rows, reach: Reach, known: FloatArray | None, more: int
) -> bool | None:
    """Return whether fields suffice at some nodes; None if no field could be compared.

    They are compared in blocks with known logits, or with fields that are ``more`` edges deeper.
    The outer degrees of these do not matter: if the model reads them, it reads too far already.
    """
    whole, deeper = ShardedWhole(module.graph), Reach(reach.depth + more, padded=False)
    tolerance = _TOLERANCE if known is None else receptive_field.TOLERANCE
    start, size, work, compared, failures = 0, nodes.size, 0.0, False, 0
    while start < nodes.size and work < _MOST_WORK and failures < _MOST_FAILURES:
        order = np.argsort(nodes[start : start + size])
        block = nodes[start : start + size][order]
        found = logits_at(whole, module.predictor, block, reach)
        reference = None
        if found is not None and known is not None:
            reference = known[start : start + size][order], 0.0
        elif found is not None:
            reference = logits_at(whole, module.predictor, block, deeper)
        if found is None or reference is None:
            failures += 1
            start, size = (start, size // 4) if size > 3 else (start + size, size)
            continue
        if not receptive_field.agree(found[0], reference[0], tolerance):
            return False
        start, work, compared = start + size, work + found[1] + reference[1], True
    return True if compared else None


def _needs_no_degrees(module: Module, node: np.int64, reach: Reach) -> bool:
    """Return whether outer degrees change nothing at a node; its deeper field cannot be read."""
    whole = ShardedWhole(module.graph)
    nodes = np.array([node])
    found = logits_at(whole, module.predictor, nodes, reach)
    padded = logits_at(whole, module.predictor, nodes, Reach(reach.depth, padded=True))
    if found is None or padded is None:
        return False
    return receptive_field.agree(found[0], padded[0], _TOLERANCE)


def check_hubs(module: Module, reach: Reach) -> None:
    """Refuse a graph in which the field of a node of many neighbours cannot be read."""
    whole = ShardedWhole(module.graph)
    for shard in module.graph.shards:
        degrees = whole.degrees(np.arange(shard.first, shard.last))
        if degrees.size:
            field_of(whole, shard.first + int(degrees.argmax()), reach)


def field_of(whole: ShardedWhole, node: int, reach: Reach) -> Field:
    """Return the field of one node; refuse one that is too large to read."""
    field = Field.of(whole, np.array([node]), reach)
    if field is None:
        raise InputError(
            f"around node {node} the model reads more than {most_rows(whole.graph):,} nodes or "
            f"{receptive_field.MOST_LINKS:,} edges; make the logits of all nodes where the graph "
            "fits into memory, or layer by layer, and give them as logits."
        )
    return field


def _allows_a_sample(module: Module, reach: Reach) -> bool:
    """Return whether the fields of the smallest useful sample can be read.

    It has as many nodes and, at most, as many ends of links.
    """
    count = min(2 * receptive_field.SIZES[-1], module.graph.num_nodes)
    rng = stream(module.seed, "tested nodes", 1)
    nodes = rng.choice(module.graph.num_nodes, count, replace=False)
    return receptive_field.allowed(ShardedWhole(module.graph), nodes, reach)
