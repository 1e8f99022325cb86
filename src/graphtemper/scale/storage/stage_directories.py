"""Directories for the stages of a run: next to its result, or in another workspace.

The path of a stage directory in another workspace is recorded next to the result
(`graphtemper.scale.storage.output_directory`) for as long as the directory exists. The next run for
the same result can then remove it, also after a kill or when it uses another workspace.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from graphtemper._core.files import atomic_write_in_place
from graphtemper._core.safe_reading import read_bytes

_PREFIX, _RECORD = "stages-", "elsewhere"


def stage_directory(working: Path, workspace: str | os.PathLike[str] | None, run_name: str) -> Path:
    """Return the stage directory of a run and remove those of other runs for the same result.

    Parameters
    ----------
    working
        The working directory of the result, locked by the caller.
    workspace
        Another directory for the stages (default: ``working``). The name of a stage directory in
        it identifies the result, because several results may share a workspace.
    run_name
        Name of the run.

    Examples
    --------
    >>> import tempfile
    >>> working = Path(tempfile.mkdtemp())
    >>> (working / "stages-old").mkdir()
    >>> stage_directory(working, None, "new").name, list(working.iterdir())
    ('stages-new', [])
    """
    parents = {working: _PREFIX}
    if workspace is not None:
        parents[Path(workspace).absolute()] = _external_prefix(working)
    parent, prefix = list(parents.items())[-1]
    directory = parent / f"{prefix}{run_name}"
    for place, beginning in parents.items():
        for item in place.iterdir() if place.is_dir() else ():
            if item.name.startswith(beginning) and item != directory:
                shutil.rmtree(item, ignore_errors=True)
    if _recorded(working) != directory:
        remove_external_stages(working)
        if workspace is not None:
            with atomic_write_in_place(working / _RECORD) as stream:
                stream.write(os.fsencode(directory))
    return directory


def remove_external_stages(working: Path) -> None:
    """Remove the stages that a result has in another workspace.

    Examples
    --------
    >>> import tempfile
    >>> working, workspace = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> stage_directory(working, workspace, "run").mkdir()
    >>> remove_external_stages(working)
    >>> list(working.iterdir()), list(workspace.iterdir())
    ([], [])
    """
    directory = _recorded(working)
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
    drop_stale_record(working)


def drop_stale_record(working: Path) -> None:
    """Remove the record of a stage directory that does not exist any more."""
    directory = _recorded(working)
    if directory is None or not directory.exists():
        (working / _RECORD).unlink(missing_ok=True)


def _recorded(working: Path) -> Path | None:
    """Return the recorded stage directory, or None.

    The record names a directory to be deleted, so it is ignored unless its name is one that
    `stage_directory` gives to this result.
    """
    try:
        directory = Path(os.fsdecode(read_bytes(working / _RECORD, 100_000)))
    except OSError:
        return None
    valid = directory.is_absolute() and directory.name.startswith(_external_prefix(working))
    return directory if valid else None


def _external_prefix(working: Path) -> str:
    # Results of the same name in different directories may share a workspace.
    return f"{working.name}-{hashlib.sha256(os.fsencode(working)).hexdigest()[:8]}-"
