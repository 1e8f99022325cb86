"""What a card may hold, and the card as JSON, written from the fields of its dataclasses.

`checked` gives every value that becomes part of a card the digits of its file and refuses what the
tables below exclude: ranges, shapes and what else must hold. So a card answers before it was saved
as it does after loading. The type of a field says what its JSON value must be. An error names the
damaged field.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.safe_reading import check_seal, parse_json, sealed
from graphtemper.card.class_profile import MOST_CLASSES, THIRDS
from graphtemper.card.earlier import num_columns
from graphtemper.card.environments import FARTHEST, SKETCH_SIZE
from graphtemper.card.node_response import KINDS
from graphtemper.card.privacy import MOST_EPSILON
from graphtemper.errors import InputError, VersionError
from graphtemper.signals import drift
from graphtemper.signals.evidence import LOGIT_SIGNALS, SIGNALS, Evidence
from graphtemper.signals.second_opinion import SKETCH

Card = TypeVar("Card")
SCHEMA = "graphtemper.card/6"
MAX_BYTES = 100_000
"""Largest card. It holds 60 classes with the default atlas."""
LARGEST = 1e30
"""Largest number of an array in a card; source logits are in units of the source temperature."""
IN_MEMORY = ("atlas_nodes", "seed", "feature_names")
"""Fields that no file holds: rows that belong to nodes, the seed that all cards share, names."""
_EVERY = tuple(dict.fromkeys((*SIGNALS, *LOGIT_SIGNALS)))
# Bytes that numbers of small and large matrices, counts, a row of the atlas, what else there is of
# a class, and everything else take in practice.
_NUMBER, _SHORT, _COUNT, _ROW, _CLASS, _OTHER = 12, 9, 5, 255, 130, 5500

_LOWER = "reference.evidence.covariance"
# Numbers per column, and their type in a file.
_PACKED = {f"columns.{name}": "<f2" for name in ("steps", "factors")} | {
    f"columns.{side}.{name}": "<f2" if name == "common" else "<f4"
    for side in ("nodes", "whole")
    for name in ("mean", "deviation", "common")
}
_PACKED["columns.columns"] = "<f4"
# Significant digits, and those of matrices with many numbers, which would fill a card; counts of
# nodes in these are whole.
_DIGITS, _FEWER_DIGITS, _MANY = 8, 5, 1000

# Ranges of numbers by the name of their field; weights act on log T, and origins are logarithms.
_RANGES: dict[str, tuple[float, float]] = {
    name: limits
    for limits, names in {
        (0.0, 1.0): "accuracy edge_share recalls edges earlier",
        (0.0, 1e6): "noise_level error",
        (0.0, 1e8): "counts",
        (1e-12, 1e9): "linear smooth length noise scale",
        (1e-6, 1e6): "separation",
        (1e-3, 1e3): "slope",
        (-1e3, 1e3): "biases signals",
        (-1e6, 1e6): "origin weights slopes classes gain",
        (-1e15, 1e15): "when",
        (1.0, 1e6): "widening",
        (1e-9, MOST_EPSILON): "privacy",
        (1e-150, 1e150): "temperature",
        (0, 2**63): "passes",
        (1, 100): "splits",
        (1, 10**12): "num_nodes num_features",
        (2, 100_000): "num_classes",
    }.items()
    for name in names.split()
}
_RANGES["environments[].sketch[]"] = (-FARTHEST, FARTHEST)
_RANGES |= {f"types.{name}[]": (0, 2**63) for name in ("node", "edge", "edge_features")}
_RANGES |= {
    f"reference.evidence.{name}{'[]' * (item.kind == 'covariance')}": (item.low, item.high)
    for name, item in Evidence.declared().items()
}
# Sizes of arrays; K stands for the number of classes, F for that of columns, None for any.
_SHAPES: dict[str, tuple[int | str | None, ...]] = {
    "fingerprint": (None, "K"),
    "probe.column_std": ("F",),
    "probe.second.weights": (None, "K"),
    **{
        f"reference.evidence.{name}": ("K", "K") if item.kind == "square" else ("K",)
        for name, item in Evidence.declared().items()
        if item.kind in ("classes", "shares", "square")
    },
    "reference.moments.shares": ("K",),
    "reference.moments.offsets": ("K", "K"),
    "population.recalls": ("K",),
    "class_profile.counts": ("3K", "K"),
    "class_profile.edges": (THIRDS - 1,),
    "class_profile.biases": ("K",),
    "node_responses.*.classes": ("K",),
    "environments[].shares": ("K",),
    "environments[].biases": ("K",),
    "environments[].earlier": ("P", "P+1"),
}


def _are_shares(values: FloatArray) -> bool:
    return bool(values.min() >= 0.0 and abs(values.sum() - 1.0) <= 1e-3)


def _is_covariance(matrix: FloatArray) -> bool:
    """Return whether a matrix is symmetric; another would give negative variances later."""
    size = float(np.abs(matrix).max())
    return bool(np.allclose(matrix, matrix.T, atol=1e-3 * size) and (np.diag(matrix) >= 0.0).all())


def _are_once(names: Sequence[str], readable: Sequence[str]) -> bool:
    return 0 < len(names) == len(set(names)) and set(names) <= set(readable)


def _are_node_responses(responses: dict[str, Any] | None) -> bool:
    return responses is None or all(
        _are_once(item.names, KINDS[kind])
        and {len(item.names)}
        == {values.size for values in (item.origin, item.scale, item.weights, item.slopes)}
        for kind, item in responses.items()
    )


def _are_columns(found: Any) -> bool:
    if found is None:
        return True
    pairs = ((item.mean, item.deviation, item.common) for item in (found.nodes, found.whole))
    values = [found.columns, found.steps, found.factors, *(x for trio in pairs for x in trio)]
    return (
        len({item.size for item in values}) == 1
        and all(np.isfinite(item).all() for item in values)
        and all((item.deviation >= 0.0).all() for item in (found.nodes, found.whole))
        and bool((np.diff(found.columns, prepend=-1.0) > 0.0).all())
    )


def _are_environments(found: Sequence[Any]) -> bool:
    kinds = {type(item.when) for item in found if item.when is not None}
    return len(kinds) <= 1 and len({item.name for item in found}) == len(found)


_OF_KIND: dict[str, tuple[Callable[[Any], bool], str]] = {
    "shares": (_are_shares, "shares that sum to 1"),
    "square": (_is_covariance, "a covariance"),
    "covariance": (lambda pair: pair and pair[1] >= 0.0, "a value and its error"),
}
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "reference.moments.shares": (_are_shares, "shares that are not negative and sum to 1"),
    **{
        f"reference.evidence.{name}": _OF_KIND[item.kind]
        for name, item in Evidence.declared().items()
        if item.kind in _OF_KIND
    },
    "probe.second.weights": (
        lambda values: 2 <= len(values) <= SKETCH + 1,
        f"coefficients of at most {SKETCH} sums",
    ),
    "population.sketch": (
        lambda values: 0 < values.size <= drift.SKETCH_SIZE,
        f"at most {drift.SKETCH_SIZE} numbers",
    ),
    "class_profile.counts": (lambda counts: 1.0 <= counts.sum() <= 1e8, "counts"),
    "class_profile.edges": (lambda edges: (np.diff(edges) >= 0.0).all(), "ascending confidences"),
    "responses": (
        lambda found: (
            _are_once(found["model"].names, SIGNALS)
            and _are_once(found["logits"].names, LOGIT_SIGNALS)
        ),
        "responses to readable signals, each listed once",
    ),
    "node_responses": (_are_node_responses, "one number per node signal, each listed once"),
    "atlas": (lambda points: 3 <= len(points) <= 5000, "a list of 3 to 5000 shifts"),
    "environments": (_are_environments, "environments with names and one kind of time"),
    "columns": (_are_columns, "finite numbers of each column, which are listed once"),
    "environments[].shares": (_are_shares, "shares that sum to 1"),
    "environments[].sketch": (lambda values: len(values) == SKETCH_SIZE, f"{SKETCH_SIZE} numbers"),
}


def to_json(card: Any) -> str:
    """Return the text of a card's file; large matrices have fewer digits."""
    content = _plain(card) | {"signals": list(_EVERY)}
    evidence = content["reference"]["evidence"]  # half of a symmetric matrix says all
    evidence["covariance"] = [row[: k + 1] for k, row in enumerate(evidence["covariance"])]
    with np.errstate(divide="ignore"):
        content["probe"]["column_std"] = _pack(np.log(card.probe.column_std))
    for path, kind in _PACKED.items():
        if card.columns is not None:
            place, name = _parent(content, path)
            place[name] = _pack(np.array(place[name]), kind)
    if card.probe.second is not None:
        content["probe"]["second"]["weights"] = _pack(card.probe.second.weights)
    return sealed({"schema": SCHEMA} | content)


def from_json(text: str, kind: type[Card]) -> Card:
    """Read the text of a card's file.

    Unknown fields are ignored. A missing or invalid field is named in an `InputError`; a card of
    another schema is a `VersionError`.
    """
    try:
        content = parse_json(text)
    except InputError as error:
        raise errors.content(f"this is not a source card: {error}") from error
    if isinstance(content, dict):
        content.setdefault("columns", None)  # older cards have none
    root = _Field("", content)
    schema = root["schema"].text()
    if schema.rpartition("/")[0] != SCHEMA.rpartition("/")[0]:
        raise errors.content(f"this is a file of {schema!r}, not a source card.")
    if schema != SCHEMA:
        raise VersionError(
            f"field 'schema' is {schema!r} but this version reads {SCHEMA!r}; build the card again."
        )
    check_seal(content, required=True)
    root.classes = int(root["num_classes"].number(int))
    if not 2 <= root.classes <= MAX_BYTES:
        raise _odd("num_classes", f"between 2 and {MAX_BYTES}")
    if [item.value for item in root["signals"].items()] != list(_EVERY):
        raise _odd("signals", f"{len(_EVERY)} signals in the order of this version")
    card: Card = root.parsed(kind)
    return card


def check_size(num_classes: int, num_features: int, num_rows: int, size: int = 0) -> None:
    """Raise `InputError` if a card of these sizes, or of ``size`` bytes, would be too large.

    Without a size, it is foreseen from the large parts: a K x K matrix and half of another, counts,
    the deviations of the columns and the rows of the atlas.
    """
    square = num_classes**2
    matrices = (_NUMBER if square < _MANY else _SHORT) * (3 * square + num_classes) // 2
    matrices += THIRDS * _COUNT * square * (num_classes <= MOST_CLASSES)
    rows = _ROW * num_rows + _CLASS * num_classes
    coefficients = (SKETCH + 1) * num_classes * (num_classes <= MOST_CLASSES)
    packed = 8 * (num_features + coefficients) // 3
    expected = matrices + rows + packed + _OTHER
    if (size or expected) > MAX_BYTES:
        raise errors.range(
            f"the card would have {'' if size else 'about '}{size or expected} bytes with "
            f"{num_classes} classes, {num_features} feature columns and {num_rows} shifts, over "
            f"the {MAX_BYTES} it may have; merge rare classes (60 fit with the default atlas), or "
            "use fewer shifts and compositions."
        )


def _pack(values: FloatArray, kind: str = "<f2") -> str:
    """Return numbers in half precision: logarithms of column deviations, or coefficients.

    There may be many, and a thousandth is precise enough for a perturbation or a second opinion.
    Moments of columns are in single precision, as features are.
    """
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def _parent(content: Any, path: str) -> tuple[Any, str]:
    """Return the object that holds a value, and its name there."""
    *above, name = path.split(".")
    for part in above:
        content = content[part]
    return content, name


def checked(card: Any) -> dict[str, Any]:
    """Return the fields of a card that a file holds, as it would hold them, or raise an error."""
    if not all(isinstance(getattr(card, name), int) for name in ("num_classes", "num_features")):
        raise errors.content("the numbers of classes and of features must be integers.")
    sizes = {"K": card.num_classes, "3K": THIRDS * card.num_classes, "F": card.num_features}
    sizes |= {"P": num_columns(card.num_classes), "P+1": num_columns(card.num_classes) + 1}
    names = (item.name for item in fields(card) if item.name not in IN_MEMORY)
    return {name: _kept(getattr(card, name), name, name, sizes) for name in names}


def _kept(value: Any, name: str, path: str, sizes: dict[str, int]) -> Any:
    """Return a value with the digits of a file; ``path`` is its name without indices."""
    kept = _kept_parts(value, name, path, sizes)
    holds, expected = _CHECKS.get(path, (None, ""))
    if holds is not None and not holds(kept):
        raise _odd(name, expected)
    return kept


def _kept_parts(value: Any, name: str, path: str, sizes: dict[str, int]) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return _kept_number(value, name, path)
    if isinstance(value, np.ndarray):
        return _kept_array(value, name, path, sizes)
    if is_dataclass(value) and not isinstance(value, type):
        names = (item.name for item in fields(value) if item.name not in IN_MEMORY)
        parts = {x: _kept(getattr(value, x), f"{name}.{x}", f"{path}.{x}", sizes) for x in names}
        return replace(value, **parts)
    if isinstance(value, dict):
        any_kind = path if value.keys() == set(_EVERY) else f"{path}.*"
        return {key: _kept(x, f"{name}.{key}", any_kind, sizes) for key, x in value.items()}
    if isinstance(value, frozenset):
        return value
    kept = [_kept(x, f"{name}[{i}]", f"{path}[]", sizes) for i, x in enumerate(value)]
    return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)


def _kept_number(value: float, name: str, path: str, digits: int = _DIGITS) -> float:
    low, high = _RANGES.get(path) or _RANGES.get(
        path.rpartition(".")[2].removesuffix("[]"), (-LARGEST, LARGEST)
    )
    # Integers of any length are compared exactly; NaN fails every comparison.
    if not low <= value <= high:
        raise _odd(name, f"between {low:g} and {high:g}")
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")


def _kept_array(array: FloatArray, name: str, path: str, sizes: dict[str, int]) -> FloatArray:
    shape = [sizes.get(str(size), size) for size in _SHAPES.get(path, (None,))]
    if array.ndim != len(shape) or any(
        size not in (None, have) for have, size in zip(array.shape, shape, strict=True)
    ):
        raise _odd(name, f"{' x '.join(str(size or 'any') for size in shape)} numbers")
    if path in _HALVED:
        return _HALVED[path](array)
    digits = _DIGITS if array.size < _MANY else _FEWER_DIGITS
    kept = [_kept_number(float(value), name, path, digits) for value in array.ravel()]
    found = np.array(kept, dtype=np.float64).reshape(array.shape)
    if path == _LOWER:  # a file holds half of a symmetric matrix
        found = np.tril(found) + np.tril(found, -1).T
    return found


def _half(values: FloatArray) -> FloatArray:
    """Return numbers in half precision."""
    return values.astype("<f2").astype(np.float64)


def _half_logs(deviations: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.exp(_half(np.log(deviations)))


def _single(values: FloatArray) -> FloatArray:
    return values.astype("<f4").astype(np.float64)


# Numbers of which there may be many: a thousandth is precise enough for them.
_HALVED = {"probe.column_std": _half_logs, "probe.second.weights": _half}
_HALVED |= {path: _half if kind == "<f2" else _single for path, kind in _PACKED.items()}


def _odd(name: str, expected: str) -> InputError:
    """Return the error of a value that is not what was expected."""
    return errors.content(f"field {name!r} must be {expected}; the card is damaged.")


def _plain(value: Any, digits: int = _DIGITS) -> Any:
    """Return what JSON holds of a value of a card."""
    if is_dataclass(value):
        names = (item.name for item in fields(value) if item.name not in IN_MEMORY)
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        if value.keys() == set(_EVERY):  # the same names in every row would fill the card
            return [_plain(value[name]) for name in _EVERY]
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), _DIGITS if value.size < _MANY else _FEWER_DIGITS)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(item, digits) for item in value]
    # Counts of nodes in large matrices are whole.
    counted = digits < _DIGITS and isinstance(value, float) and value.is_integer()
    return int(value) if counted and abs(value) < 1e8 else value


_hints = cache(get_type_hints)


class _Field:
    """A JSON value with its path, which errors name."""

    def __init__(self, name: str, value: Any, classes: int = 0) -> None:
        self.name, self.value, self.classes = name, value, classes

    def __getitem__(self, key: str) -> _Field:
        if not isinstance(self.value, dict):
            raise _odd(self.name, "an object")
        name = f"{self.name}.{key}" if self.name else key
        if key not in self.value:
            raise errors.content(f"field {name!r} is missing; the card is damaged.")
        return _Field(name, self.value[key], self.classes)

    def items(self, count: int | None = None) -> list[_Field]:
        """Return the entries of a list, of a length if it is given."""
        value = self.value
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise _odd(self.name, "a list" if count is None else f"a list of {count} entries")
        if len(value) > MAX_BYTES:
            raise _odd(self.name, "a shorter list")
        return [_Field(f"{self.name}[{i}]", x, self.classes) for i, x in enumerate(value)]

    def text(self) -> str:
        """Return a string of at most a thousand characters."""
        if not isinstance(self.value, str) or len(self.value) > 1000:
            raise _odd(self.name, "a short string")
        return self.value

    def number(self, kind: type = float) -> float:
        """Return a number of the given type."""
        allowed = int if kind is int else int | float
        if isinstance(self.value, bool) or not isinstance(self.value, allowed):
            raise _odd(self.name, "an integer" if kind is int else "a number")
        try:
            return kind(self.value)  # type: ignore[no-any-return]
        except OverflowError as error:
            raise _odd(self.name, "a number that float64 holds") from error

    def array(self) -> FloatArray:
        """Return an array of numbers."""
        read = {
            "probe.column_std": self._deviations,
            "probe.second.weights": self._coefficients,
            _LOWER: self._mirrored,
        } | {path: self._columns for path in _PACKED}
        try:
            return read.get(self.name, self._listed)()
        except ValueError as error:  # rows of unequal length, or no base64
            raise _odd(self.name, "numbers in rows of one length") from error

    def _listed(self) -> FloatArray:
        for row in self.items():
            for item in row.items() if isinstance(row.value, list) else [row]:
                _Field(self.name, item.value).number()
        return np.array(self.value, dtype=np.float64)

    def _mirrored(self) -> FloatArray:
        """Return a symmetric matrix, of which the file holds the lower triangle."""
        rows = [row.items(k + 1) for k, row in enumerate(self.items(self.classes))]
        lower = np.zeros((self.classes, self.classes))
        lower[np.tril_indices(self.classes)] = [x.number() for row in rows for x in row]
        return lower + np.tril(lower, -1).T

    def _deviations(self) -> FloatArray:
        """Return column standard deviations; single-precision features have none above e^110."""
        logs = self._unpacked()
        if not (logs <= 110.0).all():
            raise _odd(self.name, "logarithms of at most 110")
        return np.exp(logs)

    def _coefficients(self) -> FloatArray:
        """Return the coefficients of the second opinion."""
        weights = self._unpacked().reshape(-1, self.classes)
        if not np.isfinite(weights).all():
            raise _odd(self.name, "finite numbers")
        return weights

    def _columns(self) -> FloatArray:
        """Return what is known of columns."""
        return self._unpacked(_PACKED[self.name])

    def _unpacked(self, kind: str = "<f2") -> FloatArray:
        if not isinstance(self.value, str):
            raise _odd(self.name, "base64")
        return np.frombuffer(base64.b64decode(self.value, validate=True), kind).astype(np.float64)

    def parsed(self, kind: Any) -> Any:
        """Return a value of a type."""
        origin, parts = get_origin(kind), get_args(kind)
        if NoneType in parts:
            if self.value is None:
                return None
            first = parts[0] if len(parts) == 2 or isinstance(self.value, parts[0]) else parts[1]
            return self.parsed(first)
        if kind is str:
            return self.text()
        if kind is bool:
            if not isinstance(self.value, bool):
                raise _odd(self.name, "true or false")
            return self.value
        if kind in (int, float):
            return self.number(kind)
        if origin is np.ndarray:
            return self.array()
        if origin in (tuple, frozenset):
            return origin(item.parsed(parts[0]) for item in self.items())
        if kind == dict[str, float]:
            row = self.items(len(_EVERY))
            return {name: item.number() for name, item in zip(_EVERY, row, strict=True)}
        if origin is dict:
            return {key: self[key].parsed(parts[1]) for key in ("model", "logits")}
        hints = _hints(kind)
        if issubclass(kind, tuple):
            return kind(*(item.number() for item in self.items(len(hints))))
        names = (item.name for item in fields(kind) if item.name not in IN_MEMORY)
        return kind(**{name: self[name].parsed(hints[name]) for name in names})
