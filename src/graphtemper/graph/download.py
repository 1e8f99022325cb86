"""Fetch one file over HTTP: checked by content, resumed after a break, safe for two at once.

What has arrived is kept in ``FILE.part`` and never seen under its final name before its git blob
id is right. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NoReturn
from urllib.parse import urlsplit

from graphtemper._core.file_lock import try_lock
from graphtemper.errors import FileError, InputError

Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
# No graph that is fetched is near this; a server that never stops must not fill the disk.
_LARGEST = 1 << 30
# Time-out, too many requests and trouble inside the server pass; other refusals are final.
_PASSING = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server: seconds without data, tries, and the first pause between.

    The pause doubles after every try.
    """

    timeout: float = 30.0
    attempts: int = 5
    pause: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.timeout < float("inf") and self.attempts >= 1 and self.pause >= 0):
            raise InputError(
                "timeout must be positive, attempts 1 or more and pause 0 or more, not "
                f"{self.timeout}, {self.attempts} and {self.pause}."
            )


def git_blob_id(path: str | os.PathLike[str]) -> str:
    r"""Return the id that git gives to a file's content: sha1 of ``blob SIZE\0CONTENT``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "empty"
    >>> _ = path.write_bytes(b"")
    >>> git_blob_id(path)
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    with open(path, "rb") as stream:
        digest = hashlib.sha1(b"blob %d\0" % os.fstat(stream.fileno()).st_size)
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def download(
    url: str,
    part: Path,
    blob_id: str,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> None:
    """Bring ``part`` to the content whose git blob id is given, going on from what it holds.

    A break, a stall or a passing refusal of the server is tried again, and keeps what arrived.
    Content that is wrong is deleted: after a resumed transfer the file is fetched once more from
    the start, and content that is wrong from the start raises `FileError`.

    Parameters
    ----------
    url : str
        An http or https address.
    part : Path
        The file that grows; the caller moves it to its place.
    blob_id : str
        Git blob id of the right content.
    progress : callable, optional
        Called with the bytes that are here and the total, None where the server does not say.
    patience : Patience, optional
        Time-out, number of tries and pause.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise InputError(f"{url!r} is not an http or https address.")
    patience = patience or Patience()
    failures = 0
    while not (_size(part) and git_blob_id(part) == blob_id):
        resumed = _size(part) > 0
        try:
            _transfer(url, part, patience.timeout, progress)
        except _BrokenError as error:
            failures += 1
            if failures == patience.attempts:
                raise FileError(f"{error} ({failures} tries at {url}); try again later.") from error
            time.sleep(patience.pause * 2 ** (failures - 1))
            continue
        if git_blob_id(part) == blob_id:
            return
        part.unlink()
        if not resumed:
            raise FileError(
                f"{url} does not have the published content (git blob {blob_id}) and was deleted; "
                "try again later or set GRAPHTEMPER_MIRROR to another server."
            )


class _BrokenError(Exception):
    """A transfer that did not finish but may when tried again."""


def _transfer(url: str, part: Path, timeout: float, progress: Progress | None) -> None:
    """Make one request and write its body at the end of ``part`` (or over it)."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    have = _size(part)
    # Compression on the way would make byte ranges and lengths meaningless.
    headers = {"Accept-Encoding": "identity", "User-Agent": "graphtemper"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        ) as response:
            start, total = _extent(response, have)
            with _open(part, "ab" if start else "wb") as stream:
                for done in _copy(response, stream, start, part):
                    if progress is not None:
                        progress(done, total)
    except urllib.error.HTTPError as error:
        _refused(error, url, part)
    except FileError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise _BrokenError(f"{host} sent nothing for {timeout:g} s") from error
        what = str(reason) or type(reason).__name__
        raise _BrokenError(f"the connection to {host} failed: {what}") from error
    if total is not None and _size(part) < total:
        raise _BrokenError(f"{host} closed the connection after {_size(part)} of {total} bytes")


def _extent(response: http.client.HTTPResponse, have: int) -> tuple[int, int | None]:
    """Return where the body starts in the file, and the length of the whole file if told."""
    length = response.headers.get("Content-Length", "")
    rest = int(length) if length.isdecimal() else None
    if response.status != 206:
        return 0, rest
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != have:
        raise FileError(f"{response.url} answered with another part of the file than asked for.")
    if match[2] != "*":
        return have, int(match[2])
    return have, None if rest is None else have + rest


def _copy(
    response: http.client.HTTPResponse, stream: IO[bytes], start: int, part: Path
) -> Iterator[int]:
    """Write chunks as they come and yield the size so far.

    ``read1`` returns what there is, so a stall is noticed per packet and progress stays smooth.
    """
    done = start
    yield done
    while chunk := response.read1(_CHUNK):
        done += len(chunk)
        if done > _LARGEST:
            stream.truncate(0)
            raise FileError(f"{response.url} sends more than {_LARGEST >> 20} MB; stopped.")
        try:
            stream.write(chunk)
            stream.flush()
        except OSError as error:
            raise FileError(f"cannot write {part}: {error.strerror or error}.") from error
        yield done


def _refused(error: urllib.error.HTTPError, url: str, part: Path) -> NoReturn:
    """Turn an error status into something to try again or a sentence for the user."""
    with error:
        if error.code == 416:
            # Nothing lies beyond what is here, and what is here is wrong: start over.
            part.unlink(missing_ok=True)
            raise _BrokenError(f"{url} is shorter than the part that was kept") from error
        if error.code in _PASSING:
            raise _BrokenError(f"{url} answered {error.code} ({error.reason})") from error
        if error.code in (404, 410):
            raise FileError(
                f"{url} does not exist ({error.code}); check the address or GRAPHTEMPER_MIRROR."
            ) from error
        raise FileError(f"{url} was refused: {error.code} ({error.reason}).") from error


def _open(path: Path, mode: Literal["ab", "wb"]) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, mode)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file against other processes and threads; a killed holder frees it.

    The file itself stays: deleting it would let two holders lock two different files.

    Examples
    --------
    >>> import tempfile
    >>> with exclusive(Path(tempfile.mkdtemp()) / "lock"):
    ...     print("alone")
    alone
    """
    with _open(path, "ab") as stream:
        try:
            while not try_lock(stream):
                time.sleep(0.05)
        except OSError as error:
            raise FileError(f"cannot lock {path}: {error.strerror or error}.") from error
        yield
