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
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.files import open_array
from graphtemper._core.safe_reading import open_regular, parse_json, read_bytes
from graphtemper.errors import DamagedError, FileError, InputError, NoFileError, VersionError
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph

SCHEMA = "graphtemper.shards/1"
MANIFEST = "graph.json"
NEIGHBOURS = ("indptr.npy", "indices.npy")
DENSE = ("features.npy",)
SPARSE = ("features_data.npy", "features_indices.npy", "features_indptr.npy")
ENTRIES_AT_ONCE = 2_000_000
"""Neighbours that a task processes at a time."""
_MAX_MANIFEST = 64_000_000
_CHUNK = 1 << 20


class Rows(NamedTuple):
    """Neighbours of consecutive nodes: the node that each belongs to, and its number."""

    ends: NDArray[np.int64]
    indices: NDArray[np.integer[Any]]


class Shard(NamedTuple):
    """The nodes ``first ... last - 1``, and the (size, CRC-32) of each of their files."""

    first: int
    last: int
    files: dict[str, tuple[int, int]]


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file, read in chunks."""
    crc = 0
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


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

        Sizes are compared; contents are read only by `verify`.

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
        graphtemper.errors.FileError: shard-00001: indices.npy is missing or not of the 132 bytes...
        """
        folder = Path(path).absolute()  # workers may run in other directories
        graph = _read_manifest(folder)
        expected = {*NEIGHBOURS, *(SPARSE if graph.sparse else DENSE)}
        for number, shard in enumerate(graph.shards):
            if set(shard.files) != expected:
                raise DamagedError(
                    f"shard-{number:05d}: {MANIFEST} lists {', '.join(sorted(shard.files))}, but a "
                    f"shard has {', '.join(sorted(expected))}; convert the graph again."
                )
            for name, (size, _) in shard.files.items():
                file = graph.folder(number) / name
                if not file.is_file() or file.stat().st_size != size:
                    raise FileError(
                        f"shard-{number:05d}: {name} is missing or not of the {size} bytes that "
                        f"{MANIFEST} lists; do not mix shards of different graphs."
                    )
        return graph

    def folder(self, shard: int) -> Path:
        """Return the directory of a shard."""
        return self.path / f"shard-{shard:05d}"

    def neighbours(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
        """Map a shard's ``indptr`` and ``indices``, which are checked to fit together."""
        first, last, _ = self.shards[shard]
        indptr, indices = (self._map(shard, name, "iu") for name in NEIGHBOURS)
        _check_rows(indptr, indices, last - first, f"shard-{shard:05d}: its neighbours")
        return indptr, indices

    def features(self, shard: int) -> Features:
        """Map a shard's features: an (n, F) array or a CSR matrix."""
        first, last, _ = self.shards[shard]
        shape, what = (last - first, self.num_features), f"shard-{shard:05d}: its features"
        if not self.sparse:
            dense = self._map(shard, DENSE[0], "f")
            if dense.shape != shape:
                raise DamagedError(f"{what} have shape {dense.shape}, not {shape}; convert again.")
            return dense
        data, indices, indptr = (
            self._map(shard, name, kind)
            for name, kind in zip(SPARSE, ("f", "iu", "iu"), strict=True)
        )
        _check_rows(indptr, indices, shape[0], what)
        check_numbers(indices, self.num_features, what)
        if data.shape != indices.shape:
            raise DamagedError(f"{what} are not valid CSR; convert the graph again.")
        return sp.csr_matrix((data, indices, indptr), shape=shape)

    def blocks(self, shard: int) -> Iterator[Rows]:
        """Yield the neighbours of a shard's nodes in blocks of bounded size."""
        first, last, _ = self.shards[shard]
        indptr, indices = self.neighbours(shard)
        start = 0
        while start < last - first:
            end = int(np.searchsorted(indptr, indptr[start] + ENTRIES_AT_ONCE, "right")) - 1
            stop = min(max(end, start + 1), last - first)
            block = np.asarray(indices[indptr[start] : indptr[stop]])
            check_numbers(block, self.num_nodes, f"shard-{shard:05d}: its neighbours")
            nodes, counts = (
                np.arange(first + start, first + stop),
                np.diff(indptr[start : stop + 1]),
            )
            yield Rows(np.repeat(nodes, counts), block)
            start = stop

    def verify(self) -> None:
        """Read every file and compare its checksum with the one in the manifest."""
        for number, shard in enumerate(self.shards):
            for name, (_, expected) in shard.files.items():
                if checksum(self.folder(number) / name) != expected:
                    raise DamagedError(
                        f"shard-{number:05d}: {name} has changed since it was written; convert the "
                        "graph again."
                    )

    def to_graph(self) -> Graph:
        """Load the graph into memory."""
        shards, pairs = range(len(self.shards)), []
        for rows in (block for shard in shards for block in self.blocks(shard)):
            once = rows.indices > rows.ends
            pairs.append(np.column_stack([rows.ends[once], rows.indices[once]]))
        parts: list[Any] = [self.features(shard) for shard in shards]
        features = sp.vstack(parts) if self.sparse else np.concatenate(parts)
        return Graph(features=features, edges=np.concatenate(pairs), name=self.name)

    def _map(self, shard: int, name: str, kinds: str) -> NDArray[Any]:
        array = open_array(self.folder(shard) / name, f"shard-{shard:05d}")
        if array.dtype.kind not in kinds:
            raise DamagedError(f"shard-{shard:05d}: {name} holds {array.dtype}; convert again.")
        return array


def _check_rows(indptr: NDArray[Any], indices: NDArray[Any], rows: int, what: str) -> None:
    fits = indptr.shape == (rows + 1,) and indices.ndim == 1
    if not fits or indptr[0] or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise DamagedError(f"{what} are not valid CSR; convert the graph again.")


def check_numbers(indices: NDArray[Any], count: int, what: str) -> None:
    """Refuse numbers beyond 0 ... count - 1, at which a product would read beyond the array."""
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise DamagedError(f"{what} hold a number outside 0..{count - 1}; convert the graph again.")


def _read_manifest(folder: Path) -> ShardedGraph:
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise NoFileError(
            f"{path} is missing, so {folder} is not a complete sharded graph; create one with "
            "`graphtemper scale convert`."
        )
    try:
        facts = parse_json(read_bytes(path, _MAX_MANIFEST))
        if facts["schema"] != SCHEMA:
            raise VersionError(f"{path} has the schema {facts['schema']!r:.40}, not {SCHEMA!r}.")
        shards = tuple(_shard(item) for item in facts["shards"])
        nodes, edges, width = (facts[key] for key in ("num_nodes", "num_edges", "num_features"))
        if not all(type(count) is int and count >= 0 for count in (nodes, edges, width)):
            raise ValueError("counts")
        sparse = {"dense": False, "sparse": True}[facts["features"]]
        name = str(facts.get("name", ""))
    except FileError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, InputError) as error:
        raise DamagedError(f"{path} is damaged or not the manifest of a sharded graph.") from error
    ends = [0, *(shard.last for shard in shards)]
    if [*(shard.first for shard in shards), nodes] != ends or not shards:
        raise DamagedError(f"{path}: the shards do not cover the nodes 0..{nodes - 1}.")
    return ShardedGraph(folder, name, nodes, edges, width, sparse, shards)


def _shard(item: Any) -> Shard:
    files = {
        str(name): (int(facts["bytes"]), int(facts["crc32"]))
        for name, facts in item["files"].items()
    }
    first, last = item["first"], item["last"]
    if not (type(first) is type(last) is int and 0 <= first < last):
        raise ValueError("rows")
    return Shard(first, last, files)
