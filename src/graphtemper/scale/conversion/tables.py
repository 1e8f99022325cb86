"""Input tables, read in blocks: edges and features as text, ``.npy`` or Parquet."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.files import open_array
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError, InputError
from graphtemper.scale.storage.parquet import (
    arrow,
    check_footer,
    check_same_columns,
    empty_table,
    open_parquet,
    parquet_files,
    to_floats,
)

ROWS_AT_ONCE = 1_000_000
"""Edges, or values of a feature table, that are read at a time."""
_TEXT_BLOCK = 1 << 24
_LINE_CHUNK = 10_000
_SPACES = (
    "has a space at the start of a line, or two between numbers; separate them by one space, a "
    "comma or a tab."
)
_NODE = "node"
# Common names for the two ends of an edge.
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))

# Columns that a model could read; others are taken for bookkeeping.
_ATTRIBUTES = ("weight", "edge_weight", "type", "edge_type")


def read_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    r"""Yield the edges of a table as (m, 2) arrays.

    A text file holds integers, quoted or not, separated by a comma, a tab or one space. Lines at
    the top that start with # or % are skipped, and one line of column names may follow. With two
    columns, these are the ends of the edges. With more, the ends are the columns named ``source``
    and ``target``, ``src`` and ``dst``, or ``from`` and ``to``; a table without such names is
    refused, because any other choice could give a different graph. So is a column ``weight``,
    ``edge_weight``, ``type`` or ``edge_type``, which shards do not hold.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "edges.csv"
    >>> _ = path.write_text("# a triangle\nsource,target\n0,1\n1,2\n2,0\n")
    >>> [edges.tolist() for edges in read_edges(path)]
    [[[0, 1], [1, 2], [2, 0]]]
    """
    if path.is_dir() or path.suffix == ".parquet":
        return _parquet_edges(path)
    return _text_edges(path)


def _parquet_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    for part in parquet_files(path):
        file = open_parquet(part)
        names = file.schema_arrow.names
        end_names = [names[position] for position in _end_columns(names, part)]
        _to_pairs(empty_table(file, end_names), part)
        for batch in _batches(file, part, end_names, ROWS_AT_ONCE):
            yield _to_pairs(batch, part)


def _end_columns(names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return the positions of the two columns that hold the ends of the edges."""
    lower = [name.strip().lower() for name in names]
    lost = [name for name in lower if name in _ATTRIBUTES]
    if lost:
        raise FileError(
            f"{path} has a column {lost[0]!r}, and shards do not hold attributes of edges; remove "
            "the column if your model does not read it."
        )
    for first, second in _END_NAMES:
        if lower.count(first) == 1 and lower.count(second) == 1:
            return lower.index(first), lower.index(second)
    if len(names) == 2:
        return 0, 1
    if len(names) < 2:
        raise FileError(f"{path} has one column; edges need two, source and target.")
    raise FileError(
        f"{path} has {len(names)} columns, none of which are named source and target; name the two "
        "ends of an edge so, or keep only these columns."
    )


def _batches(file: Any, path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    check_footer(path, dict.fromkeys(columns, 1))
    try:
        yield from file.iter_batches(batch_size=rows, columns=columns)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise FileError(f"{path} is truncated or damaged.") from error


def _text_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    csv = arrow("pyarrow.csv")
    num_comments, delimiter, cells = _text_layout(path)
    header = _is_header(cells)
    ends = list(_end_columns(cells if header else [""] * len(cells), path))
    try:
        reader = csv.open_csv(
            path,
            csv.ReadOptions(
                skip_rows=num_comments + header,
                autogenerate_column_names=True,
                block_size=_TEXT_BLOCK,
            ),
            csv.ParseOptions(delimiter=delimiter),
        )
        for batch in reader:
            if batch.num_columns < 2:
                raise FileError(f"{path} does not hold two numbers per line.")
            batch = batch.select(ends)
            if delimiter == " " and any(column.null_count for column in batch.columns[:2]):
                raise FileError(f"{path} {_SPACES}")
            yield _to_pairs(batch, path)
    except FileError:
        raise
    except (OSError, ValueError, arrow().ArrowException) as error:
        message = " ".join(str(error).split())[:200].rstrip(".")
        raise FileError(f"{path} cannot be read as a list of edges: {message}.") from error


def _text_layout(path: Path) -> tuple[int, str, list[str]]:
    """Return the number of comment lines, the delimiter, and the cells of the first data line."""
    num_comments, in_comment = 0, False
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig") as stream:
            # A line may be longer than a chunk; it is counted where it ends.
            for chunk in iter(lambda: stream.readline(_LINE_CHUNK), ""):
                in_comment = in_comment or chunk.startswith(("#", "%"))
                if chunk.strip() and not in_comment:
                    return num_comments, *_split_line(chunk.rstrip(), path)
                if chunk.endswith("\n"):
                    num_comments, in_comment = num_comments + 1, False
    except FileError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} is not a text file.") from error
    raise FileError(f"{path} holds no edges.")


def _split_line(line: str, path: Path) -> tuple[str, list[str]]:
    """Return the delimiter of a line and its cells."""
    delimiter = next((mark for mark in (",", "\t", " ") if mark in line.strip()), "")
    if not delimiter:
        raise FileError(f"{path} does not hold two numbers per line.")
    cells = [cell.strip(" \"'") for cell in line.split(delimiter)]
    if delimiter == " " and "" in cells:
        raise FileError(f"{path} {_SPACES}")
    return delimiter, cells


def _is_header(cells: Sequence[str]) -> bool:
    # Other cells that are not numbers count as data: they are refused when read, never dropped.
    return all(re.match(r"[^\d.+-]*[^\W\d_]", cell) for cell in cells)


def _to_pairs(batch: Any, path: Path) -> NDArray[np.int64]:
    types = arrow("pyarrow.types")
    columns = []
    for name, column in zip(batch.schema.names[:2], batch.columns[:2], strict=True):
        if not types.is_integer(column.type) or column.null_count:
            raise FileError(
                f"{path}: column {name!r} must hold integers without gaps, not {column.type}."
            )
        ends = column.to_numpy(zero_copy_only=False).astype(np.int64)
        if ends.size and ends.min() < 0:
            raise FileError(
                f"{path} names the node {ends.min()}; number nodes from 0, by their row in the "
                "features."
            )
        columns.append(ends)
    return np.column_stack(columns)


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
        return _array_features(path)
    if not path.is_dir() and path.suffix != ".parquet":
        raise InputError(f"{path} is not a feature table; use an .npy, or Parquet.")
    files = parquet_files(path)
    names = open_parquet(files[0]).schema_arrow.names
    feature_names = [name for name in names if name != _NODE]
    if not feature_names:
        raise FileError(f"{files[0]} has no column of features.")
    check_same_columns(files, names)
    rows = sum(check_footer(file, dict.fromkeys(feature_names, 1)) for file in files)
    return FeatureTable(rows, len(feature_names), lambda: _parquet_features(files, feature_names))


def _array_features(path: Path) -> FeatureTable:
    array = open_array(path, "features")
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise FileError(f"{path} must hold an (N, F) array of real numbers.")
    rows, width = array.shape
    step = max(ROWS_AT_ONCE // max(width, 1), 1)

    def blocks() -> Iterator[NDArray[Any]]:
        for start in range(0, rows, step):
            yield array[start : start + step]

    return FeatureTable(rows, width, blocks)


def _parquet_features(files: list[Path], feature_names: list[str]) -> Iterator[NDArray[Any]]:
    step, row = max(ROWS_AT_ONCE // len(feature_names), 1), 0
    for path in files:
        file = open_parquet(path)
        numbered = _NODE in file.schema_arrow.names
        columns = [*feature_names, *([_NODE] if numbered else [])]
        to_floats(empty_table(file, columns), columns, path)
        for batch in _batches(file, path, columns, step):
            if numbered:
                nodes = batch.column(_NODE).to_numpy(zero_copy_only=False)
                if not np.array_equal(nodes, np.arange(row, row + len(nodes))):
                    raise FileError(f"{path}: the column node must number the rows; sort by it.")
            yield to_floats(batch, feature_names, path)
            row += batch.num_rows
