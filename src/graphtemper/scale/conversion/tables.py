"""Input tables, read in blocks: edges and features as text, ``.npy`` or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.files import open_array
from graphtemper._core.safe_reading import read_lines
from graphtemper.errors import ContentError, DamagedError, FileError, TableError
from graphtemper.scale.storage.parquet import (
    arrow,
    open_parquet,
    parquet_files,
    read_batches,
    same_columns,
    to_floats,
)

ROWS_AT_ONCE = 1_000_000
"""Edges, or values of a feature table, that are read at a time."""
_TEXT_BLOCK = 1 << 24
_NODE = "node"
# Common names for the two ends of an edge.
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))
# Columns that a model could read; others are taken for bookkeeping.
_ATTRIBUTES = ("weight", "edge_weight", "type", "edge_type")


def read_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    r"""Yield the edges of a table as (m, 2) arrays.

    A text file holds integers separated by a comma, a tab or one space. Lines at the top that start
    with # or % are skipped, and one line of column names may follow. With two columns, these are
    the ends of the edges. With more, the ends are the columns named ``source`` and ``target``,
    ``src`` and ``dst``, or ``from`` and ``to``; a table without such names is refused, because any
    other choice could give a different graph. So is a column ``weight``, ``edge_weight``, ``type``
    or ``edge_type``, which shards do not hold.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "edges.csv"
    >>> _ = path.write_text("# a triangle\nsource,target\n0,1\n1,2\n2,0\n")
    >>> [edges.tolist() for edges in read_edges(path)]
    [[[0, 1], [1, 2], [2, 0]]]
    """
    if not path.is_dir() and path.suffix != ".parquet":
        yield from _text_edges(path)
        return
    for part in parquet_files(path):
        names = open_parquet(part).schema_arrow.names
        ends = [names[position] for position in _end_columns(names, part)]
        for batch in read_batches(part, ends, ROWS_AT_ONCE):
            yield _to_pairs([batch.column(name) for name in ends], part)


def _end_columns(names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return the positions of the two columns that hold the ends of the edges."""
    lower = [name.strip().lower() for name in names]
    lost = [name for name in lower if name in _ATTRIBUTES]
    if lost:
        raise TableError(
            f"{path} has a column {lost[0]!r}, and shards do not hold attributes of edges; remove "
            "the column if your model does not read it."
        )
    for first, second in _END_NAMES:
        if lower.count(first) == 1 and lower.count(second) == 1:
            return lower.index(first), lower.index(second)
    if len(names) != 2:
        raise TableError(
            f"{path} has the columns {', '.join(names)!r:.60}; name the two ends of an edge source "
            "and target, or keep only these columns."
        )
    return 0, 1


def _text_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    csv, lines = arrow("pyarrow.csv"), read_lines(path, "the edges")
    first = ""

    def is_comment(line: str) -> bool:
        nonlocal first
        first = line.strip()
        return not first or first.startswith(("#", "%"))

    num_comments = sum(1 for _ in takewhile(is_comment, lines))
    delimiter = next((mark for mark in (",", "\t") if mark in first), " ")
    cells = [cell.strip(" \"'") for cell in first.split(delimiter)]
    # Other cells that are not numbers count as data: they are refused when read, never dropped.
    header = all(re.match(r"[^\d.+-]*[^\W\d_]", cell) for cell in cells)
    ends = _end_columns(cells if header else [""] * len(cells), path)
    read = csv.ReadOptions(
        skip_rows=num_comments + header, autogenerate_column_names=True, block_size=_TEXT_BLOCK
    )
    try:
        for batch in csv.open_csv(path, read, csv.ParseOptions(delimiter=delimiter)):
            yield _to_pairs([batch.column(position) for position in ends], path)
    except FileError:
        raise
    except (OSError, ValueError, LookupError, arrow().ArrowException) as error:
        message = " ".join(str(error).split())[:200].rstrip(".")
        raise TableError(f"{path} cannot be read as a list of edges: {message}.") from error


def _to_pairs(columns: list[Any], path: Path) -> NDArray[np.int64]:
    types = arrow("pyarrow.types")
    for column in columns:
        if not types.is_integer(column.type) or column.null_count:
            raise DamagedError(
                f"{path}: the ends of edges must be integers without gaps, not {column.type}; "
                "separate them by a comma, a tab or one space."
            )
    ends = [column.to_numpy(zero_copy_only=False).astype(np.int64) for column in columns]
    return np.column_stack(ends)


@dataclass(frozen=True)
class FeatureTable:
    """Dense features on disk: their shape, and a function that yields them in blocks of rows."""

    num_nodes: int
    num_features: int
    blocks: Callable[[], Iterator[NDArray[Any]]]


def read_features(path: Path) -> FeatureTable:
    """Open a feature table: an (N, F) ``.npy``, or Parquet with one column per feature.

    Row i belongs to node i. A Parquet column ``node`` is not a feature; it must number the rows.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.ones((3, 2)))
    >>> table = read_features(path)
    >>> table.num_nodes, table.num_features
    (3, 2)
    """
    if path.suffix == ".npy":
        array = open_array(path, "features")
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise TableError(f"{path} must hold an (N, F) array of real numbers.")
        rows, width = array.shape
        step = max(ROWS_AT_ONCE // max(width, 1), 1)
        starts = range(0, rows, step)
        return FeatureTable(rows, width, lambda: (array[start:][:step] for start in starts))
    if not path.is_dir() and path.suffix != ".parquet":
        raise ContentError(f"{path} is not a feature table; use an .npy, or Parquet.")
    files = parquet_files(path)
    columns = same_columns(files)
    names = [name for name in columns if name != _NODE]
    if not names:
        raise TableError(f"{files[0]} has no column of features.")
    rows = sum(open_parquet(file).metadata.num_rows for file in files)
    return FeatureTable(rows, len(names), lambda: _parquet_features(files, columns, names))


def _parquet_features(
    files: list[Path], columns: list[str], names: list[str]
) -> Iterator[NDArray[Any]]:
    step, row = max(ROWS_AT_ONCE // len(names), 1), 0
    for path in files:
        for batch in read_batches(path, columns, step):
            if _NODE in columns:
                nodes = batch.column(_NODE).to_numpy(zero_copy_only=False)
                if not np.array_equal(nodes, np.arange(row, row + len(nodes))):
                    raise TableError(f"{path}: the column node must number the rows; sort by it.")
            yield to_floats(batch, names, path)
            row += batch.num_rows


class RowReader:
    """Regroups blocks of rows into runs of given length.

    Examples
    --------
    >>> rows = RowReader(iter([np.zeros((2, 1)), np.ones((3, 1))]))
    >>> len(rows.take(4)), len(rows.take(1))
    (4, 1)
    """

    def __init__(self, blocks: Iterator[NDArray[Any]]) -> None:
        self._blocks, self._rest = blocks, list[NDArray[Any]]()

    def take(self, count: int) -> NDArray[Any]:
        """Return the next rows; an error if the source has fewer."""
        while (missing := count - sum(map(len, self._rest))) > 0:
            block = next(self._blocks, None)
            if block is None:
                raise FileError(f"the source ends {missing} rows early; check the source.")
            self._rest.append(block)
        rows = np.concatenate(self._rest)
        self._rest = [rows[count:]]
        return rows[:count]
