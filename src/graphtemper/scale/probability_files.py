"""Result files: probabilities as one Parquet file per shard, and the answer as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.files import atomic_write_in_place
from graphtemper.scale.answering import ANSWER, ShardedRecalibration
from graphtemper.scale.storage.parquet import arrow


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
    pyarrow, parquet = arrow(), arrow("pyarrow.parquet")
    writer, confidence = None, 0.0
    with atomic_write_in_place(path) as stream:
        try:
            for nodes, p in blocks:
                columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
                table = pyarrow.table({"node": nodes} | columns)
                if writer is None:
                    writer = parquet.ParquetWriter(stream, table.schema, write_page_checksum=True)
                writer.write_table(table)
                confidence += float(p.max(axis=1).sum())
        finally:
            if writer is not None:
                writer.close()
    return confidence


def require_parquet() -> None:
    """Raise an error if pyarrow is missing, before any long computation."""
    arrow("pyarrow.parquet")


def write_answer(folder: Path, result: ShardedRecalibration) -> None:
    """Write the answer next to the probabilities."""
    with atomic_write_in_place(folder / ANSWER) as stream:
        text = json.dumps(result.to_dict(), indent=1, allow_nan=False)
        stream.write(f"{text}\n".encode())
