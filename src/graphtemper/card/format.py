"""What a card may hold, and the card as JSON, written from the fields of its dataclasses.

The type of a field says what its JSON value is, and its `Rule` what else must hold: a range, a
shape, and how an array is stored. `checked` applies the rules to every value that becomes part of a
card, which then has the digits of its file: a card answers before it was saved as it does after
loading. Reading a file gives values of the right types, and the card that is made of them applies
the rules. An error names the damaged field.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

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
SCHEMA, OLDER = "graphtemper.card/7", ("graphtemper.card/6",)
"""The schema that is written, and older ones that are read as well."""
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
# Significant digits, and those of matrices with many numbers, which would fill a card.
_DIGITS, _FEWER_DIGITS, _MANY = 8, 5, 1000
_INDEX = re.compile(r"\[[^]]*\]")


class Storage(NamedTuple):
    """How a file holds an array: what is written, and the array (of K classes) it is read as."""

    write: Callable[[FloatArray], Any]
    read: Callable[[Any, int], FloatArray]


def _listed(array: FloatArray, most: int = _DIGITS) -> Any:
    digits = most if array.size < _MANY else _FEWER_DIGITS
    rounded = [float(f"{value:.{digits}g}") for value in array.ravel().tolist()]
    if digits == _FEWER_DIGITS:  # counts of nodes in large matrices are whole
        rounded = [int(x) if x.is_integer() and abs(x) < 1e8 else x for x in rounded]
    return np.array(rounded, dtype=object).reshape(array.shape).tolist()


def _unlisted(value: Any, _: int = 0) -> FloatArray:
    array = np.array(value)
    if array.dtype.kind not in "iuf":
        raise ValueError("these are not numbers")
    return array.astype(np.float64)


def _halved(matrix: FloatArray) -> Any:
    """Return the lower triangle of a symmetric matrix, which says all, by rows."""
    return [row[: k + 1] for k, row in enumerate(_listed(matrix))]


def _mirrored(rows: Any, classes: int) -> FloatArray:
    if [len(row) for row in rows] != list(range(1, classes + 1)):
        raise ValueError("this is no triangle")
    lower = np.zeros((classes, classes))
    lower[np.tril_indices(classes)] = _unlisted(list(chain(*rows)))
    return lower + np.tril(lower, -1).T


def _packed(array: FloatArray, kind: str) -> str:
    return base64.b64encode(array.astype(kind).tobytes()).decode("ascii")


def _unpacked(text: Any, classes: int, kind: str, rows: bool = False) -> FloatArray:
    values = np.frombuffer(base64.b64decode(text, validate=True), kind).astype(np.float64)
    return values.reshape(-1, classes) if rows else values


def _packed_logs(array: FloatArray) -> str:
    with np.errstate(divide="ignore"):
        return _packed(np.log(array), "<f2")


def _unpacked_logs(text: Any, classes: int) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.exp(_unpacked(text, classes, "<f2"))


LISTED = Storage(_listed, _unlisted)
FEWER = Storage(partial(_listed, most=_FEWER_DIGITS), _unlisted)
TRIANGLE = Storage(_halved, _mirrored)
# Of what there may be many, a thousandth is precise enough.
HALF_LOGS = Storage(_packed_logs, _unpacked_logs)
HALF_ROWS = Storage(partial(_packed, kind="<f2"), partial(_unpacked, kind="<f2", rows=True))
HALF, SINGLE = (
    Storage(partial(_packed, kind=kind), partial(_unpacked, kind=kind)) for kind in ("<f2", "<f4")
)


@dataclass(frozen=True)
class Rule:
    """What must hold of a field, and how a file holds it.

    ``shape`` is that of an array; K stands for the number of classes, F for that of columns, None
    for any. ``holds`` is the condition that ``expected`` says in words.
    """

    low: float = -LARGEST
    high: float = LARGEST
    shape: tuple[int | str | None, ...] = (None,)
    storage: Storage = LISTED
    holds: Callable[[Any], bool] = lambda value: True
    expected: str = ""


def _are_shares(values: FloatArray) -> bool:
    return bool(values.min() >= 0.0 and abs(values.sum() - 1.0) <= 1e-3)


def _is_covariance(matrix: FloatArray) -> bool:
    """Return whether a matrix is symmetric; another would give negative variances later."""
    size = float(np.abs(matrix).max())
    return bool(np.allclose(matrix, matrix.T, atol=1e-3 * size) and (np.diag(matrix) >= 0.0).all())


def _are_once(names: Sequence[str], readable: Sequence[str]) -> bool:
    return 0 < len(names) == len(set(names)) and set(names) <= set(readable)


def _are_responses(responses: dict[str, Any]) -> bool:
    readable = {"model": SIGNALS, "logits": LOGIT_SIGNALS}
    return all(_are_once(responses[kind].names, names) for kind, names in readable.items())


def _are_node_responses(responses: dict[str, Any] | None) -> bool:
    return responses is None or all(
        _are_once(item.names, KINDS[kind])
        and {len(item.names)}
        == {values.size for values in (item.origin, item.scale, item.weights, item.slopes)}
        for kind, item in responses.items()
    )


def _are_columns(columns: Any) -> bool:
    if columns is None:
        return True
    trios = ((part.mean, part.deviation, part.common) for part in (columns.nodes, columns.whole))
    every = [columns.columns, columns.steps, columns.factors, *(x for trio in trios for x in trio)]
    ascending = (np.diff(columns.columns, prepend=-1.0) > 0.0).all()
    return len({values.size for values in every}) == 1 and bool(ascending)


def _are_environments(environments: Sequence[Any]) -> bool:
    kinds = {type(item.when) for item in environments if item.when is not None}
    names = {item.name for item in environments}
    return len(kinds) <= 1 and len(names) == len(environments)


_SHARES = Rule(0.0, 1.0, ("K",), holds=_are_shares, expected="shares that sum to 1")
# Rules of the kinds of fields that the evidence declares.
_EVIDENCE = {
    "number": Rule(),
    "classes": Rule(shape=("K",)),
    "shares": _SHARES,
    "square": Rule(
        shape=("K", "K"), storage=TRIANGLE, holds=_is_covariance, expected="a covariance"
    ),
    "covariance": Rule(holds=lambda pair: pair and pair[1] >= 0.0, expected="a value and an error"),
}
# Rules by the name of a field; weights act on log T, and origins are logarithms.
_OF_NAME: dict[str, Rule] = {
    **dict.fromkeys(("accuracy", "edge_share", "recalls", "edges"), Rule(0.0, 1.0)),
    **dict.fromkeys(("shuffled", "rewired", "elsewhere"), Rule(0.0, 1.0)),
    **dict.fromkeys(("noise_level", "error", "counts"), Rule(0.0, 1e8)),
    **dict.fromkeys(("linear", "smooth", "length", "noise", "scale"), Rule(1e-12, 1e9)),
    **dict.fromkeys(("separation", "slope"), Rule(1e-6, 1e6)),
    **dict.fromkeys(("signals", "origin", "weights", "slopes", "gain"), Rule(-1e6, 1e6)),
    **dict.fromkeys(("biases", "classes"), Rule(-1e6, 1e6, ("K",))),
    **dict.fromkeys(("passes", "node", "edge", "edge_features"), Rule(0, 2**63)),
    **dict.fromkeys(("num_nodes", "num_features"), Rule(1, 10**12)),
    "num_classes": Rule(2, MAX_BYTES),
    "splits": Rule(1, 100),
    "temperature": Rule(1e-150, 1e150),
    "widening": Rule(1.0, 1e6),
    "when": Rule(-1e15, 1e15),
    "privacy": Rule(1e-9, MOST_EPSILON),
    "shares": _SHARES,
}


def _each(name: str) -> tuple[str, str]:
    return f"columns.nodes.{name}", f"columns.whole.{name}"


_OF_PATH: dict[str, Rule] = {
    "fingerprint": Rule(shape=(None, "K"), storage=FEWER),  # recognised by three digits
    "probe.column_std": Rule(0.0, 1e50, ("F",), HALF_LOGS),
    "probe.second.weights": Rule(
        shape=(None, "K"),
        storage=HALF_ROWS,
        holds=lambda values: 2 <= len(values) <= SKETCH + 1,
        expected=f"coefficients of at most {SKETCH} sums",
    ),
    **{
        f"reference.evidence.{name}": replace(_EVIDENCE[item.kind], low=item.low, high=item.high)
        for name, item in Evidence.declared().items()
    },
    "reference.moments.offsets": Rule(shape=("K", "K")),
    "population.recalls": Rule(0.0, 1.0, ("K",)),
    "population.sketch": Rule(
        holds=lambda values: 0 < values.size <= drift.SKETCH_SIZE,
        expected=f"at most {drift.SKETCH_SIZE} numbers",
    ),
    "population.apart": Rule(storage=HALF),
    "class_profile.counts": Rule(0.0, 1e8, ("3K", "K")),
    "class_profile.edges": Rule(0.0, 1.0, (THIRDS - 1,)),
    "responses": Rule(holds=_are_responses, expected="readable signals, each listed once"),
    "node_responses": Rule(holds=_are_node_responses, expected="one number per node signal"),
    "atlas": Rule(holds=lambda points: 3 <= len(points) <= 5000, expected="3 to 5000 shifts"),
    "columns": Rule(holds=_are_columns, expected="numbers of each column, which are listed once"),
    **dict.fromkeys(("columns.columns", *_each("mean")), Rule(storage=SINGLE)),
    **dict.fromkeys(_each("deviation"), Rule(low=0.0, storage=SINGLE)),
    **dict.fromkeys(("columns.steps", "columns.factors", *_each("common")), Rule(storage=HALF)),
    "environments": Rule(holds=_are_environments, expected="named, with one kind of time"),
    "environments[].sketch": Rule(
        holds=lambda values: len(values) == SKETCH_SIZE, expected=f"{SKETCH_SIZE} numbers"
    ),
    "environments[].sketch[]": Rule(-FARTHEST, FARTHEST),
    "environments[].earlier": Rule(0.0, 1.0, ("P", "P+1")),
}


@cache
def _rule_of_path(path: str) -> Rule:
    name = path.rpartition(".")[2].removesuffix("[]")
    return _OF_PATH.get(path) or _OF_NAME.get(name) or Rule()


def _rule(name: str) -> Rule:
    """Return the rule of a field, such as ``atlas[2].accuracy``."""
    return _rule_of_path(_INDEX.sub("[]", name))


def _odd(name: str, expected: str) -> InputError:
    """Return the error of a value that is not what was expected."""
    return errors.content(f"field {name!r} must be {expected}; the card is damaged.")


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


def checked(card: Any) -> dict[str, Any]:
    """Return the fields of a card that a file holds, as it would hold them, or raise an error."""
    classes, features = card.num_classes, card.num_features
    if not (isinstance(classes, int) and isinstance(features, int)):
        raise errors.content("the numbers of classes and of features must be integers.")
    if card.columns is not None and not card.columns.columns.max(initial=0.0) < features:
        raise _odd("columns.columns", "numbers of columns")
    sizes = {"K": classes, "3K": THIRDS * classes, "F": features}
    sizes |= {"P": num_columns(classes), "P+1": num_columns(classes) + 1}
    return {name: _kept(getattr(card, name), name, sizes) for name in _stored(card)}


def _stored(value: Any) -> list[str]:
    return [item.name for item in fields(value) if item.name not in IN_MEMORY]


def _kept(value: Any, name: str, sizes: dict[str, int]) -> Any:
    """Return a value with the digits of a file, if its rule holds."""
    kept, rule = _kept_parts(value, name, sizes), _rule(name)
    if not rule.holds(kept):
        raise _odd(name, rule.expected)
    return kept


def _kept_parts(value: Any, name: str, sizes: dict[str, int]) -> Any:
    if value is None or isinstance(value, str | bool | frozenset):
        return value
    if isinstance(value, int | float | np.ndarray):
        return _kept_numbers(value, name, sizes)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {x: _kept(getattr(value, x), f"{name}.{x}", sizes) for x in _stored(value)}
        return replace(value, **parts)
    if isinstance(value, dict):
        form = "{}[{}]" if value.keys() == set(_EVERY) else "{}.{}"
        return {key: _kept(x, form.format(name, key), sizes) for key, x in value.items()}
    kept = [_kept(x, f"{name}[{i}]", sizes) for i, x in enumerate(value)]
    return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)


def _kept_numbers(value: Any, name: str, sizes: dict[str, int]) -> Any:
    rule, kept = _rule(name), value
    if isinstance(value, np.ndarray):
        shape = tuple(sizes.get(str(size), size) for size in rule.shape)
        fits = value.ndim == len(shape) and value.size > 0
        if not fits or any(
            size not in (None, have) for have, size in zip(value.shape, shape, strict=True)
        ):
            raise _odd(name, f"{' x '.join(str(size or 'any') for size in shape)} numbers")
        kept = rule.storage.read(rule.storage.write(value), sizes["K"])
    elif isinstance(value, float):
        kept = float(f"{value:.{_DIGITS}g}")
    # Integers of any length are compared exactly; NaN fails every comparison.
    if not np.all((rule.low <= kept) & (kept <= rule.high)):
        raise _odd(name, f"between {rule.low:g} and {rule.high:g}")
    return kept


def to_json(card: Any) -> str:
    """Return the text of a card's file; large matrices have fewer digits."""
    return sealed({"schema": SCHEMA} | _plain(card, "") | {"signals": list(_EVERY)})


def _plain(value: Any, name: str) -> Any:
    """Return what JSON holds of a value of a card."""
    if is_dataclass(value):
        return {x: _plain(getattr(value, x), f"{name}.{x}" if name else x) for x in _stored(value)}
    if isinstance(value, dict):
        if value.keys() == set(_EVERY):  # the same names in every row would fill the card
            return [value[key] for key in _EVERY]
        return {key: _plain(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _rule(name).storage.write(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(item, f"{name}[]") for item in value]
    return value


def from_json(text: str, kind: type[Card]) -> Card:
    """Read the text of a card's file.

    Unknown fields are ignored. A missing or invalid field is named in an `InputError`; a card of
    another schema is a `VersionError`.
    """
    try:
        content = parse_json(text)
    except InputError as error:
        raise errors.content(f"this is not a source card: {error}") from error
    schema = _parsed(str, _member(content, "", "schema"), "schema", 0)
    if schema.rpartition("/")[0] != SCHEMA.rpartition("/")[0]:
        raise errors.content(f"this is a file of {schema!r}, not a source card.")
    if schema not in (SCHEMA, *OLDER):
        raise VersionError(
            f"field 'schema' is {schema!r} but this version reads {SCHEMA!r}; build the card again."
        )
    check_seal(content, required=True)
    if schema in OLDER:
        _complete(content)
    classes = _parsed(int, _member(content, "", "num_classes"), "num_classes", 0)
    if not 2 <= classes <= MAX_BYTES:
        raise _odd("num_classes", f"between 2 and {MAX_BYTES}")
    if _member(content, "", "signals") != list(_EVERY):
        raise _odd("signals", f"{len(_EVERY)} signals in the order of this version")
    card: Card = _parsed(kind, content, "", classes)
    return card


def _complete(content: dict[str, Any]) -> None:
    """Add the fields that an older card lacks, as a card has them where nothing was measured."""
    content.setdefault("columns", None)
    content.setdefault("elsewhere", None)
    content.setdefault("ends", {"shuffled": None, "rewired": None})
    if isinstance(content.get("population"), dict):
        content["population"].setdefault("apart", None)


_hints = cache(get_type_hints)
_WORDS = {str: "a short string", bool: "true or false", int: "an integer", float: "a number"}


def _member(value: Any, name: str, key: str) -> Any:
    if not isinstance(value, dict):
        raise _odd(name, "an object")
    if key not in value:
        whole = f"{name}.{key}" if name else key
        raise errors.content(f"field {whole!r} is missing; the card is damaged.")
    return value[key]


def _entries(value: Any, name: str, count: int | None = None) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_BYTES or len(value) != (count or len(value)):
        raise _odd(name, "a list" if count is None else f"a list of {count} entries")
    return value


def _parsed(kind: Any, value: Any, name: str, classes: int) -> Any:
    """Return a JSON value as a value of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        if value is None:
            return None
        first = parts[0] if len(parts) == 2 or isinstance(value, parts[0]) else parts[1]
        return _parsed(first, value, name, classes)
    if kind in _WORDS:
        return _scalar(kind, value, name)
    if origin is np.ndarray:
        try:
            return _rule(name).storage.read(value, classes)
        except (ValueError, TypeError) as error:
            raise _odd(name, "numbers in rows of one length, or base64") from error
    if origin in (tuple, frozenset):
        entries = enumerate(_entries(value, name))
        return origin(_parsed(parts[0], item, f"{name}[{i}]", classes) for i, item in entries)
    if kind == dict[str, float]:
        row = _entries(value, name, len(_EVERY))
        pairs = zip(_EVERY, row, strict=True)
        return {key: _scalar(float, item, f"{name}[{key}]") for key, item in pairs}
    if origin is dict:
        every = {key: (_member(value, name, key), f"{name}.{key}") for key in KINDS}
        return {key: _parsed(parts[1], *item, classes) for key, item in every.items()}
    if issubclass(kind, tuple):
        row = _entries(value, name, len(_hints(kind)))
        return kind(*(_scalar(float, item, f"{name}[{i}]") for i, item in enumerate(row)))
    hints, start = _hints(kind), f"{name}." if name else ""
    every = {key: (_member(value, name, key), f"{start}{key}") for key in _stored(kind)}
    return kind(**{key: _parsed(hints[key], *item, classes) for key, item in every.items()})


def _scalar(kind: type, value: Any, name: str) -> Any:
    allowed = (int, float) if kind is float else kind
    right = isinstance(value, allowed) and isinstance(value, bool) == (kind is bool)
    if not right or (kind is str and len(value) > 1000):
        raise _odd(name, _WORDS[kind])
    try:
        return kind(value)
    except OverflowError as error:
        raise _odd(name, "a number that float64 holds") from error
