"""The fields of the report's JSON block, read from its published schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def markdown(schema: dict[str, Any]) -> str:
    """Return a table of every field that the schema names: path, kind, meaning."""
    lines = ["| field | kind | meaning |", "| --- | --- | --- |"]
    for path, node in fields(schema, schema):
        text = node.get("description", "").replace("|", "\\|")
        lines.append(f"| `{path}` | {kind(schema, node)} | {text} |")
    return "\n".join(lines) + "\n"


def fields(root: dict[str, Any], node: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and their parts of the schema; `[]` stands for the entries of a list."""
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        for part in _alternatives(root, child):
            yield here, {**part, **_described(child)}
            yield from fields(root, part, here)
            if "items" in part:
                yield from fields(root, _resolved(root, part["items"]), f"{here}[]")


def kind(root: dict[str, Any], node: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    types = node.get("type", "")
    words = types if isinstance(types, list) else [types]
    if node.get("nullable") and "null" not in words:
        words = [*words, "null"]
    if words == ["array"] and "items" in node:
        inner = _resolved(root, node["items"]).get("type", "")
        return f"array of {inner}s" if isinstance(inner, str) and inner else "array"
    return " or ".join(words)


def _alternatives(root: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternative that is not null, and whether null is allowed."""
    node = _resolved(root, node)
    parts = [_resolved(root, part) for part in node.get("anyOf", node.get("oneOf", []))]
    if not parts:
        return [node]
    others = [part for part in parts if part.get("type") != "null"]
    return [{**part, "nullable": len(others) < len(parts)} for part in others[:1]]


def _resolved(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    name = node["$ref"].rpartition("/")[2]
    return {**root["$defs"][name], **{key: value for key, value in node.items() if key != "$ref"}}


def _described(node: dict[str, Any]) -> dict[str, str]:
    return {"description": node["description"]} if "description" in node else {}
