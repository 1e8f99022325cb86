"""Sharded graphs: directories of row shards that are memory-mapped, never loaded as a whole.

::

    graph.json                        manifest
    shard-00000/indptr.npy            (n + 1,) int64: where each node's neighbours start
    shard-00000/indices.npy           int32 or int64: neighbours of each node, in increasing order
    shard-00000/features.npy          (n, F) float32; or, for sparse features, CSR arrays:
    shard-00000/features_data.npy, features_indices.npy, features_indptr.npy

A shard holds consecutive nodes and all of their neighbours, so every edge is stored at both of its
ends; there are no self-loops and no duplicates. ``graph.json`` lists the shards with their row
ranges and the size and CRC-32 of each file. Labels are not stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.files import open_array
from graphtemper._core.safe_reading import parse_json, read_bytes
from graphtemper.errors import FileError
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.scale.storage.array_files import checksum, index_dtype

SCHEMA = "graphtemper.shards/1"
MANIFEST = "graph.json"
DENSE = ("features.npy",)
SPARSE = ("features_data.npy", "features_indices.npy", "features_indptr.npy")
ENTRIES_AT_ONCE = 2_000_000
"""Neighbours that a task processes at a time; with their weights about 60 MB."""
VALUES_AT_ONCE = 4_000_000
"""Values of a result that a task holds at a time."""
_MAX_MANIFEST = 64_000_000
_NUMBERS = ("num_nodes", "num_edges", "num_features")


class Rows(NamedTuple):
    """Consecutive nodes and their neighbours; ``indptr`` starts at 0."""

    first: int
    last: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.integer[Any]]

    @property
    def ends(self) -> NDArray[np.int64]:
        """The node that each entry of ``indices`` is a neighbour of."""
        return np.repeat(np.arange(self.first, self.last), np.diff(self.indptr))


class Shard(NamedTuple):
    """The nodes ``first ... last - 1``, and the (size, CRC-32) of each of their files."""

    first: int
    last: int
    files: dict[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class ShardedGraph:
    """A graph on disk in the format of this module; `open` reads one."""

    path: Path
    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    sparse: bool
    shards: tuple[Shard, ...]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ShardedGraph:
        """Read the manifest and check that every shard is present and complete.

        Headers and sizes are compared; contents are read only by `verify`.

        Examples
        --------
        >>> import tempfile
        >>> from graphtemper.scale.conversion.convert import convert_graph
        >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
        >>> folder = Path(tempfile.mkdtemp()) / "path"
        >>> _ = convert_graph(g, folder, rows_per_shard=2)
        >>> sharded = ShardedGraph.open(folder)
        >>> sharded.num_nodes, sharded.num_edges, len(sharded.shards)
        (3, 2, 2)
        >>> (folder / "shard-00001" / "indices.npy").unlink()
        >>> ShardedGraph.open(folder)
        Traceback (most recent call last):
        graphtemper.errors.FileError: shard-00001: ...indices.npy does not exist or is not a file.
        """
        folder = Path(path).absolute()  # workers may run in other directories
        facts = _read_manifest(folder)
        graph = cls(
            path=folder,
            name=facts["name"],
            num_nodes=facts["num_nodes"],
            num_edges=facts["num_edges"],
            num_features=facts["num_features"],
            sparse=facts["features"] == "sparse",
            shards=facts["shards"],
        )
        stored = sum(graph._check(shard) for shard in range(len(graph.shards)))
        if stored != 2 * graph.num_edges:
            raise FileError(
                f"{folder / MANIFEST} lists {graph.num_edges} edges, but the shards store {stored} "
                "edge ends instead of twice as many; convert the graph again."
            )
        return graph

    def folder(self, shard: int) -> Path:
        """Return the directory of a shard."""
        return self.path / f"shard-{shard:05d}"

    def neighbours(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
        """Map a shard's ``indptr`` and ``indices``, which are checked to fit together."""
        indptr, indices = self._map(shard, "indptr.npy"), self._map(shard, "indices.npy")
        if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise FileError(
                f"shard-{shard:05d}: indptr.npy does not fit indices.npy; convert again."
            )
        return indptr, indices

    def features(self, shard: int) -> Features:
        """Map a shard's features: an (n, F) array or a CSR matrix."""
        if not self.sparse:
            return self._map(shard, DENSE[0])
        first, last, _ = self.shards[shard]
        data, indices, indptr = (self._map(shard, name) for name in SPARSE)
        if not _is_csr(indptr, indices, self.num_features):
            raise FileError(f"shard-{shard:05d}: its features are not valid CSR; convert again.")
        return sp.csr_matrix((data, indices, indptr), shape=(last - first, self.num_features))

    def degrees(self, shard: int) -> NDArray[np.int64]:
        """Return the number of neighbours of a shard's nodes."""
        return np.diff(self._map(shard, "indptr.npy"))

    def blocks(self, shard: int, width: int = 1) -> Iterator[Rows]:
        """Yield a shard's nodes in blocks, bounded in neighbours and in rows times ``width``.

        Every neighbour is checked to be a node, because a product would read beyond the array.
        """
        first, last, _ = self.shards[shard]
        indptr, indices = self.neighbours(shard)
        max_rows = max(VALUES_AT_ONCE // width, 1)
        start = 0
        while start < last - first:
            end = int(np.searchsorted(indptr, indptr[start] + ENTRIES_AT_ONCE, "right")) - 1
            stop = min(max(end, start + 1), start + max_rows, last - first)
            block = np.asarray(indices[indptr[start] : indptr[stop]])
            if block.size and (block.min() < 0 or block.max() >= self.num_nodes):
                raise FileError(
                    f"shard-{shard:05d}: indices.npy names a node outside 0..{self.num_nodes - 1}; "
                    "convert the graph again."
                )
            offsets = indptr[start : stop + 1] - indptr[start]
            yield Rows(first + start, first + stop, offsets, block)
            start = stop

    def verify(self) -> None:
        """Read every file and compare its checksum with the one in the manifest."""
        for number, shard in enumerate(self.shards):
            for name, (_, expected) in shard.files.items():
                if checksum(self.folder(number) / name) != expected:
                    raise FileError(
                        f"shard-{number:05d}: {name} has changed since it was written; convert the "
                        "graph again."
                    )

    @property
    def files(self) -> list[Path]:
        """The manifest and every file of every shard."""
        shards = enumerate(self.shards)
        arrays = (self.folder(number) / name for number, shard in shards for name in shard.files)
        return [self.path / MANIFEST, *arrays]

    def to_graph(self) -> Graph:
        """Load the graph into memory."""
        pairs = []
        for shard in range(len(self.shards)):
            for rows in self.blocks(shard):
                ends = rows.ends
                once = rows.indices > ends
                pairs.append(np.column_stack([ends[once], rows.indices[once]]))
        parts: list[Any] = [self.features(shard) for shard in range(len(self.shards))]
        features = sp.vstack(parts) if self.sparse else np.concatenate(parts)
        return Graph(features=features, edges=np.concatenate(pairs), name=self.name)

    def _map(self, shard: int, name: str) -> NDArray[Any]:
        return open_array(self.folder(shard) / name, f"shard-{shard:05d}")

    def _check(self, shard: int) -> int:
        """Compare a shard's headers and sizes with the manifest; return its number of edge ends."""
        first, last, files = self.shards[shard]
        expected = {"indptr.npy", "indices.npy", *(SPARSE if self.sparse else DENSE)}
        if set(files) != expected:
            raise FileError(
                f"shard-{shard:05d}: {MANIFEST} lists {', '.join(sorted(files))}, but a shard with "
                f"{'sparse' if self.sparse else 'dense'} features has "
                f"{', '.join(sorted(expected))}."
            )
        shapes: dict[str, tuple[tuple[int, ...] | None, tuple[str, ...]]] = {
            "indptr.npy": ((last - first + 1,), ("int64",)),
            "indices.npy": (None, tuple(sorted({index_dtype(self.num_nodes).name, "int64"}))),
            "features.npy": ((last - first, self.num_features), ("float32",)),
            "features_data.npy": (None, ("float32",)),
            "features_indices.npy": (None, ("int32", "int64")),
            "features_indptr.npy": ((last - first + 1,), ("int32", "int64")),
        }
        for name, (size, _) in files.items():
            array = self._map(shard, name)
            shape, kinds = shapes[name]
            if (shape is not None and array.shape != shape) or array.dtype.name not in kinds:
                raise FileError(
                    f"shard-{shard:05d}: {name} holds {array.dtype} of shape {array.shape}, but "
                    f"the schema of {MANIFEST} requires {' or '.join(kinds)}"
                    f"{'' if shape is None else f' of shape {shape}'}; do not mix shards of "
                    "different graphs."
                )
            if (self.folder(shard) / name).stat().st_size != size:
                raise FileError(
                    f"shard-{shard:05d}: {name} does not have the {size} bytes that {MANIFEST} "
                    "lists; do not mix shards of different graphs."
                )
        return len(self._map(shard, "indices.npy"))


def _is_csr(indptr: NDArray[Any], indices: NDArray[Any], width: int) -> bool:
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        return False
    return not len(indices) or bool(indices.min() >= 0 and indices.max() < width)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if folder.is_file():
        raise FileError(
            f"{folder} is a file, not a directory of shards; create one with `graphtemper scale "
            "convert`."
        )
    if not os.path.lexists(path):
        raise FileError(f"{path} is missing, so {folder} is not a complete sharded graph.")
    try:
        facts = parse_json(read_bytes(path, _MAX_MANIFEST))
        if facts["schema"] != SCHEMA:
            raise FileError(f"{path} has the schema {facts['schema']!r}, not {SCHEMA!r}.")
        facts["shards"] = tuple(_shard(item) for item in facts["shards"])
        counts = all(isinstance(facts[key], int) and facts[key] >= 0 for key in _NUMBERS)
        if not counts or facts["features"] not in ("dense", "sparse"):
            raise ValueError("counts")
        facts["name"] = str(facts.get("name", ""))
    except FileError:
        raise
    except (
        OSError,
        ValueError,
        OverflowError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise FileError(f"{path} is damaged or not the manifest of a sharded graph.") from error
    ends = [0, *(shard.last for shard in facts["shards"])]
    starts = [*(shard.first for shard in facts["shards"]), facts["num_nodes"]]
    if starts != ends or not facts["shards"]:
        raise FileError(f"{path}: the shards do not cover the nodes 0..{facts['num_nodes'] - 1}.")
    return dict(facts)


def _shard(item: Any) -> Shard:
    files = {
        str(name): (int(facts["bytes"]), int(facts["crc32"]))
        for name, facts in item["files"].items()
    }
    first, last = int(item["first"]), int(item["last"])
    if not 0 <= first < last:
        raise ValueError("rows")
    return Shard(first, last, files)
