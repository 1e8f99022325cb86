"""JSON schemas of reports and results, made of one table of their fields, ``fields.txt``."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from graphtemper import errors

SchemaName = Literal["report", "recalibration"]
Field = tuple[str, str, str]
Schema = dict[str, Any]
_KINDS: dict[str, Schema] = {
    "number": {"type": "number"},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "positive": {"type": "number", "exclusiveMinimum": 0},
    "size": {"type": "number", "minimum": 0},
    "integer": {"type": "integer"},
    "count": {"type": "integer", "minimum": 0},
    "classes": {"type": "integer", "minimum": 2},
    "text": {"type": "string"},
    "boolean": {"type": "boolean"},
    "scalar": {"type": ["number", "string"]},
}


def schema(of: SchemaName = "report") -> Schema:
    """Return the JSON schema (draft 2020-12) of a report, or of `Recalibration.to_dict`.

    Examples
    --------
    >>> schema()["properties"]["schema"]["const"]
    'graphtemper.report/3'
    >>> schema("recalibration")["properties"]["direction"]["enum"]
    ['over-confident', 'under-confident', 'calibrated', 'unknown']
    """
    if of not in get_args(SchemaName):
        raise errors.choice(f"there is no schema of {of!r:.40}; choose report or recalibration.")
    made = _object(of)
    title = made["properties"]["schema"]["const"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{title.replace('.', ':').replace('/', ':')}",
        "title": title,
        "description": _tables()[of][0][2],
        **made,
    }


@cache
def _tables() -> dict[str, list[Field]]:
    """Return the fields of each section of the table; the first one is the whole."""
    tables: dict[str, list[Field]] = {}
    file = resources.files("graphtemper.recalibration.report").joinpath("fields.txt")
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("["):
            section, _, meaning = line[1:].partition("]")
            tables[section] = [("", "object", meaning.strip())]
        elif line and not line.startswith("#"):
            path, kind, meaning = [*line.split(maxsplit=2), ""][:3]
            tables[section].append((path, kind, meaning))
    return tables


def _object(section: str, inside: str = "") -> Schema:
    """Return the schema of an object: of all fields of a section, or of those inside of one."""
    made: Schema = {"type": "object", "additionalProperties": False, "required": []}
    made["properties"] = {}
    for path, kind, meaning in _tables()[section][1:]:
        parent, _, name = f".{path}".rpartition(".")
        if parent.removeprefix(".") != inside:
            continue
        field = _field(section, path.removesuffix("?"), kind)
        field |= {"description": meaning} if meaning else {}
        if name == "*?":
            made["additionalProperties"] = field
            continue
        made["properties"][name.removesuffix("?")] = field
        made["required"] += [] if name.endswith("?") else [name]
    return made


def _field(section: str, path: str, kind: str) -> Schema:
    if kind.endswith("?"):
        return {"anyOf": [_field(section, path, kind[:-1]), {"type": "null"}]}
    if kind.endswith("[]"):
        return {"type": "array", "items": _field(section, path, kind[:-2])}
    if kind == "object" or kind in _tables():
        return _object(section, path) if kind == "object" else _object(kind)
    if kind.startswith("="):
        return {"const": kind[1:]}
    return dict(_KINDS[kind]) if kind in _KINDS else {"enum": kind.split("|")}
