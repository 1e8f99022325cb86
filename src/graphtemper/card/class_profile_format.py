"""The class profile as it stands in a card: plain numbers out, checked numbers in."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphtemper.card.class_profile import THIRDS, ClassProfile
from graphtemper.card.fields import Field
from graphtemper.errors import InputError

# More source nodes than this cannot be compared with a target's in one table.
_MOST_NODES = 1e8
# Biases are log-odds of class shares.
_LARGEST_BIAS = 1e3


def write(profile: ClassProfile | None) -> dict[str, Any] | None:
    """Return the profile as plain values."""
    if profile is None:
        return None
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in profile.__dict__.items()
    }


def read(field: Field | None, classes: int) -> ClassProfile | None:
    """Read what an earlier version did not write and a model without signal does not have."""
    if field is None or field.value is None:
        return None
    counts = field["counts"].array((THIRDS * classes, classes))
    whole = counts.min() >= 0.0 and bool((counts == np.rint(counts)).all())
    if not whole or not 1.0 <= counts.sum() <= _MOST_NODES:
        raise InputError(f"field {field.name + '.counts'!r} must be counts; the card is damaged.")
    edges = field["edges"].array((THIRDS - 1,))
    if not 0.0 <= edges[0] <= edges[-1] <= 1.0:
        raise InputError(
            f"field {field.name + '.edges'!r} must be ascending confidences; the card is damaged."
        )
    biases = field["biases"].array((classes,))
    if np.abs(biases).max() > _LARGEST_BIAS:
        raise InputError(
            f"field {field.name + '.biases'!r} must be at most {_LARGEST_BIAS:g} in size; the card "
            "is damaged."
        )
    slope = field["slope"].number(1e-3, 1e3)
    return ClassProfile(counts.astype(np.int64), edges, slope, biases)
