"""The checksum of a JSON object: a digit that changed on the way is noticed."""

from __future__ import annotations

import json
import zlib
from typing import Any

from graphtemper.errors import InputError

_KEY = "crc32"


def sealed(content: dict[str, Any], indent: int | None = None) -> str:
    """Return an object as JSON, with the checksum of its fields as the last field.

    The checksum covers every other field, whatever its name, but neither order nor white space.

    Examples
    --------
    >>> sealed({"schema": "graphtemper.card/4"})
    '{"schema":"graphtemper.card/4","crc32":"67733a50"}'
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(content | {_KEY: _checksum(content)}, indent=indent, separators=separators)


def check_seal(content: dict[str, Any], required: bool) -> None:
    """Raise `InputError` if the fields of an object do not match their checksum.

    Files of earlier versions have none; ``required`` says whether this one must.
    """
    if (required or _KEY in content) and content.get(_KEY) != _checksum(content):
        raise InputError("it does not match its checksum; it is damaged or was edited.")


def _checksum(content: dict[str, Any]) -> str:
    fields = {key: value for key, value in content.items() if key != _KEY}
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
