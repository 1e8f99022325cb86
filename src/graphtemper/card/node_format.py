"""Node responses as they stand in a card: plain numbers out, checked numbers in."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphtemper.card.fields import Field
from graphtemper.card.node_response import NodeResponse
from graphtemper.errors import InputError
from graphtemper.signals.node_signals import PLAIN_SIGNALS, SIGNALS

KINDS = {"model": SIGNALS, "logits": PLAIN_SIGNALS}
"""What a response may read, by whether the model can be run."""
_ARRAYS = ("origin", "scale", "weights", "slopes")
# Weights move log T and origins are logarithms; none of them is ever large.
_LARGEST = 1e6


def write(found: dict[str, NodeResponse] | None) -> dict[str, Any] | None:
    """Return the responses as plain values."""
    if found is None:
        return None
    return {
        kind: {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in response.__dict__.items()
        }
        for kind, response in found.items()
    }


def read(field: Field | None, classes: int) -> dict[str, NodeResponse] | None:
    """Return the responses of a card, or None of one that was written without them."""
    if field is None or field.value is None:
        return None
    return {kind: _response(field[kind], known, classes) for kind, known in KINDS.items()}


def _response(field: Field, known: tuple[str, ...], classes: int) -> NodeResponse:
    names = tuple(item.text() for item in field["names"].items(1, len(known)))
    if len(set(names)) < len(names) or not set(names) <= set(known):
        raise InputError(
            f"field {field.name + '.names'!r} holds what is not a node signal, or one twice."
        )
    numbers: dict[str, Any] = {key: field[key].array((len(names),)) for key in _ARRAYS}
    numbers["classes"] = field["classes"].array((classes,))
    for key, values in numbers.items():
        if np.abs(values).max() > _LARGEST:
            raise InputError(f"field '{field.name}.{key}' is too large; the card is damaged.")
    if numbers["scale"].min() <= 0.0:
        raise InputError(f"field '{field.name}.scale' must be positive; the card is damaged.")
    gain, error = field["gain"].number(-1e6, 1e6), field["error"].number(0.0, 1e6)
    return NodeResponse(names=names, **numbers, gain=gain, error=error)
