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

_SNAPSHOTS = (".npz", ".npy", ".parquet", ".csv")


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

    The folders of its files have to exist.

    Parameters
    ----------
    outputs
        Files that are written, by option.
    inputs
        Files, folders of snapshots and callables that are read; None is skipped.
    """
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        check_folder(path)
        if any(source is not None and _is_read(path, _located(source)) for source in inputs):
            raise errors.conflict(f"{option} {path} is a file that is read; choose another path.")
        other = written.setdefault(path.resolve(), option)
        if other != option:
            raise errors.conflict(f"{option} and {other} name the same file; choose two.")


def _located(source: str | os.PathLike[str]) -> Path:
    name = os.fspath(source)
    if ":" in name and not os.path.exists(name):
        return Path(*name.partition(":")[0].split(".")).with_suffix(".py")
    return Path(name)


def _is_read(path: Path, source: Path) -> bool:
    """Return whether a path names a file that is read, or a snapshot in a folder that is."""
    place, origin = Path(os.path.realpath(path)), Path(os.path.realpath(source))
    snapshot = place.suffix in _SNAPSHOTS and place.exists() and origin in place.parents
    same = place.exists() and origin.exists() and place.samefile(origin)
    return place == origin or snapshot or same


def check_report(report: Path) -> None:
    """Raise an error if no report can be written, before anything is measured."""
    from graphtemper.recalibration.report.html import check_extra, check_name

    check_name(report)
    check_extra()


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
