"""The one reader of logits on disk: ``.npy``, ``.npz``, CSV, Parquet and safetensors.

Every format holds one row per node and one column per class. CSV and Parquet may have a column
``node``; where it holds numbers and a graph is at hand, rows are put in the graph's order.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.files import open_array, read_npz
from graphtemper._core.safe_reading import open_regular, parse_json, read_lines
from graphtemper.errors import DamagedError, FileError, InputError, TableError
from graphtemper.models.predictor import checked_logits
from graphtemper.scale.logits.logit_tables import (
    LIST,
    NODE,
    VALUES_AT_ONCE,
    LogitTables,
    as_numbers,
)

ARRAYS = (".npy", ".npz", ".csv", ".safetensors")
EXPECTED = ".npy, .npz, .csv, .parquet or .safetensors"

# A header of safetensors names each tensor in about a hundred bytes.
_MAX_HEADER = 10_000_000
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True, eq=False)
class LogitArray:
    """Logits (N, K) in one array, possibly memory-mapped, read in blocks of rows.

    ``nodes`` are the indices of the rows' nodes; None if rows are in the graph's order.

    Examples
    --------
    >>> parts = LogitArray(np.array([[0.0, 2.0], [1.0, 0.0]]), 2)
    >>> len(parts), [logits.tolist() for _, logits in parts.batches(0)]
    (1, [[[0.0, 2.0], [1.0, 0.0]]])
    """

    values: NDArray[Any]
    num_classes: int
    nodes: NDArray[np.int64] | None = None
    name: str = "logits"

    @classmethod
    def open(cls, path: Path, num_classes: int) -> LogitArray:
        """Read a file of one of the formats `ARRAYS`; an ``.npy`` is memory-mapped."""
        nodes = None
        if path.suffix == ".csv":
            nodes, values = _read_csv(path)
        elif path.suffix == ".safetensors":
            values = _read_safetensors(path)
        elif path.suffix == ".npz":
            arrays = read_npz(path)
            if LIST not in arrays:
                raise DamagedError(
                    f"{path}: key 'logits' is missing; save the array under that name. To read a "
                    "graph, name its model with --predict."
                )
            values = arrays[LIST]
        else:
            values = open_array(path, LIST)
        if values.ndim != 2 or values.shape[1] != num_classes:
            raise DamagedError(
                f"{path}: the logits must have shape (N, {num_classes}), as the card has "
                f"{num_classes} classes, not {values.shape}."
            )
        return cls(values, num_classes, nodes, path.name)

    @property
    def _step(self) -> int:
        return max(VALUES_AT_ONCE // self.num_classes, 1)

    def __len__(self) -> int:
        return max(-(-len(self.values) // self._step), 1)

    def file_name(self, shard: int) -> str:
        """Return the name of a part's result."""
        stem = Path(self.name).stem
        return f"{stem}.parquet" if len(self) == 1 else f"{stem}-{shard:05d}.parquet"

    def sizes(self) -> list[int]:
        """Return the number of rows of every part."""
        starts = range(0, max(len(self.values), 1), self._step)
        return [len(self.values[start : start + self._step]) for start in starts]

    def batches(self, shard: int) -> Iterator[tuple[NDArray[np.int64] | None, FloatArray]]:
        """Yield the nodes and the logits of one part."""
        start = shard * self._step
        rows = slice(start, start + self._step)
        values, nodes = self.values[rows], None if self.nodes is None else self.nodes[rows]
        try:
            yield nodes, checked_logits(values, len(values)) if len(values) else values
        except InputError as error:
            raise DamagedError(f"{self.name}, from row {start} on: {error}") from error


def open_logits(path: str | os.PathLike[str], num_classes: int) -> LogitArray | LogitTables:
    """Open logits in any format: a file, or a directory of Parquet files.

    Examples
    --------
    >>> open_logits("logits.xlsx", 2)
    Traceback (most recent call last):
    graphtemper.errors.TableError: cannot read logits from logits.xlsx; save them as .npy, ...
    """
    place = Path(path)
    if place.is_dir() or place.suffix in ("", ".parquet"):
        return LogitTables.open(path, num_classes)
    if place.suffix not in ARRAYS:
        raise TableError(f"cannot read logits from {place}; save them as {EXPECTED}.")
    return LogitArray.open(place, num_classes)


def read_logits(path: str | os.PathLike[str], num_nodes: int, num_classes: int) -> FloatArray:
    r"""Read the logits (N, K) of a graph's nodes, in the order of the nodes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "logits.csv"
    >>> _ = path.write_text("node,logit_0,logit_1\n1,0.5,-0.5\n0,1.5,2\n")
    >>> read_logits(path, num_nodes=2, num_classes=2).tolist()
    [[1.5, 2.0], [0.5, -0.5]]
    """
    return in_order(open_logits(path, num_classes), num_nodes)


def in_order(parts: LogitArray | LogitTables, num_nodes: int) -> FloatArray:
    """Return all logits (N, K), in the order of the nodes."""
    path = parts.name
    blocks = [block for part in range(len(parts)) for block in parts.batches(part)]
    logits = np.concatenate([rows for _, rows in blocks])
    try:
        logits = checked_logits(logits, num_nodes)
    except InputError as error:
        raise DamagedError(f"{path}: {error}") from error
    if any(names is not None for names, _ in blocks):
        logits = logits[_order(np.concatenate([as_numbers(n) for n, _ in blocks]), path)]
    return logits


def _order(nodes: NDArray[Any], path: str | os.PathLike[str]) -> NDArray[np.intp]:
    """Return where each node's row is; the nodes must be 0 to N - 1, each once."""
    if nodes.dtype.kind not in "iu":
        raise TableError(
            f"{path}: the column node must hold indices of the graph's nodes; rename it if it "
            "holds other names, and sort the rows by node."
        )
    order = np.argsort(nodes, kind="stable")
    wrong = np.flatnonzero(nodes[order] != np.arange(nodes.size))
    if wrong.size:
        raise TableError(
            f"{path}: the column node must hold 0 to {nodes.size - 1}, each once, but node "
            f"{wrong[0]} is missing."
        )
    return order


def _read_csv(path: Path) -> tuple[NDArray[np.int64] | None, FloatArray]:
    """Read rows of numbers, with or without a header.

    A header names the columns ``logit_0``, ``logit_1``, ... or ``0``, ``1``, ... as pandas does,
    and optionally ``node``, which pandas leaves empty for its index. Without a header every column
    is a logit.
    """
    lines = (line for line in read_lines(path, "the logits") if line.strip())
    first = next(lines, "")
    names = [name.strip().strip('"') for name in first.split(",")]
    header = _is_header(names, path)
    rows = lines if header else chain([first], lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without rows, which is refused below
            table = np.loadtxt(rows, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        what = str(error).split(";")[0].rstrip(".")
        raise FileError(f"{path} is not a table of numbers: {what}.") from error
    if not (header and names[0] in ("", NODE)):
        return None, table
    nodes = table[:, 0]
    if not ((nodes >= 0) & (nodes < 2**53) & (nodes == np.floor(nodes))).all():
        raise TableError(f"{path}: the column node must hold indices of nodes.")
    return nodes.astype(np.int64), table[:, 1:]


def _is_header(names: list[str], path: Path) -> bool:
    """Return whether the first row names the columns; other names than expected are refused."""
    logits = names[1:] if names[0] in ("", NODE) else names
    if logits in ([f"logit_{k}" for k in range(len(logits))], [f"{k}" for k in range(len(logits))]):
        return True
    try:
        list(map(float, names))
    except ValueError as error:
        raise TableError(
            f"{path}, line 1: the columns must be logit_0, logit_1, ... after an optional node, or "
            "numbers without a header."
        ) from error
    return False


def _read_safetensors(path: Path) -> NDArray[Any]:
    """Read the tensor ``logits``, or the only one, after checking the header against the file."""
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(_MAX_HEADER, size - 8):
                raise ValueError("its header has no valid length")
            tensors = parse_json(stream.read(length))
            kind, shape, start, nbytes = _tensor(tensors, size - 8 - length)
            stream.seek(8 + length + start)
            content = stream.read(nbytes)
    except FileError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, InputError) as error:
        why = str(error).rstrip(".") if isinstance(error, ValueError | InputError) else "its header"
        raise DamagedError(f"{path} is damaged or not a safetensors file: {why}.") from error
    if len(content) != nbytes:
        raise DamagedError(f"{path} ends early; it is truncated, so write it again.")
    values = np.frombuffer(content, dtype=_TYPES[kind]).reshape(shape)
    if kind == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def _tensor(tensors: Any, available: int) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape, position and size of the logits; raise ValueError if they do not fit."""
    named = {name: entry for name, entry in tensors.items() if name != "__metadata__"}
    if LIST not in named and len(named) != 1:
        raise ValueError("it has no tensor named logits")
    entry = named[LIST] if LIST in named else next(iter(named.values()))
    kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in _TYPES:
        raise ValueError(f"the logits are {kind!r:.20}, not floating-point numbers")
    sizes = (*shape, start, end)
    if not all(type(value) is int and 0 <= value < 2**48 for value in sizes):
        raise ValueError("a shape or position is not valid")
    nbytes = np.dtype(_TYPES[kind]).itemsize
    for count in shape:
        nbytes *= count
    if end - start != nbytes or end > available:
        raise ValueError("the header claims other bytes than the file has")
    return kind, shape, start, nbytes
