"""Write the result of `graphtemper recalibrate` as .npz, .parquet or .csv."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from graphtemper.recalibration import Recalibration

_SNAPSHOTS = (".npz", ".npy", ".parquet", ".csv", ".safetensors")


def check_path(out: Path) -> None:
    """Raise an error if no result can be written to ``out``, before anything is measured."""
    if out.suffix not in (".npz", ".parquet", ".csv"):
        raise InputError(f"cannot write {out}; the result is an .npz, .parquet or .csv file.")
    if out.suffix == ".parquet":
        _pyarrow()


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Raise an error if a command would overwrite a file that it reads, or write one twice.

    Parameters
    ----------
    outputs
        Files that are written, by option.
    inputs
        Files, folders of snapshots, names of graphs and callables that are read; None is skipped.
    """
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for source in inputs:
            if source is not None and _is_read(path, _located(source)):
                raise InputError(f"{option} {path} is a file that is read; choose another path.")
        place = path.resolve()
        if place in written:
            raise InputError(f"{option} and {written[place]} name the same file; choose two.")
        written[place] = option


def _located(source: str | os.PathLike[str]) -> Path:
    from graphtemper.graph import datasets

    name = os.fspath(source)
    if name in datasets.CATALOGUE:
        return datasets.find(name) or Path(name)
    if ":" in name and not os.path.exists(name):
        return Path(*name.partition(":")[0].split(".")).with_suffix(".py")
    return Path(name)


def _is_read(path: Path, source: Path) -> bool:
    """Return whether a path names a file that is read, or a snapshot in a folder that is."""
    try:
        if source.is_dir():
            return path.exists() and any(map(path.samefile, _snapshot_files(source)))
        return path.resolve() == source.resolve() or path.samefile(source)
    except (OSError, ValueError, RuntimeError):  # one does not exist, or is not a path
        return False


def _snapshot_files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        paths = (os.path.join(place, name) for name in names if name.endswith(_SNAPSHOTS))
        yield from filter(os.path.exists, paths)


def check_report(report: Path) -> None:
    """Raise an error if no report can be written, before anything is measured."""
    from graphtemper.recalibration.report.html import check_extra, check_name

    check_name(report)
    check_extra()


def _pyarrow() -> Any:
    from importlib import import_module

    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(
            "a .parquet result needs pyarrow; run pip install pyarrow, or write an .npz or .csv."
        ) from error


def write(out: Path, result: Recalibration) -> None:
    """Write the probabilities, their nodes and the answer."""
    import numpy as np

    from graphtemper._core.files import atomic_write, write_npz

    nodes = np.asarray(result.nodes, dtype=np.int64)
    if out.suffix == ".npz":
        accuracy = result.accuracy
        arrays: dict[str, Any] = {
            "probabilities": result.probabilities,
            "nodes": nodes,
            "temperature": np.array(result.temperature),
            "accuracy": np.array([accuracy.value, accuracy.low, accuracy.high]),
            "verdict": np.array(result.verdict),
        }
        if result.node_temperatures is not None:
            arrays["node_temperatures"] = result.node_temperatures
        if result.class_shares is not None and result.logit_shift is not None:
            arrays |= {"class_shares": result.class_shares, "logit_shift": result.logit_shift}
        write_npz(out, arrays)
        return
    columns = {"node": nodes} | {
        f"probability_{k}": column for k, column in enumerate(result.probabilities.T)
    }
    if result.node_temperatures is not None:
        columns["temperature"] = result.node_temperatures
    if out.suffix == ".csv":
        with atomic_write(out) as stream:
            stream.write(f"{','.join(columns)}\n".encode())
            for row in zip(*(column.tolist() for column in columns.values()), strict=True):
                stream.write(f"{','.join(map(repr, row))}\n".encode())
        return
    import json

    pyarrow = _pyarrow()
    facts = {"graphtemper": json.dumps(result.to_dict(), allow_nan=False)}
    table = pyarrow.table(columns).replace_schema_metadata(facts)
    with atomic_write(out) as stream:
        pyarrow.parquet.write_table(table, stream, write_page_checksum=True)
