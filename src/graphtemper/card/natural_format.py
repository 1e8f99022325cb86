"""Labelled environments as JSON, checked as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphtemper.card.fields import Field
from graphtemper.card.environments import (
    FARTHEST,
    SKETCH_SIZE,
    LabelledEnvironment,
    When,
    in_order,
)

_MOST = 1000


def write_labelled_environments(
    environments: Sequence[LabelledEnvironment], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return labelled environments as plain values, with signals in the order of the names."""
    return [
        {**item.__dict__, "signals": [item.signals[name] for name in names]}
        for item in environments
    ]


def labelled_environments(
    field: Field | None, order: Sequence[str], names: Sequence[str]
) -> tuple[LabelledEnvironment, ...]:
    """Read labelled environments; none in cards of earlier versions."""
    if field is None:
        return ()
    found = [_labelled_environment(item, order, names) for item in field.items(0, _MOST)]
    kinds = {type(item.when) for item in found if item.when is not None}
    if len(kinds) > 1 or len({item.name for item in found}) < len(found):
        raise field.odd("environments with different names and one kind of time")
    return in_order(found)


def _labelled_environment(
    field: Field, order: Sequence[str], names: Sequence[str]
) -> LabelledEnvironment:
    row = field["signals"].items(len(order), len(order))
    return LabelledEnvironment(
        name=field["name"].text(),
        when=_when(field["when"]),
        num_nodes=field["num_nodes"].count(1, 10**12),
        accuracy=field["accuracy"].number(0.0, 1.0),
        confidence=field["confidence"].number(0.0, 1.0),
        temperature=field["temperature"].number(1e-4, 1e4),
        signals={
            name: item.number(-1e3, 1e3)
            for name, item in zip(order, row, strict=True)
            if name in names
        },
        count=field["count"].count(1, 10**9),
        sketch=_sketch(field.get("sketch")),
    )


def _sketch(field: Field | None) -> tuple[float, ...] | None:
    """Read the sketch of feature means; cards of earlier versions have none."""
    if field is None or field.value is None:
        return None
    return tuple(item.number(-FARTHEST, FARTHEST) for item in field.items(1, SKETCH_SIZE))


def _when(field: Field) -> When | None:
    if field.value is None:
        return None
    return field.text() if isinstance(field.value, str) else field.number(-1e15, 1e15)
