"""Probabilities as Parquet: one file a shard, each written whole, in a directory that is too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.files import atomic_write_in_place
from graphtemper.recalibration.job import keep_argmax
from graphtemper.scale.answering import ANSWER, ShardedRecalibration
from graphtemper.scale.conversion.tables import arrow


def probabilities(logits: FloatArray, relative: float) -> FloatArray:
    """Return softmax(logits / T) with every row's prediction on top, as `recalibrate` does."""
    return keep_argmax(temperatures.apply(logits, relative), logits.argmax(axis=1))


def write_part(path: Path, parts: Iterable[tuple[NDArray[Any], FloatArray]]) -> float:
    """Write (nodes, probabilities) pieces as one Parquet file; return the sum of top probabilities.

    At least one piece, which may have no rows: a file without a schema is not Parquet.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "part.parquet"
    >>> write_part(path, [(np.array([3]), np.array([[0.25, 0.75]]))])
    0.75
    >>> arrow("pyarrow.parquet").read_table(path).to_pydict()
    {'node': [3], 'probability_0': [0.25], 'probability_1': [0.75]}
    """
    pyarrow, parquet = arrow(), arrow("pyarrow.parquet")
    writer, top = None, 0.0
    with atomic_write_in_place(path) as stream:
        try:
            for nodes, p in parts:
                columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
                table = pyarrow.table({"node": nodes} | columns)
                if writer is None:
                    writer = parquet.ParquetWriter(stream, table.schema)
                writer.write_table(table)
                top += float(p.max(axis=1).sum())
        finally:
            if writer is not None:
                writer.close()
    return top


def check_parquet() -> None:
    """Refuse to start without pyarrow: now, not after an hour of measuring."""
    arrow("pyarrow.parquet")


def write_answer(folder: Path, found: ShardedRecalibration) -> None:
    """Write the answer beside the parts."""
    with atomic_write_in_place(folder / ANSWER) as stream:
        stream.write((json.dumps(found.to_dict(), indent=1) + "\n").encode("utf-8"))
