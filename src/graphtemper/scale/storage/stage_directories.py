"""Where the stages of a run are: in the hidden folder of its result, or in a room elsewhere.

A room is remembered in the hidden folder (`graphtemper.scale.storage.output_directory`) for as
long as there are stages in it, so that the next run for the same result removes them: after a kill,
and where another room, or none, is named.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from graphtemper._core.files import atomic_write_in_place

_BESIDE, _NOTE = "stages-", "elsewhere"


def stages_folder(hidden: Path, room: str | os.PathLike[str] | None, name: str) -> Path:
    """Return the folder for the stages of a named run, and remove those of others for its result.

    It is in the hidden folder of the result, which the caller holds, or in ``room``, under a name
    that says which result it is for.

    Examples
    --------
    >>> import tempfile
    >>> hidden = Path(tempfile.mkdtemp())
    >>> (hidden / "stages-old").mkdir()
    >>> stages_folder(hidden, None, "new").name, list(hidden.iterdir())
    ('stages-new', [])
    """
    homes = {hidden: _BESIDE}
    if room is not None:
        homes[Path(room).absolute()] = _prefix(hidden)
    home, prefix = list(homes.items())[-1]
    mine = home / f"{prefix}{name}"
    for place, begin in homes.items():
        for item in place.iterdir() if place.is_dir() else ():
            if item.name.startswith(begin) and item != mine:
                shutil.rmtree(item, ignore_errors=True)
    if _noted(hidden) != mine:
        clear_room(hidden)
        if room is not None:
            with atomic_write_in_place(hidden / _NOTE) as stream:
                stream.write(os.fsencode(mine))
    return mine


def clear_room(hidden: Path) -> None:
    """Remove the stages that a result has elsewhere.

    Examples
    --------
    >>> import tempfile
    >>> hidden, room = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> stages_folder(hidden, room, "run").mkdir()
    >>> clear_room(hidden)
    >>> list(hidden.iterdir()), list(room.iterdir())
    ([], [])
    """
    noted = _noted(hidden)
    if noted is not None:
        shutil.rmtree(noted, ignore_errors=True)
    forget_room(hidden)


def forget_room(hidden: Path) -> None:
    """Forget a room where no stages are left."""
    noted = _noted(hidden)
    if noted is None or not noted.exists():
        (hidden / _NOTE).unlink(missing_ok=True)


def _noted(hidden: Path) -> Path | None:
    """Return the remembered folder; a note that names anything but stages of this result is void.

    It says what is to be removed, so nothing else is taken from it.
    """
    try:
        found = Path(os.fsdecode((hidden / _NOTE).read_bytes()))
    except OSError:
        return None
    return found if found.is_absolute() and found.name.startswith(_prefix(hidden)) else None


def _prefix(hidden: Path) -> str:
    """Return how stages elsewhere begin: results of one name in other folders may share a room."""
    return f"{hidden.name}-{hashlib.sha256(os.fsencode(hidden)).hexdigest()[:8]}-"
