"""Result directories: filled under a temporary name next to the result, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graphtemper import errors
from graphtemper.errors import FileError


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
