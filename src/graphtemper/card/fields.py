"""Fields of a card: JSON values with their path, checked as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError

LARGEST = 1e30
"""Largest number of an array in a card; source logits are in units of the source temperature."""


class Field:
    """A JSON value with its path, which errors name."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __getitem__(self, key: str) -> Field:
        if not isinstance(self.value, dict):
            raise self.odd("an object")
        path = key if self.name == "card" else f"{self.name}.{key}"
        if key not in self.value:
            raise InputError(f"field {path!r} is missing; the card is damaged.")
        return Field(path, self.value[key])

    def get(self, key: str) -> Field | None:
        """Return the field of an object, or None if it is missing."""
        return self[key] if isinstance(self.value, dict) and key in self.value else None

    def items(self, fewest: int, most: int) -> list[Field]:
        """Return the entries of a list with ``fewest`` to ``most`` entries."""
        if not isinstance(self.value, list) or not fewest <= len(self.value) <= most:
            raise self.odd(f"a list of {fewest} to {most} entries")
        return [Field(f"{self.name}[{i}]", value) for i, value in enumerate(self.value)]

    def number(self, low: float, high: float) -> float:
        """Return a number in [low, high]."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.odd("a number")
        # Integers of any length are compared exactly; NaN fails every comparison.
        if not low <= value <= high:
            raise self.odd(f"between {low:g} and {high:g}")
        return float(value)

    def count(self, low: int, high: int) -> int:
        """Return an integer in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.odd("an integer")
        if not low <= self.value <= high:
            raise self.odd(f"between {low} and {high}")
        return self.value

    def text(self) -> str:
        """Return a string of at most a thousand characters."""
        if not isinstance(self.value, str) or len(self.value) > 1000:
            raise self.odd("a short string")
        return self.value

    def array(self, shape: tuple[int | None, ...]) -> FloatArray:
        """Return an array of a shape in which None stands for any size."""
        size_text = " x ".join("any" if size is None else str(size) for size in shape)
        for value in _leaves(self.value):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.odd(f"{size_text} numbers")
            if not abs(value) <= LARGEST:
                raise self.odd(f"{size_text} numbers of at most {LARGEST:g}")
        try:
            array = np.array(self.value, dtype=np.float64)
        except ValueError as error:  # rows of unequal length
            raise self.odd(f"{size_text} numbers") from error
        if array.ndim != len(shape) or any(
            size is not None and have != size for have, size in zip(array.shape, shape, strict=True)
        ):
            raise self.odd(f"{size_text} numbers")
        return array

    def shares(self, classes: int) -> FloatArray:
        """Return the shares of the classes, which sum to 1."""
        values = self.array((classes,))
        if values.min() < 0.0 or abs(values.sum() - 1.0) > 1e-3:
            raise self.odd("shares that are not negative and sum to 1")
        return values

    def odd(self, expected: str) -> InputError:
        """Return the error of a value that is not what was expected."""
        return InputError(f"field {self.name!r} must be {expected}; the card is damaged.")


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the entries of a list or of a list of lists; deeper lists are yielded as they are."""
    for row in value if isinstance(value, list) else [value]:
        yield from row if isinstance(row, list) else [row]
