"""The one way to open and read a file: regular files only, within a limit, without blocking.

A path that somebody else chose may name a pipe that blocks, a device that never ends, or a file
that grows while it is read. Every reader of the package opens files here; `tests/fuzz` applies the
same contract to all of them. A JSON object may carry a checksum (`sealed`), by which a digit that
changed on the way is noticed.
"""

from __future__ import annotations

import io
import json
import os
import stat
import zlib
from collections.abc import Iterator
from typing import Any

from graphtemper import errors
from graphtemper.errors import FileError, InputError

# Windows has no O_NONBLOCK and needs O_BINARY; elsewhere a pipe without a writer would block.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

# A line of a table of nodes, labels or edges.
_MAX_LINE = 100_000
_CHUNK = 1 << 20


def open_regular(path: str | os.PathLike[str], what: str = "") -> io.BufferedReader:
    """Open a regular file for reading; anything else raises a `FileError` that names it.

    Examples
    --------
    >>> open_regular("/dev/null")
    Traceback (most recent call last):
    graphtemper.errors.FileError: /dev/null is not a regular file.
    """
    name = f"{what} {path}" if what else f"{path}"
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise errors.no_file(f"{name} does not exist or is not a file.") from error
    except (OSError, ValueError) as error:  # a name may hold a null character
        raise errors.unreadable(f"{name} cannot be read: {_cause(error)}.") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise errors.unreadable(f"{name} is not a regular file.")
    return os.fdopen(handle, "rb")


def read_bytes(path: str | os.PathLike[str], limit: int, what: str = "") -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> _ = path.write_bytes(b"complete")
    >>> read_bytes(path, 8)
    b'complete'
    >>> read_bytes(path, 7)
    Traceback (most recent call last):
    graphtemper.errors.FileError: ...note is larger than the 7 bytes that it may have.
    """
    name = f"{what} {path}" if what else f"{path}"
    try:
        with open_regular(path, what) as stream:
            size, content = os.fstat(stream.fileno()).st_size, bytearray()
            # Some files report no size, or grow meanwhile.
            while max(size, len(content)) <= limit and (chunk := stream.read(_CHUNK)):
                content += chunk
    except FileError:
        raise
    except OSError as error:
        raise errors.unreadable(f"{name} cannot be read: {_cause(error)}.") from error
    if max(size, len(content)) > limit:
        raise errors.oversize(f"{name} is larger than the {limit:,} bytes that it may have.")
    return bytes(content)


def read_lines(path: str | os.PathLike[str], what: str = "") -> Iterator[str]:
    r"""Yield the lines of a text file in UTF-8, with their ends, one in memory at a time.

    A byte-order mark, as spreadsheets write, is skipped.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = path.write_bytes(b"\xef\xbb\xbfnode,class\r\n1,0")
    >>> list(read_lines(path))
    ['node,class\r\n', '1,0']
    """
    name = f"{what} {path}" if what else f"{path}"
    try:
        with io.TextIOWrapper(open_regular(path, what), "utf-8-sig", newline="") as stream:
            while line := stream.readline(_MAX_LINE):
                if len(line) == _MAX_LINE:
                    raise errors.oversize(f"{name} has a line of more than {_MAX_LINE} characters.")
                yield line
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise errors.damaged(f"{name} is not text in UTF-8.") from error
    except OSError as error:
        raise errors.unreadable(f"{name} cannot be read: {_cause(error)}.") from error


def parse_json(text: str | bytes, *, infinite: bool = False) -> Any:
    """Parse JSON; text that two programs could read differently is refused.

    A key that occurs twice, NaN, infinities and nesting beyond the stack raise an `InputError`, as
    does text that is not JSON or not UTF-8. With ``infinite``, Infinity is a number.

    Examples
    --------
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    graphtemper.errors.InputError: the key 'a' occurs twice in one object.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        constant = _infinity if infinite else _refuse_constant
        return json.loads(decoded, parse_constant=constant, object_pairs_hook=_object)
    except InputError:
        raise
    except RecursionError as error:
        raise errors.content("the JSON is nested too deeply.") from error
    except ValueError as error:
        raise errors.content("it is not JSON in UTF-8.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise errors.content(f"the key {key[:60]!r} occurs twice in one object.")
            seen.add(key)
    return result


def _infinity(name: str) -> float:
    return _refuse_constant(name) if name == "NaN" else float(name)


def _refuse_constant(name: str) -> float:
    raise errors.content(f"{name} is not a number of JSON.")


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


_KEY = "crc32"


def sealed(content: dict[str, Any], indent: int | None = None) -> str:
    """Return an object as JSON, with the checksum of its fields as the last field.

    The checksum covers every other field, whatever its name, but neither order nor white space.

    Examples
    --------
    >>> sealed({"schema": "graphtemper.note/1"})
    '{"schema":"graphtemper.note/1","crc32":"41bb5c9a"}'
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(content | {_KEY: _checksum(content)}, indent=indent, separators=separators)


def check_seal(content: dict[str, Any], required: bool) -> None:
    """Raise `InputError` if the fields of an object do not match their checksum.

    A file without a checksum is refused only where one is ``required``.
    """
    if (required or _KEY in content) and content.get(_KEY) != _checksum(content):
        raise errors.content("it does not match its checksum; it is damaged or was edited.")


def _checksum(content: dict[str, Any]) -> str:
    fields = {key: value for key, value in content.items() if key != _KEY}
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
