"""Keys of the nodes of a sharded graph: what random draws belong to, whatever the numbers of nodes.

The keys are those of `graphtemper.signals.passes.node_keys`, eight bytes per node on disk. Equal
keys are found range by range, so that memory holds a few million keys at a time.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper.scale.engine import Engine
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import VALUES_AT_ONCE, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace
from graphtemper.signals.passes import KEY_ROUNDS, Keys, keys_with_neighbours, mixed, own_keys

_STAGE = "node-keys"


def node_keys(engine: Engine, graph: ShardedGraph, workspace: Workspace) -> Columns:
    """Write the keys of all nodes, (N, 1), as a stage, and return them."""
    keys = workspace.stage_columns(_STAGE, 1, np.uint64)
    workspace.stage(_STAGE, partial(_write, engine, graph, workspace, keys), keys)
    return keys


def _write(engine: Engine, graph: ShardedGraph, workspace: Workspace, keys: Columns) -> None:
    shards = range(len(graph.shards))
    engine.map(partial(_write_own, graph=graph, keys=keys), shards)
    alike = _alike(engine, keys)
    for number in range(KEY_ROUNDS + 1):
        if not alike.size and number < KEY_ROUNDS:
            return
        before = workspace.scratch_columns(_STAGE, 1, np.uint64)
        engine.map(partial(_copy, graph=graph, source=keys, target=before), shards)
        work = partial(_add_neighbours, graph=graph, before=before, keys=keys, alike=alike)
        if number < KEY_ROUNDS:
            engine.map(work, shards)
            alike = _alike(engine, keys)
        else:
            engine.map(partial(_add_places, graph=graph, before=before, keys=keys), [alike])
        before.remove()


def _write_own(shard: int, *, graph: ShardedGraph, keys: Columns) -> None:
    found = own_keys(graph.features(shard), graph.degrees(shard))
    keys.write(graph.shards[shard].first, found[:, None])


def _copy(shard: int, *, graph: ShardedGraph, source: Columns, target: Columns) -> None:
    first, last, _ = graph.shards[shard]
    target.write(first, source.open()[first:last])


def _alike(engine: Engine, keys: Columns) -> Keys:
    """Return the keys that occur more than once, sorted."""
    count = -(-keys.shape[0] // VALUES_AT_ONCE)
    found = engine.map(partial(_alike_in_range, keys=keys, count=count), range(count))
    return np.concatenate([np.empty(0, np.uint64), *found])


def _alike_in_range(number: int, *, keys: Columns, count: int) -> Keys:
    low, high = (np.uint64(min(2**64 * n // count, 2**64 - 1)) for n in (number, number + 1))
    values, step = keys.open()[:, 0], VALUES_AT_ONCE
    blocks = (values[start : start + step] for start in range(0, values.size, step))
    # The last range has its end, and a key that is not there is in one range only.
    some = [b[(b >= low) & ((b < high) | (number == count - 1))] for b in blocks]
    ranked = np.sort(np.concatenate(some))
    return np.unique(ranked[1:][ranked[1:] == ranked[:-1]])


def _are_alike(keys: Keys, alike: Keys) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of keys that are among the sorted ``alike``, and where they are."""
    place = np.searchsorted(alike, keys)
    place[place == alike.size] = 0
    found = np.flatnonzero(alike[place] == keys) if alike.size else np.empty(0, np.intp)
    return found, place[found]


def _add_neighbours(
    shard: int, *, graph: ShardedGraph, before: Columns, keys: Columns, alike: Keys
) -> None:
    known = before.open()[:, 0]
    for rows in graph.blocks(shard):
        own = np.array(known[rows.first : rows.last])
        tied, _ = _are_alike(own, alike)
        if tied.size:
            found = keys_with_neighbours(own, known[rows.indices], rows.indptr)
            own[tied] = found[tied]
            keys.write(rows.first, own[:, None])


def _add_places(alike: Keys, *, graph: ShardedGraph, before: Columns, keys: Columns) -> None:
    """Tell nodes that are still alike apart by their order."""
    seen = np.zeros(alike.size, np.int64)
    for first, last, _ in graph.shards:
        own = np.array(before.open()[first:last, 0])
        places = np.zeros(own.size, np.uint64)
        tied, which = _are_alike(own, alike)
        order = np.argsort(which, kind="stable")
        counts = np.bincount(which, minlength=alike.size)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        places[tied[order]] = np.arange(order.size) - starts + seen[which[order]]
        seen += counts
        keys.write(first, mixed(own + places)[:, None])


def normals(keys: Keys, count: int, salt: np.uint64) -> NDArray[np.float32]:
    """Return standard normal numbers (n, count) that are hashes of keys and a salt.

    Every hash gives two of them, by the method of Box and Muller (1958).

    Examples
    --------
    >>> draws = normals(mixed(np.arange(100_000, dtype=np.uint64)), 3, np.uint64(5))
    >>> draws.shape, bool(np.abs(np.cov(draws.T) - np.eye(3)).max() < 0.02)
    ((100000, 3), True)
    """
    columns = mixed(np.arange(-(-count // 2), dtype=np.uint64))
    bits = mixed(mixed(keys + salt)[:, None] + columns)
    parts = (bits >> np.uint64(32), bits & np.uint64(2**32 - 1))
    first, second = (
        (part.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32) for part in parts
    )
    radius, angle = np.sqrt(-2.0 * np.log(first)), np.float32(2.0 * np.pi) * second
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return np.asarray(both.reshape(len(keys), -1)[:, :count], dtype=np.float32)
