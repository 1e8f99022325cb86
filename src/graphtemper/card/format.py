"""The card as JSON: schema, rounding, and checks that name the damaged field."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.checksum import check_seal, sealed
from graphtemper._core.safe_reading import parse_json
from graphtemper.card.class_profile import THIRDS, CardData, ClassProfile
from graphtemper.card.fields import LARGEST, Field
from graphtemper.card.graph_types import NO_TYPES, GraphTypes
from graphtemper.card.natural_format import labelled_environments, write_labelled_environments
from graphtemper.card.node_response import KINDS, NodeResponse
from graphtemper.card.private_labels import MOST_EPSILON
from graphtemper.card.response import Kernel
from graphtemper.card.source import Environment
from graphtemper.errors import InputError
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.dependence import HOPS, MOST_PARTS
from graphtemper.signals.evidence import LOGIT_SIGNALS, SIGNALS, Evidence, Probe, Reference
from graphtemper.signals.gains import ClassMoments
from graphtemper.signals.share_drift import SKETCH_SIZE, DriftBaseline

Card = TypeVar("Card", bound=CardData)
SCHEMA = "graphtemper.card/4"
# Those of schema 3 hold exact numbers; those of schema 2 have no checksum either.
_READABLE = (SCHEMA, "graphtemper.card/3", "graphtemper.card/2")
_EVERY = tuple(dict.fromkeys((*SIGNALS, *LOGIT_SIGNALS)))
_COVARIANCES = ("feature", "own_feature", "edge", "wedge", "held")
_SHARED = ("column_std", "shared_splits", "copies")
_NODE_ARRAYS = ("origin", "scale", "weights", "slopes")
# Weights act on log T and origins are logarithms; none of them is ever large.
_LARGEST_WEIGHT = 1e6
# More source nodes than this cannot be compared with a target's in one table.
_MOST_NODES = 1e8
# From this number of classes on, half of a symmetric matrix is stored.
_MANY_CLASSES = 20
# Biases are log-odds of class shares.
_LARGEST_BIAS = 1e3


def to_json(card: CardData) -> str:
    """Return the text of a card's file; numbers have six significant digits."""
    probe = card.probe
    content = {
        "schema": SCHEMA,
        "predictor": card.predictor,
        "num_classes": card.num_classes,
        "num_features": card.num_features,
        "num_nodes": card.num_nodes,
        "fingerprint": None if card.fingerprint is None else card.fingerprint.tolist(),
        "excluded": list(card.excluded),
        **({} if card.types == NO_TYPES else {"types": card.types.to_dict()}),
        **({} if card.passes is None else {"passes": card.passes}),
        **({} if card.privacy is None else {"privacy": card.privacy}),
        "probe": {
            **{key: value for key, value in probe.__dict__.items() if key not in _SHARED},
            **(
                {key: int(probe.__dict__[key]) for key in _SHARED[1:]}
                if probe.shared_splits
                else {}
            ),
            "column_std": _pack(probe.column_std),
        },
        "reference": {
            "accuracy": card.reference.accuracy,
            "evidence": _half(card.reference.evidence.to_dict()),
            "moments": {
                key: value.tolist() for key, value in card.reference.moments.__dict__.items()
            },
        },
        "population": {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in card.population.__dict__.items()
        },
        "class_profile": _write_class_profile(card.class_profile),
        "node_response": _write_node_responses(card.node_responses),
        "names": {kind: list(names) for kind, names in card.names.items()},
        "kernels": {kind: kernel.__dict__ for kind, kernel in card.kernels.items()},
        "widening": card.widening,
        "signals": list(_EVERY),
        "environments": [
            {
                **item.__dict__,
                "families": sorted(item.families),
                "signals": [item.signals[name] for name in _EVERY],
            }
            for item in card.environments
        ],
        "natural": write_labelled_environments(card.natural, _EVERY),
    }
    return sealed(_rounded(content))


def from_json(text: str, kind: type[Card]) -> Card:
    """Read the text of a card's file into a card of the given type.

    Unknown fields are ignored. A missing or invalid field is named in an `InputError`.
    """
    try:
        content = parse_json(text)
    except InputError as error:
        raise InputError(f"this is not a source card: {error}") from error
    root = Field("card", content)
    schema = root["schema"].text()
    if schema not in _READABLE and not schema.startswith(SCHEMA.rpartition("/")[0]):
        raise InputError(f"this is a file of {schema!r}, not a source card.")
    if schema not in _READABLE:
        raise InputError(
            f"field 'schema' is {schema!r} but this version reads {SCHEMA!r}; use a matching "
            "version of graphtemper."
        )
    check_seal(content, required=schema != _READABLE[-1])
    classes = root["num_classes"].count(2, 100_000)
    features = root["num_features"].count(1, 100_000_000)
    recorded, spent = root["fingerprint"], root.get("privacy")
    return kind(
        predictor=root["predictor"].text(),
        num_classes=classes,
        num_features=features,
        num_nodes=root["num_nodes"].count(1, 10**12),
        fingerprint=None if recorded.value is None else recorded.array((None, classes)),
        probe=_probe(root["probe"], features),
        reference=_reference(root["reference"], classes),
        population=_population(root["population"], classes),
        environments=tuple(
            _environment(item, _order(root["signals"]))
            for item in root["environments"].items(3, 5000)
        ),
        names={
            "model": _names(root["names"]["model"], SIGNALS),
            "logits": _names(root["names"]["logits"], LOGIT_SIGNALS),
        },
        kernels={kind: _kernel(root["kernels"][kind]) for kind in ("model", "logits")},
        widening={kind: root["widening"][kind].number(1.0, 1e6) for kind in ("model", "logits")},
        excluded=tuple(item.text() for item in root["excluded"].items(0, 100)),
        class_profile=_class_profile(root.get("class_profile"), classes, schema == SCHEMA),
        node_responses=_node_responses(root.get("node_response"), classes),
        natural=labelled_environments(root.get("natural"), _order(root["signals"]), _EVERY),
        types=GraphTypes.read(root.get("types")),
        passes=_optional_count(root, "passes", 10**12),
        privacy=None if spent is None else spent.number(1e-9, MOST_EPSILON),
    )


def at_file_precision(card: Card) -> Card:
    """Return the card with every number rounded as in its file."""
    return from_json(to_json(card), type(card))


def _probe(field: Field, features: int) -> Probe:
    return Probe(
        temperature=field["temperature"].number(1e-150, 1e150),
        noise_level=field["noise_level"].number(0.0, 1e6),
        column_std=_unpack(field["column_std"], features),
        confidence_threshold=field["confidence_threshold"].number(-1e9, 1e9),
        entropy_threshold=field["entropy_threshold"].number(-1e9, 1e9),
        seed=field["seed"].count(0, 2**63),
        splits=field["splits"].count(1, 100),
        passes=field["passes"].count(2, 1000),
        edge_share=field["edge_share"].number(0.0, 1.0),
        shared_splits=_optional_count(field, "shared_splits", 100) or 0,
        copies=_optional_count(field, "copies", 1) != 0,
    )


def _optional_count(field: Field, name: str, most: int) -> int | None:
    item = field.get(name)
    return None if item is None else item.count(0, most)


def _reference(field: Field, classes: int) -> Reference:
    moments, measured = field["moments"], field["evidence"]
    square = (classes, classes)
    plain = ("confidence", "confident_share", "certain_share", "log_degree")
    agreements = ("noise_agreement", "source_noise_agreement", "edge_agreement")
    numbers: dict[str, Any] = {
        name: measured[name].number(-1e9, 1e9) for name in (*plain, *agreements)
    }
    covariances: dict[str, Any] = {name: _covariance(measured[name]) for name in _COVARIANCES}
    return Reference(
        accuracy=field["accuracy"].number(0.0, 1.0),
        moments=ClassMoments(
            shares=moments["shares"].shares(classes),
            offsets=moments["offsets"].array(square),
        ),
        evidence=Evidence(
            mean=measured["mean"].array((classes,)),
            covariance=_spread(measured["covariance"], classes),
            predicted_shares=measured["predicted_shares"].shares(classes),
            mean_abs_logit=measured["mean_abs_logit"].number(0.0, LARGEST),
            homophily=None
            if measured["homophily"].value is None
            else measured["homophily"].number(0.0, 1.0),
            snr=None if measured["snr"].value is None else measured["snr"].number(-1e300, 1e300),
            **numbers,
            **covariances,
        ),
    )


def _half(measured: dict[str, Any]) -> dict[str, Any]:
    """Return evidence whose covariance between many classes is cut below its diagonal."""
    rows = measured["covariance"]
    if len(rows) < _MANY_CLASSES:
        return measured
    return measured | {"covariance": [row[: k + 1] for k, row in enumerate(rows)]}


def _covariance(field: Field) -> Covariance:
    value, error = field.array((2,)).tolist()
    if error < 0.0:
        raise InputError(f"field {field.name!r} has a negative error; the card is damaged.")
    return Covariance(value, error)


def _spread(field: Field, classes: int) -> FloatArray:
    """Read a covariance matrix; another matrix would give negative variances later."""
    rows = field.value
    lengths = [type(row) is list and len(row) for row in rows] if type(rows) is list else []
    if lengths == [*range(1, classes + 1)]:
        rows = [[*row, *(later[k] for later in rows[k + 1 :])] for k, row in enumerate(rows)]
    matrix = Field(field.name, rows).array((classes, classes))
    size = float(np.abs(matrix).max())
    if not np.allclose(matrix, matrix.T, atol=1e-3 * size) or (np.diag(matrix) < 0.0).any():
        raise InputError(f"field {field.name!r} must be a covariance; the card is damaged.")
    return matrix


def _recalls(field: Field, classes: int) -> FloatArray:
    values = field.array((classes,))
    if values.min() < 0.0 or values.max() > 1.0:
        raise InputError(f"field {field.name!r} must lie between 0 and 1; the card is damaged.")
    return values


def _sketch(field: Field) -> FloatArray:
    sketch = field.array((None,))
    if not 1 <= sketch.size <= SKETCH_SIZE:
        raise field.odd(f"1 to {SKETCH_SIZE} numbers")
    return sketch


def _population(field: Field, classes: int) -> DriftBaseline:
    return DriftBaseline(
        sketch=_sketch(field["sketch"]),
        num_nodes=field["num_nodes"].count(1, 10**12),
        separation=field["separation"].number(1e-6, 1e6),
        recalls=_recalls(field["recalls"], classes),
    )


def _write_class_profile(profile: ClassProfile | None) -> dict[str, Any] | None:
    """Return a class profile as plain values."""
    if profile is None:
        return None
    unknown = ("dependence", "design_effect") if profile.dependence is None else ()
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in profile.__dict__.items()
        if key != "rounded" and key not in unknown  # the schema says whether they are rounded
    }


def _class_profile(field: Field | None, classes: int, rounded: bool) -> ClassProfile | None:
    """Read the class profile; None in cards of earlier versions and of models without signal."""
    if field is None or field.value is None:
        return None
    counts = field["counts"].array((THIRDS * classes, classes))
    integers = counts.min() >= 0.0 and bool((counts == np.rint(counts)).all())
    if not integers or not 1.0 <= counts.sum() <= _MOST_NODES:
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
    slope, parts = field["slope"].number(1e-3, 1e3), field.get("dependence")
    profile = ClassProfile(counts.astype(np.int64), edges, slope, biases, rounded)
    if parts is None:
        return profile
    weights = parts.array((None,))
    if weights.size not in (MOST_PARTS, 1 + HOPS) or weights.min() < 0.0 or not weights.any():
        raise parts.odd("weights of kernels")
    effect = field["design_effect"].number(1.0, 1e12)
    return replace(profile, dependence=weights, design_effect=effect)


def _write_node_responses(responses: dict[str, NodeResponse] | None) -> dict[str, Any] | None:
    """Return node responses as plain values."""
    if responses is None:
        return None
    return {
        kind: {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in response.__dict__.items()
        }
        for kind, response in responses.items()
    }


def _node_responses(field: Field | None, classes: int) -> dict[str, NodeResponse] | None:
    """Read the node responses; None in cards of earlier versions."""
    if field is None or field.value is None:
        return None
    return {
        kind: _node_response(field[kind], readable, classes) for kind, readable in KINDS.items()
    }


def _node_response(field: Field, readable: tuple[str, ...], classes: int) -> NodeResponse:
    names = tuple(item.text() for item in field["names"].items(1, len(readable)))
    if len(set(names)) < len(names) or not set(names) <= set(readable):
        raise InputError(
            f"field {field.name + '.names'!r} must list node signals once each; the card is "
            "damaged."
        )
    numbers: dict[str, Any] = {key: field[key].array((len(names),)) for key in _NODE_ARRAYS}
    numbers["classes"] = field["classes"].array((classes,))
    for key, values in numbers.items():
        if np.abs(values).max() > _LARGEST_WEIGHT:
            raise InputError(f"field '{field.name}.{key}' is too large; the card is damaged.")
    if numbers["scale"].min() <= 0.0:
        raise InputError(f"field '{field.name}.scale' must be positive; the card is damaged.")
    gain, error = field["gain"].number(-1e6, 1e6), field["error"].number(0.0, 1e6)
    return NodeResponse(names=names, **numbers, gain=gain, error=error)


def read_environment(row: dict[str, Any]) -> Environment:
    """Read an environment from a row of a journal; an `InputError` names the damaged field."""
    field = Field("environment", row)
    values = {name: field["signals"][name].number(-1e3, 1e3) for name in _EVERY}
    return _with_signals(field, values)


def _order(field: Field) -> list[str]:
    """Read the order of the signals in the rows of the environments."""
    names = [item.text() for item in field.items(1, 100)]
    missing = [name for name in _EVERY if name not in names]
    if missing:
        raise InputError(f"field {field.name!r} lacks {missing[0]!r}; the card is damaged.")
    return names


def _environment(field: Field, names: list[str]) -> Environment:
    row = field["signals"].items(len(names), len(names))
    values = {
        name: item.number(-1e3, 1e3)
        for name, item in zip(names, row, strict=True)
        if name in _EVERY  # a later version may write others as well
    }
    return _with_signals(field, values)


def _with_signals(field: Field, signals: dict[str, float]) -> Environment:
    return Environment(
        shift=field["shift"].text(),
        families=frozenset(item.text() for item in field["families"].items(0, 20)),
        signals=signals,
        accuracy=field["accuracy"].number(0.0, 1.0),
        temperature=field["temperature"].number(0.0, 1e300),
    )


def _names(field: Field, readable: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(item.text() for item in field.items(1, 20))
    for name in names:
        if name not in readable or names.count(name) > 1:
            raise InputError(
                f"field {field.name!r} holds {name!r}, which is not a readable signal or is listed "
                "twice; the card is damaged."
            )
    return names


def _kernel(field: Field) -> Kernel:
    return Kernel(**{name: field[name].number(1e-12, 1e9) for name in Kernel.__dataclass_fields__})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def as_stored(std: FloatArray) -> FloatArray:
    """Return column standard deviations rounded as in a card.

    Examples
    --------
    >>> as_stored(np.array([0.0, 1.0, 3.0])).round(4).tolist()
    [0.0, 1.0, 3.0]
    """
    return _unpack(Field("column_std", _rounded(_pack(std))), std.size)


def _pack(std: FloatArray) -> dict[str, Any]:
    """Encode column standard deviations as one byte each, on a logarithmic scale.

    There may be many columns, and a few percent are precise enough for the strength of a
    perturbation.
    """
    positive = std[std > 0]
    low, high = (
        (float(np.log(positive.min())), float(np.log(positive.max()))) if positive.size else (0, 0)
    )
    width = max(high - low, 1e-12)
    codes = np.zeros(std.size, dtype=np.uint8)
    codes[std > 0] = 1 + np.round((np.log(positive) - low) / width * 254).astype(np.uint8)
    return {"low": low, "high": high, "codes": base64.b64encode(codes.tobytes()).decode("ascii")}


def _unpack(field: Field, size: int) -> FloatArray:
    # Single-precision features have no columns outside this range.
    low, high = (field[end].number(-110.0, 110.0) for end in ("low", "high"))
    if high < low:
        raise InputError(f"field '{field.name}.high' must not be below 'low'.")
    text = field["codes"].value
    try:
        codes = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"field '{field.name}.codes' must be base64; the card is damaged."
        ) from error
    if codes.size != size:
        raise InputError(f"field '{field.name}.codes' has {codes.size} columns, not {size}.")
    values = np.exp(low + (codes.astype(np.float64) - 1.0) / 254 * max(high - low, 1e-12))
    return np.where(codes > 0, values, 0.0)
