"""Writing of sharded graphs: one shard after the other, then the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import check_integer
from graphtemper.errors import EmptyError, NotFiniteError
from graphtemper.graph.checks import Features
from graphtemper.scale.storage.shards import DENSE, MANIFEST, NEIGHBOURS, SCHEMA, SPARSE, checksum

ROWS_PER_SHARD = 250_000
"""Default number of nodes per shard; with 100 columns a file of 100 MB."""


def index_dtype(num_nodes: int) -> np.dtype[Any]:
    """Return the smaller of int32 and int64 that can hold every node number.

    Examples
    --------
    >>> index_dtype(1000), index_dtype(2**31)
    (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


class ShardWriter:
    """Writes the shards of one graph into a folder, in order."""

    def __init__(self, folder: Path, num_nodes: int, num_features: int, rows: int) -> None:
        check_integer(rows, "rows_per_shard", 1)
        if num_nodes < 1 or num_features < 1:
            raise EmptyError("a graph needs at least one node and one feature column.")
        self._folder, self._num_features = folder, num_features
        self.bounds = [(first, min(first + rows, num_nodes)) for first in range(0, num_nodes, rows)]
        self._num_nodes, self._shards = num_nodes, list[dict[str, Any]]()
        self._entries, self._sparse = 0, False

    def add(self, indptr: NDArray[Any], indices: NDArray[Any], features: Features) -> None:
        """Write the next shard: its CSR rows and its features."""
        first, last = self.bounds[len(self._shards)]
        folder = self._folder / f"shard-{len(self._shards):05d}"
        folder.mkdir()
        neighbours = (indptr.astype(np.int64), indices.astype(index_dtype(self._num_nodes)))
        arrays: dict[str, NDArray[Any]] = dict(zip(NEIGHBOURS, neighbours, strict=True))
        if isinstance(features, np.ndarray):
            arrays[DENSE[0]] = _finite(features, first)
        else:
            self._sparse = True
            values = (features.data.astype(np.float32), features.indices, features.indptr)
            arrays |= dict(zip(SPARSE, values, strict=True))
        for name, array in arrays.items():
            np.save(folder / name, array, allow_pickle=False)
        self._entries += len(indices)
        files = {
            name: {"bytes": (folder / name).stat().st_size, "crc32": checksum(folder / name)}
            for name in arrays
        }
        self._shards.append({"first": first, "last": last, "files": files})

    def finish(self, name: str = "") -> None:
        """Write the manifest, which completes the graph."""
        facts = {
            "schema": SCHEMA,
            "name": name,
            "num_nodes": self._num_nodes,
            "num_edges": self._entries // 2,
            "num_features": self._num_features,
            "features": "sparse" if self._sparse else "dense",
            "shards": self._shards,
        }
        (self._folder / MANIFEST).write_text(json.dumps(facts, indent=1), "utf-8")


def _finite(features: NDArray[Any], first: int) -> NDArray[np.float32]:
    """Return features as float32; refuse values that are not finite, naming the node."""
    with np.errstate(over="ignore"):  # values beyond float32 are reported below
        values = np.ascontiguousarray(features, dtype=np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        row, column = (int(place) for place in np.argwhere(~finite)[0])
        raise NotFiniteError(
            f"features[{first + row}, {column}] is {values[row, column]}; replace non-finite "
            "entries."
        )
    return values
