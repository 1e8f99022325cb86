"""Parquet files: finding them, opening, batches, and columns as arrays."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import require

Place = str | os.PathLike[str]
File = Path | str
"""A file of this machine, or the address of one in a store such as ``s3://bucket/part.parquet``."""
STORES = ("s3", "gs", "hdfs")
"""Schemes of addresses; those of ``file`` are paths."""
SECONDS = 60.0
"""A store that takes longer to answer one request is given up."""
# Numbers of nodes, features and logits need more room: a small file of more rows fills the memory.
_MOST_ROWS_PER_BYTE, _MOST_ROWS = 16, 10_000_000
Answer = TypeVar("Answer")


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow, or raise an error that says how to install it."""
    return require("scale", "Parquet", module)


def parquet_files(place: Place) -> list[File]:
    """Return a Parquet file, those of a directory, or those of a pattern, sorted by name.

    A place with ``file://`` is a path, and one with another of `STORES` an address, which pyarrow
    opens over the network. Names that start with a dot or an underscore are skipped, as Spark does.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("b.parquet", "a.parquet", "_log.parquet", "notes.txt"):
    ...     (folder / name).touch()
    >>> [file.name for file in parquet_files(f"{folder}/*.parquet")]
    ['a.parquet', 'b.parquet']
    >>> [file_name(file) for file in parquet_files(folder.as_uri())]
    ['a.parquet', 'b.parquet']
    """
    text, files = os.fspath(place), list[File]()
    if text.startswith("file://"):
        text = url2pathname(urlsplit(text).path)
    if "://" in text:
        files += _stored(text)
    else:
        pattern = glob.escape(text) if os.path.exists(text) else text
        found = glob.glob(os.path.join(pattern, "*.parquet") if os.path.isdir(text) else pattern)
        # Absolute, since workers may run in other directories.
        files += [Path(name).absolute() for name in found if os.path.isfile(name)]
    files = sorted(file for file in files if file_name(file)[0] not in "._")
    if not files:
        raise errors.damaged(f"{text} is no Parquet file, nor a folder or a pattern of some.")
    return files


def _stored(text: str) -> list[str]:
    """Return the addresses of the files at an address, which may end with a pattern of names."""
    scheme, _, rest = text.partition("://")
    if scheme not in STORES:
        raise errors.damaged(
            f"{text} is no place that can be read; give a path, or an address of file, "
            f"{', '.join(STORES)}."
        )
    folder, _, name = rest.rpartition("/")
    if name.endswith(".parquet") and not glob.has_magic(name):
        return [text]
    if not glob.has_magic(name):
        folder, name = rest, "*.parquet"
    try:
        system, inside = in_time(arrow("pyarrow.fs").FileSystem.from_uri, f"{scheme}://{folder}")
        found = in_time(system.get_file_info, arrow("pyarrow.fs").FileSelector(inside))
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise errors.damaged(f"{text} cannot be listed: {str(error).splitlines()[0]}.") from error
    return [f"{scheme}://{x.path}" for x in found if x.is_file and fnmatch(x.base_name, name)]


def in_time(call: Callable[..., Answer], *given: Any) -> Answer:
    """Return what a call of a store returns, or raise `TimeoutError` after `SECONDS`.

    Examples
    --------
    >>> in_time(max, 2, 3)
    3
    """
    done = SimpleQueue[tuple[bool, Any]]()

    def run() -> None:
        try:
            done.put((True, call(*given)))
        except Exception as error:
            done.put((False, error))

    # A thread, because nothing else ends a request that is never answered.
    Thread(target=run, daemon=True).start()
    try:
        fine, found = done.get(timeout=SECONDS)
    except Empty:
        raise TimeoutError(f"no answer within {SECONDS:g} seconds") from None
    if not fine:
        raise found
    return cast(Answer, found)


def file_name(file: File) -> str:
    """Return the last part of a path or an address."""
    return PurePosixPath(file).name


def open_parquet(file: File) -> Any:
    """Open a Parquet file."""
    try:
        new = partial(arrow("pyarrow.parquet").ParquetFile, page_checksum_verification=True)
        if isinstance(file, Path):
            open_regular(file).close()
            opened = new(file)
        else:
            system, path = in_time(arrow("pyarrow.fs").FileSystem.from_uri, file)
            opened = in_time(partial(new, path, filesystem=system))
        _ = opened.schema_arrow.names  # they may not be UTF-8
        return opened
    except TimeoutError as error:
        raise errors.unreadable(f"{file} cannot be read: {error}.") from error
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise errors.damaged(f"{file} is missing, truncated, damaged or not Parquet.") from error


@dataclass(frozen=True)
class Table:
    """Parquet files of one schema: a table, with its rows in the order of the files' names.

    Columns whose names begin with two underscores, as pandas and Dask call an index, are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pyarrow import parquet
    >>> place = Path(tempfile.mkdtemp())
    >>> for part in range(3):
    ...     rows = arrow().table({"x": [part, 5][: part + 1]})
    ...     parquet.write_table(rows, place / f"{part}.parquet")
    >>> table = Table.open(place)
    >>> table.columns, table.num_rows, [row for row, _ in table.batches(2, ["x"], 1)]
    (['x'], 5, [3, 4])
    """

    files: tuple[File, ...] = ()
    rows: tuple[int, ...] = ()
    schema: Any = None

    @classmethod
    def open(cls, place: Place) -> Table:
        """Find the files, and check that all of them have the same columns of the same types."""
        files = parquet_files(place)
        schemas, rows = zip(*map(_described, files), strict=True)
        # An empty file may have lost its types.
        first = next((part for part, count in enumerate(rows) if count), 0)
        for file, schema, count in zip(files, schemas, rows, strict=True):
            if schema != schemas[first] and (count or schema.names != schemas[first].names):
                one, other = ({f"{x.name}, {x.type}" for x in s} for s in (schema, schemas[first]))
                raise errors.table(
                    f"{file_name(file)} does not have the columns of {file_name(files[first])} "
                    f"({min(one ^ other, default='another order')}); give all parts one schema."
                )
        return cls(tuple(files), rows, schemas[first])

    def __len__(self) -> int:
        return len(self.files)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [] if self.schema is None else list(self.schema.names)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(self.rows)

    def batches(self, part: int, names: list[str], most_values: int) -> Iterator[tuple[int, Any]]:
        """Yield at least one batch of some columns of a file, and the number of its first row."""
        file, row, step = self.files[part], sum(self.rows[:part]), most_values // max(len(names), 1)
        if not self.rows[part]:
            yield row, arrow().RecordBatch.from_pylist([], schema=self.schema).select(names)
            return
        opened = open_parquet(file)
        try:
            found = opened.iter_batches(max(step, 1), columns=names, use_threads=False)
            following = partial(next, found, None)
            if isinstance(file, str):
                following = partial(in_time, following)
            while (batch := following()) is not None:
                yield row, batch
                row += batch.num_rows
        except TimeoutError as error:
            raise errors.unreadable(f"{file} cannot be read: {error}.") from error
        except (OSError, ValueError, arrow().ArrowException) as error:
            raise errors.damaged(f"{file} is truncated or damaged.") from error


def _described(file: File) -> tuple[Any, int]:
    """Return the schema and the number of rows of a file."""
    opened = open_parquet(file)
    kept = [item.remove_metadata() for item in opened.schema_arrow if item.name[:2] != "__"]
    rows = int(opened.metadata.num_rows)
    size = file.stat().st_size if isinstance(file, Path) else rows
    if rows > max(_MOST_ROWS_PER_BYTE * size, _MOST_ROWS):
        raise errors.oversize(
            f"{file} declares {rows:,} rows in {size:,} bytes; it is damaged, or made to fill the "
            "memory."
        )
    return arrow().schema(kept), rows


def to_numbers(batch: Any, name: str, file: File, kinds: str = "iu") -> NDArray[Any]:
    """Return a column of a batch as integers, or as numbers of other kinds of NumPy."""
    column = batch.column(name)
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    if column.null_count or values.dtype.kind not in kinds:
        what = "integers" if kinds == "iu" else "real numbers"
        raise errors.table(f"{file}: {name!r} must hold {what} without gaps, not {column.type}.")
    return values


def to_floats(batch: Any, names: list[str], file: File, dtype: Any = np.float64) -> NDArray[Any]:
    """Return columns of a batch as an (m, C) array of floats."""
    values = np.empty((batch.num_rows, len(names)), dtype)
    # The caller refuses any that is not finite.
    with np.errstate(invalid="ignore", over="ignore"):
        for position, name in enumerate(names):
            values[:, position] = to_numbers(batch, name, file, "fiub")
    return values
