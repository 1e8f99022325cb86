"""A map of the atlas: environments and target in the plane of largest variance."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.recalibration.findings import Background

SEVERAL = "several at once"
"""The family of an environment that combines shifts of several families."""
# What people call the families; others keep their names.
FAMILIES = {
    "none": "the source itself",
    "noise": "feature noise",
    "mask": "masked features",
    "shuffle": "swapped features",
    "blend": "blended features",
    "smooth": "smoothed features",
    "scale": "scaled features",
    "offset": "shifted columns",
    "drop_columns": "missing columns",
    "heterogeneous": "noise on half the nodes",
    "rewire": "rewired edges",
    "drop": "missing edges",
    "add": "extra edges",
    "drop_hubs": "edges missing at hubs",
    "homophily": "changed homophily",
    "subpopulation": "part of the nodes",
    "resample_classes": "other class shares",
}
# Share of the environments at each side that may lie outside the picture.
_OUTLIERS = 0.03
_NAMED = 2
# Weight of the target in choosing the plane, as a fraction of the environments.
_TARGET_SHARE = 0.1


def atlas_map(background: Background) -> dict[str, Any]:
    """Return the positions of the target and the environments, nearest first, as plain values.

    Coordinates are principal components, in atlas standard deviations, of the environments, the
    source and the target, which is weighted as a tenth of them: a target near them hardly changes
    the plane, and a distant one appears distant. ``off_map`` is its distance from the plane.
    Distances are those in the space of all signals, not on the map.
    """
    response, card = background.response, background.card
    target = response.coordinates(background.signals)
    references = np.vstack([response.points, np.zeros((1, len(response.names)))])
    every = np.vstack([references, target])
    weight = max(1.0, round(_TARGET_SHARE * len(references)))
    weights = np.append(np.ones(len(references)), weight)
    centre = np.average(every, axis=0, weights=weights)
    axes = principal_axes(every - centre, weights)
    flat, here = (references - centre) @ axes.T, (target - centre) @ axes.T
    distance = np.sqrt(((references - target) ** 2).sum(axis=1))
    scale = card.probe.temperature
    points = [
        {
            "shift": item.shift,
            "label": shift_label(item.shift),
            "family": family_name(*item.families) if len(item.families) == 1 else SEVERAL,
            "x": float(flat[row, 0]),
            "y": float(flat[row, 1]),
            "distance": float(distance[row]),
            "accuracy": item.accuracy,
            "temperature": item.temperature * scale,
        }
        for row, item in enumerate(card.atlas)
    ]
    return {
        "signals": list(response.names),
        "axes": [
            {
                "variance": _fraction(flat[:, k], references),
                "mostly": _largest(axis, response.names),
            }
            for k, axis in enumerate(axes)
        ],
        "environments": sorted(points, key=lambda row: (row["distance"], row["shift"])),
        "source": {
            "x": float(flat[-1, 0]),
            "y": float(flat[-1, 1]),
            "distance": float(distance[-1]),
            "accuracy": card.reference.accuracy,
            "temperature": scale,
        },
        "target": {"x": float(here[0]), "y": float(here[1])},
        "window": [_window(flat[:, k], here[k], flat[-1, k]) for k in range(2)],
        "off_map": float(np.linalg.norm(target - centre - here @ axes)),
        "novelty": background.novelty,
    }


def shift_label(shift: str) -> str:
    """Return the name of a shift for display, with short numbers.

    Examples
    --------
    >>> shift_label("compose(drop(0.226788), rewire(0.409991))")
    'missing edges 0.23 + rewired edges 0.41'
    >>> shift_label("heterogeneous(1.6, 'region')")
    'noise on half the nodes 1.6 (region)'
    """
    inner = re.fullmatch(r"compose\((.*)\)", shift, re.S)
    parts = [shift] if inner is None else inner.group(1).replace("), ", ")\0").split("\0")
    return " + ".join(map(_part_label, parts))


def _part_label(part: str) -> str:
    named = re.fullmatch(r"(\w{1,40})\((-?[\d.e+-]{1,20})(?:, '(\w{1,40})')?\)", part)
    if named is None:
        return re.sub(r"\d+\.\d{1,17}", lambda number: f"{float(number.group()):.2g}", part)
    family, level, variant = named.groups()
    return f"{family_name(family)} {float(level):.2g}{f' ({variant})' if variant else ''}"


def family_name(family: str) -> str:
    """Return what people call a family.

    Examples
    --------
    >>> family_name("noise"), family_name("my own")
    ('feature noise', 'my own')
    """
    return FAMILIES.get(family, family)


def principal_axes(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the two directions of largest variance of centred, weighted points, (2, d).

    The largest entry of an axis is positive, so that a map does not depend on the linear algebra
    library. With fewer than two columns the second axis is zero.

    Examples
    --------
    >>> points = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal_axes(points, np.ones(4)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> principal_axes(points, np.array([1.0, 1.0, 9.0, 9.0])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    directions = np.linalg.svd(np.sqrt(weights)[:, None] * points, full_matrices=False)[2]
    axes = np.zeros((2, points.shape[1]))
    count = min(2, len(directions))
    axes[:count] = directions[:count]
    for axis in axes:
        axis *= -1.0 if axis[np.abs(axis).argmax()] < 0.0 else 1.0
    return axes + 0.0


def _window(along: FloatArray, *included: float) -> list[float]:
    """Return the ends of an axis that shows all but the outermost environments.

    Examples
    --------
    >>> _window(np.append(np.linspace(0.0, 1.0, 99), 50.0), 0.5)[1] < 2.0
    True
    """
    low, high = np.quantile(along, (_OUTLIERS, 1.0 - _OUTLIERS))
    low, high = min(low, *included), max(high, *included)
    margin = 0.08 * (high - low) + 0.1
    return [float(low - margin), float(high + margin)]


def _fraction(along: FloatArray, points: FloatArray) -> float:
    """Return the fraction of the variance of the points that lies along an axis."""
    return float(along.var() / max(points.var(axis=0).sum(), np.finfo(float).tiny))


def _largest(axis: FloatArray, names: tuple[str, ...]) -> list[str]:
    order = np.argsort(-np.abs(axis), kind="stable")[:_NAMED]
    return [names[k] for k in order if abs(axis[k]) > 0.0]
