"""Download one file over https: verified by checksum, resumed after a break, safe to run twice.

The bytes received are kept in ``FILE.part`` and get their final name only when their git blob id is
right. Standard library only: pooch neither resumes, limits the size, nor keeps redirects on https.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
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

from graphtemper import errors
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError, InputError
from graphtemper_research.graphs.file_lock import try_lock

Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
# No graph of the catalogue is near this size; an endless response must not fill the disk.
_MAX_BYTES = 1 << 30
# Time-outs, too many requests and server errors may pass; other statuses are final.
_TEMPORARY = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class RetryPolicy:
    """When to retry and when to give up.

    Attributes
    ----------
    timeout
        Seconds without data after which an attempt fails.
    attempts
        Number of attempts.
    pause
        Seconds before the second attempt; doubled before each later one.
    deadline
        Seconds for all attempts together.
    """

    timeout: float = 30.0
    attempts: int = 5
    pause: float = 1.0
    deadline: float = 3600.0

    def __post_init__(self) -> None:
        finite = 0 < self.timeout < float("inf") and 0 < self.deadline < float("inf")
        if not (finite and self.attempts >= 1 and self.pause >= 0):
            raise InputError(
                "timeout and deadline must be positive, attempts at least 1 and pause at least 0, "
                f"not {self.timeout}, {self.deadline}, {self.attempts} and {self.pause}."
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
    with open_regular(path) as stream:
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
    retry: RetryPolicy | None = None,
) -> None:
    """Complete ``part`` until its git blob id is ``blob_id``, starting from the bytes it holds.

    A broken connection, a stall or a temporary server error is retried and keeps the bytes
    received. Content with another blob id is deleted: after a resumed transfer the file is fetched
    once more from the start; content that is wrong from the start raises `FileError`.

    Parameters
    ----------
    url : str
        An https address, or an http address of this machine; redirects must stay on such ones.
    part : Path
        The partial file; the caller moves it to its final path.
    blob_id : str
        Git blob id of the right content.
    progress : callable, optional
        Called with the number of bytes received and the total, None if the server does not say.
    retry : RetryPolicy, optional
        Time-outs and number of attempts.
    """
    _check_address(url)
    retry = retry or RetryPolicy()
    deadline = time.monotonic() + retry.deadline
    failures = 0
    while not (_size(part) and git_blob_id(part) == blob_id):
        if failures and time.monotonic() > deadline:
            raise errors.download(f"{public(url)} is too slow; run again to resume the download.")
        resumed = _size(part) > 0
        try:
            _transfer(url, part, retry.timeout, deadline, progress)
        except _TransferError as error:
            failures += 1
            if failures == retry.attempts:
                raise errors.download(
                    f"{error} ({failures} attempts at {public(url)}); try again later."
                ) from error
            time.sleep(retry.pause * 2 ** (failures - 1))
            continue
        if git_blob_id(part) == blob_id:
            return
        part.unlink()
        if not resumed:
            raise errors.download(
                f"{public(url)} does not have the published content (git blob {blob_id}) and was "
                "deleted; try again later or set GRAPHTEMPER_MIRROR to another server."
            )


def _check_address(url: str) -> None:
    """Refuse addresses that are not encrypted, except those of this machine."""
    parts = urlsplit(url)
    if parts.hostname and parts.scheme == "https":
        return
    if parts.hostname and parts.scheme == "http" and _is_loopback(parts.hostname):
        return
    raise InputError(f"{public(url)!r} is not an https address.")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def public(url: str) -> str:
    """Return the address for messages: without user name, password and signed parameters.

    Examples
    --------
    >>> public("https://user:word@example.org/x.npz?signature=1")
    'https://example.org/x.npz'
    """
    return re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", url, maxsplit=1)[0])


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            _check_address(newurl)
        except InputError as error:
            raise errors.download(f"{public(req.full_url)} redirects, and {error}") from error
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _TransferError(Exception):
    """A transfer that failed but may succeed when retried."""


def _transfer(
    url: str, part: Path, timeout: float, deadline: float, progress: Progress | None
) -> None:
    """Make one request and append its body to ``part``, or replace ``part`` by it."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    size = _size(part)
    # Compression in transit would make byte ranges and lengths meaningless.
    headers = {"Accept-Encoding": "identity", "User-Agent": "graphtemper"}
    if size:
        headers["Range"] = f"bytes={size}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.build_opener(_SafeRedirects).open(request, timeout=timeout) as response:
            start, total = _extent(response, size)
            with _open(part, "ab" if start else "wb") as stream:
                for done in _copy(response, stream, start, part):
                    if progress is not None:
                        progress(done, total)
                    if time.monotonic() > deadline:
                        raise errors.download(
                            f"{host} is too slow; run again to resume the download."
                        )
    except urllib.error.HTTPError as error:
        _raise_status(error, public(url), part)
    except FileError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise _TransferError(f"{host} sent nothing for {timeout:g} s") from error
        cause = str(reason) or type(reason).__name__
        raise _TransferError(f"the connection to {host} failed: {cause}") from error
    if total is not None and _size(part) < total:
        raise _TransferError(f"{host} closed the connection after {_size(part)} of {total} bytes")


def _extent(response: http.client.HTTPResponse, size: int) -> tuple[int, int | None]:
    """Return where the body starts in the file, and the file's length if the server says it."""
    length = response.headers.get("Content-Length", "")
    rest = int(length) if length.isdecimal() else None
    if response.status != 206:
        return 0, rest
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != size:
        raise errors.download(
            f"{public(response.url)} sent another part of the file than requested."
        )
    if match[2] != "*":
        return size, int(match[2])
    return size, None if rest is None else size + rest


def _copy(
    response: http.client.HTTPResponse, stream: IO[bytes], start: int, part: Path
) -> Iterator[int]:
    """Write chunks as they arrive and yield the size so far.

    ``read1`` returns the bytes that are there, so a stall is noticed per packet.
    """
    done = start
    yield done
    while chunk := response.read1(_CHUNK):
        done += len(chunk)
        if done > _MAX_BYTES:
            stream.truncate(0)
            raise errors.oversize(f"{public(response.url)} sends more than {_MAX_BYTES >> 20} MB.")
        try:
            stream.write(chunk)
            stream.flush()
        except OSError as error:
            raise errors.write(f"cannot write {part}: {error.strerror or error}.") from error
        yield done


def _raise_status(error: urllib.error.HTTPError, url: str, part: Path) -> NoReturn:
    """Raise a `_TransferError` for a status that may pass, and a `FileError` for others."""
    with error:
        if error.code == 416:
            # The file ends before the partial one does, whose content is wrong: start over.
            part.unlink(missing_ok=True)
            raise _TransferError(f"{url} is shorter than the partial file") from error
        if error.code in _TEMPORARY:
            raise _TransferError(f"{url} answered {error.code} ({error.reason})") from error
        if error.code in (404, 410):
            raise errors.no_file(
                f"{url} does not exist ({error.code}); check the address or GRAPHTEMPER_MIRROR."
            ) from error
        raise errors.download(f"{url} was refused: {error.code} ({error.reason}).") from error


def _open(path: Path, mode: Literal["ab", "wb"]) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, mode)
    except OSError as error:
        raise errors.write(f"cannot write {path}: {error.strerror or error}.") from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file against other processes and threads; a killed holder releases it.

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
            raise errors.write(f"cannot lock {path}: {error.strerror or error}.") from error
        yield
