"""Write the result of `graphtemper recalibrate` as .npz, .parquet or .csv."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper import errors
from graphtemper._core.files import check_folder
from graphtemper.errors import require

if TYPE_CHECKING:
    from graphtemper.recalibration import Recalibration


def check_path(out: Path) -> None:
    """Raise an error if no result can be written to ``out``, before anything is measured."""
    if out.suffix not in (".npz", ".parquet", ".csv"):
        raise errors.conflict(f"cannot write {out}; the result is an .npz, .parquet or .csv file.")
    if out.suffix == ".parquet":
        _pyarrow()


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Raise an error if a command would overwrite a file that it reads, or write one twice.

    The folders of its files have to exist, and pages need the extra [report].

    Parameters
    ----------
    outputs
        Files that are written, by option.
    inputs
        Files and folders of snapshots that are read; None is skipped.
    """
    read = [Path(os.path.realpath(source)) for source in inputs if source is not None]
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        check_folder(path)
        if option in ("--report", "--page"):
            from graphtemper.recalibration.report.html import check_extra, check_name

            check_name(path)
            check_extra()
        place = Path(os.path.realpath(path))
        if place in read or (place.exists() and set(read) & set(place.parents)):
            raise errors.conflict(f"{option} {path} is a file that is read; choose another path.")
        other = written.setdefault(place, option)
        if other != option:
            raise errors.conflict(f"{option} and {other} name the same file; choose two.")


def _pyarrow() -> Any:
    return require("scale", "a .parquet result", "pyarrow", "pyarrow.parquet")


def write(out: Path, result: Recalibration) -> None:
    """Write the probabilities, their nodes and the answer."""
    import json

    import numpy as np

    from graphtemper._core.files import atomic_write, write_npz

    if out.suffix == ".npz":
        accuracy = result.accuracy
        arrays: dict[str, Any] = {
            "temperature": np.array(result.temperature),
            "accuracy": np.array([accuracy.value, accuracy.low, accuracy.high]),
            "verdict": np.array(result.verdict),
        }
        names = ["probabilities", "nodes", "node_temperatures"]
        names += [] if result.logit_shift is None else ["class_shares", "logit_shift"]
        arrays |= {name: getattr(result, name) for name in names}
        write_npz(out, {name: value for name, value in arrays.items() if value is not None})
        return
    columns: dict[str, Any] = {"node": result.nodes}
    columns |= {f"probability_{k}": column for k, column in enumerate(result.probabilities.T)}
    if result.node_temperatures is not None:
        columns["temperature"] = result.node_temperatures
    with atomic_write(out) as stream:
        if out.suffix == ".csv":
            stream.write(f"{','.join(columns)}\n".encode())
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            stream.writelines(f"{','.join(map(repr, row))}\n".encode() for row in rows)
            return
        pyarrow = _pyarrow()
        facts = {"graphtemper": json.dumps(result.to_dict(), allow_nan=False)}
        table = pyarrow.table(columns).replace_schema_metadata(facts)
        pyarrow.parquet.write_table(table, stream, write_page_checksum=True)
