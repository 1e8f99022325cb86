"""Result directories: filled under a temporary name next to the result, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.files import atomic_write
from graphtemper.errors import FileError
from graphtemper.scale.engine import Engine, each
from graphtemper.scale.logit_tables import LogitParts
from graphtemper.scale.parquet import arrow


@contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a directory that gets its name on success.

    An existing file or directory is never replaced. After an error nothing is left; a killed
    process leaves ``.NAME.`` and eight digits, which may be removed.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "parts"
    >>> with atomic_directory(target) as draft:
    ...     _ = (draft / "one.txt").write_bytes(b"complete")
    >>> [item.name for item in target.iterdir()], len(list(target.parent.iterdir()))
    (['one.txt'], 1)
    """
    target = Path(path).absolute()
    if target.exists():
        raise errors.write(f"{target} exists already; choose another path, or remove it.")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        draft.mkdir(parents=True)
        yield draft
        for item in draft.glob(".*"):  # the partial file of a worker that died
            item.unlink()
        os.rename(draft, target)
    except FileError:
        raise
    except OSError as error:
        raise errors.write(f"cannot write {target}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


Calibrated = Callable[[FloatArray], FloatArray]
"""Returns probabilities of raw logits."""


def write_parts(
    engine: Engine, parts: LogitParts, probabilities: Calibrated, folder: Path
) -> float:
    """Write the probabilities of every part as one Parquet file; return mean confidence."""
    given = {"parts": parts, "probabilities": probabilities, "folder": folder}
    found = each(engine, parts, _write_part, **given)
    return float(sum(found)) / parts.num_nodes


def _write_part(part: int, *, parts: LogitParts, probabilities: Calibrated, folder: Path) -> float:
    found = ((nodes, probabilities(z)) for nodes, z in parts.batches(part))
    return write_probabilities(folder / parts.file_name(part), found)


def write_probabilities(path: Path, blocks: Iterable[tuple[NDArray[Any], FloatArray]]) -> float:
    """Write (nodes, probabilities) blocks as one Parquet file; return the sum of confidences.

    At least one block is needed, possibly without rows: a Parquet file has a schema.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "part.parquet"
    >>> write_probabilities(path, [(np.array([3]), np.array([[0.25, 0.75]]))])
    0.75
    >>> arrow("pyarrow.parquet").read_table(path).to_pydict()
    {'node': [3], 'probability_0': [0.25], 'probability_1': [0.75]}
    """
    confidence, writer, new = 0.0, None, arrow("pyarrow.parquet").ParquetWriter
    with atomic_write(path) as stream, ExitStack() as stack:
        for nodes, p in blocks:
            columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
            table, known = arrow().table({"node": nodes} | columns), {"write_page_checksum": True}
            writer = writer or stack.enter_context(new(stream, table.schema, **known))
            writer.write_table(table)
            confidence += float(p.max(axis=1, initial=0.0).sum())
    return confidence
