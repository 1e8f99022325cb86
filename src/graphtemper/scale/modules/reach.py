"""How far a model reads in a sharded graph, found by running it on fields of growing depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.errors import InputError, PredictorError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import Predictor
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.signals import receptive_field
from graphtemper.signals.graph_parts import Reach, logits_at

TOO_FAR = (
    "what the model reads for a useful sample of nodes is most of the graph, or too large for "
    "memory; give its number of layers as hops, use graphtemper.recalibrate where the graph fits "
    "into memory, or recalibrate_logits."
)
# Logits of a field must be those of fields that are this many edges deeper, up to this difference.
_DEEPER, _TOLERANCE = (1, 2), 1e-4
# How many nodes are compared, in blocks of how many, unless it takes more than this many passes
# over the graph; and among how many those with neighbours are looked for.
_COMPARED, _BLOCK, _MOST_WORK, _DRAWN = 1000, 10, 2.0, 2000


@dataclass(frozen=True, eq=False)
class Module:
    """A model of any kind and the sharded graph it runs on, as tasks need them."""

    graph: ShardedGraph
    predictor: Predictor
    seed: int


def find_reach(module: Module, hops: int | None) -> Reach:
    """Return how far the model reads.

    It is tested at up to a thousand nodes, because a model may read farther at some nodes than at
    others. If none of n nodes shows that, it does so at less than 3/n of all, with 95 % confidence.
    ``hops`` is the number of edges, if it is known; it is then tested that more change nothing, and
    where no deeper field can be read it is believed.
    """
    whole = ShardedWhole(module.graph)
    rng = stream(module.seed, "tested nodes")
    drawn = rng.permutation(module.graph.num_nodes)[:_DRAWN]
    order = np.argsort(whole.degrees(drawn) == 0, kind="stable")
    tested = drawn[order][:_COMPARED]
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        for reach in receptive_field.reaches(whole):
            if hops not in (None, reach.depth):
                continue
            agrees = _suffices(module, whole, tested, reach)
            if agrees or (agrees is None and hops is not None and reach.padded):
                count = min(2 * receptive_field.SIZES[-1], drawn.size)
                if receptive_field.allowed(whole, drawn[:count], reach):
                    return reach
                break
            if agrees is None and reach.padded:
                break
        else:
            if hops is not None:
                raise PredictorError(
                    f"the model gives other logits with nodes farther than hops={hops} edges away; "
                    "give a larger number, or leave it out to find it."
                )
    raise InputError(TOO_FAR)


def _suffices(module: Module, whole: ShardedWhole, tested: Rows, reach: Reach) -> bool | None:
    """Return whether deeper fields give the same logits; None if none could be compared.

    The outer degrees of these do not matter: if the model reads them, it reads too far already.
    """
    compared, work = None, 0.0
    for block in np.array_split(tested, max(tested.size // _BLOCK, 1)):
        if work > _MOST_WORK:
            break
        found = logits_at(whole, module.predictor, block, reach)
        if found is None:
            continue
        for more in _DEEPER:
            deeper = logits_at(whole, module.predictor, block, Reach(reach.depth + more, False))
            if deeper is not None:
                compared, work = True, work + found[1] + deeper[1]
                if not receptive_field.agree(found[0], deeper[0], _TOLERANCE):
                    return False
    return compared
