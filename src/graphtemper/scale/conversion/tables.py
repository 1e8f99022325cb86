"""Tables on disk, read a piece at a time: edges and features as text, ``.npy`` or Parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.files import open_array
from graphtemper.errors import FileError, InputError, MissingExtraError
from graphtemper.scale.storage.parquet import check_footer

ROWS_AT_ONCE = 1_000_000
"""Edges, or numbers of a feature table, that are read together."""
_TEXT_BLOCK = 1 << 24
_PIECE = 10_000
_SPACES = (
    "has a space at the start of a line, or two between numbers; separate them by one space, a "
    "comma or a tab."
)
_NODE = "node"
# Names of the two ends of an edge that are in use.
_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            "Parquet and text tables need pyarrow; run pip install 'graphtemper[scale]'."
        ) from error


def parquet_files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a directory in the order of their names.

    Files whose names start with a dot or an underscore are not data, as Spark has it.
    """
    if path.is_file():
        return [path]
    inside = (p for p in path.glob("*.parquet") if p.name[0] not in "._")
    found = sorted(p for p in inside if not os.path.isdir(p))
    if not found:
        raise FileError(f"{path} is neither a Parquet file nor a directory of them.")
    return found


def parquet_file(path: Path, listed: Sequence[str] = ()) -> Any:
    """Open a Parquet file; damage is one sentence.

    Different texts of the columns that are to be ``listed`` are read once each.
    """
    try:
        return arrow("pyarrow.parquet").ParquetFile(path, read_dictionary=list(listed) or None)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise FileError(f"{path} is missing, truncated or not Parquet.") from error


def read_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    r"""Yield the edges of a table as (m, 2) arrays.

    Text has whole numbers, separated by a comma, a tab or one space, and quoted or not; lines at
    the top that start with # or % are skipped, and one line of names may follow them. Two columns
    are the ends of edges. Of more, those named ``source`` and ``target``, ``src`` and ``dst`` or
    ``from`` and ``to`` are; a table of more columns without such names is refused, because any
    other two would make another graph.

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
        file = parquet_file(part)
        names = file.schema_arrow.names
        wanted = [names[place] for place in _ends(names, part)]
        _pairs(no_rows(file, wanted), part)
        for batch in _batches(file, part, wanted, ROWS_AT_ONCE):
            yield _pairs(batch, part)


def _ends(names: Sequence[str], path: Path) -> tuple[int, int]:
    """Return which two of the columns are the ends of edges."""
    known = [name.strip().lower() for name in names]
    for first, second in _ENDS:
        if known.count(first) == 1 and known.count(second) == 1:
            return known.index(first), known.index(second)
    if len(names) == 2:
        return 0, 1
    if len(names) < 2:
        raise FileError(f"{path} has one column; edges need two, source and target.")
    raise FileError(
        f"{path} has {len(names)} columns, none of which are named source and target; name the two "
        "ends of an edge so, or keep these columns alone."
    )


def no_rows(file: Any, columns: list[str]) -> Any:
    """Return some columns without rows: types are checked before anything is unpacked."""
    return file.schema_arrow.empty_table().select(columns)


def _batches(file: Any, path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    check_footer(file, path, dict.fromkeys(columns, 1))
    try:
        yield from file.iter_batches(batch_size=rows, columns=columns)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise FileError(f"{path} is truncated or damaged.") from error


def _text_edges(path: Path) -> Iterator[NDArray[np.int64]]:
    csv = arrow("pyarrow.csv")
    skipped, delimiter, names = _text_layout(path)
    header = _is_header(names)
    ends = list(_ends(names if header else [""] * len(names), path))
    try:
        reader = csv.open_csv(
            path,
            csv.ReadOptions(
                skip_rows=skipped + header, autogenerate_column_names=True, block_size=_TEXT_BLOCK
            ),
            csv.ParseOptions(delimiter=delimiter),
        )
        for batch in reader:
            if batch.num_columns < 2:
                raise FileError(f"{path} does not hold two numbers a line.")
            batch = batch.select(ends)
            if delimiter == " " and any(column.null_count for column in batch.columns[:2]):
                raise FileError(f"{path} {_SPACES}")
            yield _pairs(batch, path)
    except FileError:
        raise
    except (OSError, ValueError, arrow().ArrowException) as error:
        told = " ".join(str(error).split())[:200].rstrip(".")
        raise FileError(f"{path} cannot be read as a list of edges: {told}.") from error


def _text_layout(path: Path) -> tuple[int, str, list[str]]:
    """Return how many comment lines there are, what separates cells, and those of the next line."""
    skipped, comment = 0, False
    try:
        with path.open("r", encoding="utf-8-sig") as stream:
            # A line may be longer than a piece; it counts where it ends.
            for piece in iter(lambda: stream.readline(_PIECE), ""):
                comment = comment or piece.startswith(("#", "%"))
                if piece.strip() and not comment:
                    return skipped, *_cells(piece.rstrip(), path)
                if piece.endswith("\n"):
                    skipped, comment = skipped + 1, False
    except FileError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} is missing or not a text file.") from error
    raise FileError(f"{path} holds no edges.")


def _cells(line: str, path: Path) -> tuple[str, list[str]]:
    mark = next((mark for mark in (",", "\t", " ") if mark in line.strip()), "")
    if not mark:
        raise FileError(f"{path} does not hold two numbers a line.")
    cells = [cell.strip(" \"'") for cell in line.split(mark)]
    if mark == " " and "" in cells:
        raise FileError(f"{path} {_SPACES}")
    return mark, cells


def _is_header(cells: Sequence[str]) -> bool:
    # Anything else that is no number is data: it is refused where it is read, never dropped.
    return all(re.match(r"[^\d.+-]*[^\W\d_]", cell) for cell in cells)


def _pairs(batch: Any, path: Path) -> NDArray[np.int64]:
    types = arrow("pyarrow.types")
    columns = []
    for name, column in zip(batch.schema.names[:2], batch.columns[:2], strict=True):
        if not types.is_integer(column.type) or column.null_count:
            raise FileError(
                f"{path}: column {name!r} must hold whole numbers without gaps, not {column.type}."
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
    """Dense features on disk: how many, and a function that yields them in blocks of rows."""

    num_nodes: int
    num_features: int
    blocks: Callable[[], Iterator[NDArray[Any]]]


def read_features(path: Path) -> FeatureTable:
    """Open a feature table: an (N, F) ``.npy``, or Parquet with one column a feature.

    Row i belongs to node i. A Parquet column ``node`` is not a feature; it must count the rows.

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
            raise FileError(f"{path} must hold an (N, F) array of real numbers.")
        step = max(ROWS_AT_ONCE // max(array.shape[1], 1), 1)
        rows, width = array.shape

        def mapped() -> Iterator[NDArray[Any]]:
            for start in range(0, rows, step):
                yield array[start : start + step]

        return FeatureTable(rows, width, mapped)
    if not path.is_dir() and path.suffix != ".parquet":
        raise InputError(f"{path} is no feature table; use an .npy, or Parquet.")
    files = parquet_files(path)
    names = parquet_file(files[0]).schema_arrow.names
    wanted = [name for name in names if name != _NODE]
    if not wanted:
        raise FileError(f"{files[0]} has no column of features.")
    check_same_columns(files, names)
    rows = sum(parquet_file(part).metadata.num_rows for part in files)
    return FeatureTable(rows, len(wanted), lambda: _parquet_features(files, wanted))


def check_same_columns(files: list[Path], names: list[str]) -> None:
    """Refuse Parquet files that do not all have the columns of the first."""
    for part in files[1:]:
        found = parquet_file(part).schema_arrow.names
        if found != names:
            odd = sorted(set(found) ^ set(names)) or ["another order"]
            raise FileError(
                f"{part.name} does not have the columns of {files[0].name} ({odd[0]}); do not mix "
                "tables of different schema."
            )


def _parquet_features(files: list[Path], wanted: list[str]) -> Iterator[NDArray[Any]]:
    step, row = max(ROWS_AT_ONCE // len(wanted), 1), 0
    for part in files:
        file = parquet_file(part)
        counted = _NODE in file.schema_arrow.names
        columns = [*wanted, *([_NODE] if counted else [])]
        numbers(no_rows(file, columns), columns, part)
        for batch in _batches(file, part, columns, step):
            if counted:
                nodes = batch.column(_NODE).to_numpy(zero_copy_only=False)
                if not np.array_equal(nodes, np.arange(row, row + len(nodes))):
                    raise FileError(f"{part}: the column node must count the rows; sort by it.")
            yield numbers(batch, wanted, part)
            row += batch.num_rows


def numbers(batch: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    """Return some columns of a batch as an (m, C) array of floats."""
    types = arrow("pyarrow.types")
    out = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column = batch.column(name)
        real = types.is_floating(column.type) or types.is_integer(column.type)
        if not (real or types.is_boolean(column.type)) or column.null_count:
            raise FileError(
                f"{path}: column {name!r} must hold real numbers without gaps, not {column.type}."
            )
        out[:, place] = column.to_numpy(zero_copy_only=False)
    return out


def are_lists_of_numbers(kind: Any) -> bool:
    """Whether an Arrow type is that of lists of numbers."""
    types = arrow("pyarrow.types")
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def is_text(field: Any) -> bool:
    """Whether an Arrow field holds text or bytes."""
    types, kind = arrow("pyarrow.types"), field.type
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)
