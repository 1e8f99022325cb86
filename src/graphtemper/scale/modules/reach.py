"""How far a model reads in a sharded graph, found by running it on fields of growing depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.errors import InputError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import Predictor
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.signals import receptive_field
from graphtemper.signals.graph_parts import Reach, logits_at

# Without known logits, those of a field must be those of a deeper one up to this difference.
_TOLERANCE = 1e-4
# Nodes among which some with neighbours are looked for.
_DRAWN = 2000


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
    return np.concatenate([drawn[degrees > 0], drawn[degrees == 0]])[: receptive_field.TESTED]


def find_reach(module: Module, hops: int | None, known: FloatArray | None) -> Reach | None:
    """Return how far the model reads; None if that is too much for a useful sample of nodes.

    Parameters
    ----------
    module
        The model and the graph.
    hops
        The number of edges, if it is known. Only whether outer degrees matter is then tested, and
        that one edge more changes nothing.
    known
        Centred logits of the `tested_nodes`, if they are given; the fields are then compared with
        them, and otherwise with fields that are one edge deeper.
    """
    tested = tested_nodes(module.graph, module.seed)
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        for reach in receptive_field.reaches(ShardedWhole(module.graph)):
            if hops is not None and reach.depth != hops:
                continue
            agrees = _agrees(module, tested, reach, known, trusted=hops is not None)
            if agrees:
                return reach if _allows_a_sample(module, reach) else None
            if agrees is None and reach.padded:
                return None
    if hops is not None:
        raise InputError(
            f"the model gives other logits with nodes farther than hops={hops} edges away; give a "
            "larger number, or leave it out to find it."
        )
    return None


def _agrees(
    module: Module, tested: Rows, reach: Reach, known: FloatArray | None, trusted: bool
) -> bool | None:
    """Return whether a field suffices; None if the fields to compare are too large to read.

    A stated depth is trusted where a deeper field cannot be read.
    """
    whole, deeper = ShardedWhole(module.graph), Reach(reach.depth + 1, padded=True)
    for count in (tested.size, tested.size // 4, 1):
        nodes = np.sort(tested[:count])
        found = logits_at(whole, module.predictor, nodes, reach) if count else None
        if found is None:
            continue
        if known is not None:
            return receptive_field.agree(found, known[np.argsort(tested[:count])])
        reference = logits_at(whole, module.predictor, nodes, deeper)
        if reference is not None:
            return receptive_field.agree(found, reference, _TOLERANCE)
        if trusted and count <= 1:
            same = logits_at(whole, module.predictor, nodes, Reach(reach.depth, padded=True))
            return same is not None and receptive_field.agree(found, same, _TOLERANCE)
    return None


def _allows_a_sample(module: Module, reach: Reach) -> bool:
    """Return whether the fields of the smallest useful sample can be read.

    It has as many nodes and, at most, as many ends of links.
    """
    count = min(2 * receptive_field.SIZES[-1], module.graph.num_nodes)
    rng = stream(module.seed, "tested nodes", 1)
    nodes = rng.choice(module.graph.num_nodes, count, replace=False)
    return receptive_field.allowed(ShardedWhole(module.graph), nodes, reach)
