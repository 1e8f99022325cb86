"""External sort of edges by shard: one pass into buckets, then one bucket at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import EdgesError
from graphtemper.scale.storage.shard_writer import index_dtype

Pairs = NDArray[np.integer[Any]]


class EdgeBuckets:
    """Collects edges in one file per shard and returns each shard's CSR rows.

    Both directions are stored; self-loops are dropped on writing, duplicates on reading. Memory
    holds one chunk of edges, then one bucket.

    Examples
    --------
    >>> import tempfile
    >>> buckets = EdgeBuckets(Path(tempfile.mkdtemp()), [(0, 2), (2, 3)])
    >>> buckets.add(np.array([[0, 1], [2, 1], [1, 0], [1, 1]]))
    >>> [array.tolist() for array in buckets.rows(0)]
    [[0, 1, 3], [1, 0, 2]]
    >>> [array.tolist() for array in buckets.rows(1)]
    [[0, 1], [1]]
    """

    def __init__(self, folder: Path, bounds: list[tuple[int, int]]) -> None:
        self._folder, self._bounds = folder, bounds
        self._num_nodes = bounds[-1][1]
        self._dtype = index_dtype(self._num_nodes)
        self._ends = np.array([last for _, last in bounds])
        self._num_read = 0

    def add(self, pairs: Pairs) -> None:
        """Append a chunk of edges (m, 2) to the buckets of both ends."""
        outside = np.flatnonzero(((pairs < 0) | (pairs >= self._num_nodes)).any(axis=1))
        if outside.size:
            row = int(outside[0])
            raise EdgesError(
                f"edge {self._num_read + row} joins {pairs[row, 0]} and {pairs[row, 1]}, but the "
                f"nodes are 0..{self._num_nodes - 1}; number them by their row in the features."
            )
        self._num_read += len(pairs)
        proper = pairs[pairs[:, 0] != pairs[:, 1]]
        directed = np.concatenate([proper, proper[:, ::-1]]).astype(self._dtype)
        shard = np.searchsorted(self._ends, directed[:, 0], "right")
        order = np.argsort(shard, kind="stable")
        directed, shard = directed[order], shard[order]
        cuts = np.searchsorted(shard, np.arange(len(self._bounds) + 1))
        for number in np.unique(shard):
            with self._file(int(number)).open("ab") as stream:
                directed[cuts[number] : cuts[number + 1]].tofile(stream)

    def rows(self, shard: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return a shard's ``indptr`` and ``indices``, sorted and without duplicates."""
        first, last = self._bounds[shard]
        path = self._file(shard)
        if not path.exists():
            return np.zeros(last - first + 1, np.int64), np.empty(0, self._dtype)
        pairs = np.fromfile(path, self._dtype).reshape(-1, 2)
        keys = np.unique((pairs[:, 0].astype(np.int64) - first) * self._num_nodes + pairs[:, 1])
        path.unlink()
        row, column = np.divmod(keys, self._num_nodes)
        counts = np.bincount(row, minlength=last - first)
        return np.concatenate([[0], np.cumsum(counts)]), column.astype(self._dtype)

    def _file(self, shard: int) -> Path:
        return self._folder / f"bucket-{shard:05d}"
