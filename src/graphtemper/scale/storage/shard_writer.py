"""Writing of sharded graphs: one shard after the other, then the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import check_integer
from graphtemper.errors import InputError
from graphtemper.scale.storage.array_files import checksum, index_dtype, write_rows
from graphtemper.scale.storage.shards import DENSE, MANIFEST, SCHEMA, SPARSE

ROWS_PER_SHARD = 250_000
"""Default number of nodes per shard; with 100 columns a file of 100 MB."""

DenseBlocks = Iterable[NDArray[Any]]


class ShardWriter:
    """Writes the shards of one graph into a folder, in order."""

    def __init__(self, folder: Path, num_nodes: int, num_features: int, rows: int) -> None:
        check_integer(rows, "rows_per_shard", 1)
        if num_nodes < 1 or num_features < 1:
            raise InputError("a graph needs at least one node and one feature column.")
        self._folder, self._num_features = folder, num_features
        self.bounds = [(first, min(first + rows, num_nodes)) for first in range(0, num_nodes, rows)]
        self._num_nodes, self._shards = num_nodes, list[dict[str, Any]]()
        self._entries, self._sparse = 0, False

    def add(
        self,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        features: DenseBlocks | sp.csr_matrix,
    ) -> None:
        """Write the next shard: its CSR rows and its features (dense ones in blocks of rows)."""
        first, last = self.bounds[len(self._shards)]
        folder = self._folder / f"shard-{len(self._shards):05d}"
        folder.mkdir()
        arrays: dict[str, NDArray[Any]] = {
            "indptr.npy": np.asarray(indptr, dtype=np.int64),
            "indices.npy": np.asarray(indices, dtype=index_dtype(self._num_nodes)),
        }
        names: tuple[str, ...] = DENSE
        if sp.issparse(features):
            self._sparse, names = True, SPARSE
            values = (features.data.astype(np.float32), features.indices, features.indptr)
            arrays |= dict(zip(SPARSE, values, strict=True))
        else:
            shape = (last - first, self._num_features)
            blocks = _finite_blocks(features, first, self._num_features)
            write_rows(folder / DENSE[0], shape, np.float32, blocks)
        for name, array in arrays.items():
            np.save(folder / name, array, allow_pickle=False)
        self._entries += len(indices)
        files = {
            name: {"bytes": (folder / name).stat().st_size, "crc32": checksum(folder / name)}
            for name in ("indptr.npy", "indices.npy", *names)
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


def _finite_blocks(blocks: DenseBlocks, first: int, width: int) -> Iterator[NDArray[Any]]:
    """Yield blocks as float32; refuse values that are not finite, naming the node."""
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != width:
            raise InputError(
                f"the features from node {first} on have shape {block.shape}, but the graph has "
                f"{width} columns."
            )
        with np.errstate(over="ignore"):  # values beyond float32 are reported below
            values = np.asarray(block, dtype=np.float32)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            column = int(np.argmin(np.isfinite(values[row])))
            raise InputError(
                f"features[{first + row}, {column}] is {values[row, column]}; replace non-finite "
                "entries."
            )
        yield values
        first += len(block)
