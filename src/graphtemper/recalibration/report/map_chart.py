"""The map of the atlas as a chart: families by colour and shape, the target marked."""

from __future__ import annotations

from typing import Any

from graphtemper.recalibration.report.atlas_map import SEVERAL
from graphtemper.recalibration.report.vega import INK, MUTED, Content, Spec, at, sized, tip

# Six colours, then the same colours in another shape.
_COLOURS = tuple(f"var(--family-{k})" for k in range(6))
_SHAPES = (("circle", "●"), ("triangle-up", "▲"), ("square", "■"))
_STAR = (
    "M0,-1L0.29,-0.4L0.95,-0.31L0.48,0.15L0.59,0.81L0,0.5L-0.59,0.81L-0.48,0.15L-0.95,-0.31"
    "L-0.29,-0.4Z"
)


def family_styles(content: Content) -> list[dict[str, str]]:
    """Return colour, shape and symbol of each family on the map, compositions last.

    Examples
    --------
    >>> content = {"atlas": {"environments": [{"family": "mask"}, {"family": "several at once"}]}}
    >>> [(row["family"], row["symbol"]) for row in family_styles(content)]
    [('mask', '●'), ('several at once', '●')]
    """
    present = {row["family"] for row in content["atlas"]["environments"]}
    styles = []
    for k, family in enumerate(sorted(present - {SEVERAL})):
        shape, symbol = _SHAPES[k // len(_COLOURS) % len(_SHAPES)]
        colour = _COLOURS[k % len(_COLOURS)]
        styles.append({"family": family, "colour": colour, "shape": shape, "symbol": symbol})
    if SEVERAL in present:
        styles.append({"family": SEVERAL, "colour": MUTED, "shape": "circle", "symbol": "●"})
    return styles


def map_chart(content: Content) -> Spec:
    """Return the map of environments, families by colour and shape, with the target marked.

    Controls of the page set the parameters ``family``, the only family to show, and ``step``, the
    environment to highlight, counted from the nearest (-1 for none).
    """
    atlas = content["atlas"]
    rows = [row | {"step": k} for k, row in enumerate(atlas["environments"])]
    styles = family_styles(content)
    families = [row["family"] for row in styles]
    x, y = _axis(atlas, "x", 0), _axis(atlas, "y", 1)
    colour = {"domain": families, "range": [row["colour"] for row in styles]}
    shape = {"domain": families, "range": [row["shape"] for row in styles]}
    selected = {"test": "family === 'all' || datum.family === family", "value": 0.85}
    combined = {"test": f"datum.family === '{SEVERAL}'", "value": 22}
    environments = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True},
        "encoding": {
            "x": x,
            "y": y,
            "color": {"field": "family", "type": "nominal", "scale": colour, "legend": None},
            "shape": {"field": "family", "type": "nominal", "scale": shape, "legend": None},
            "opacity": {"condition": selected, "value": 0.08},
            "size": {"condition": combined, "value": 65},
            "tooltip": _TIP,
        },
    }
    highlighted = {
        "data": {"values": rows},
        "transform": [{"filter": "datum.step === step"}],
        "mark": {"type": "point", "size": 260, "strokeWidth": 2.5, "color": INK},
        "encoding": {"x": x, "y": y, "tooltip": _TIP},
    }
    return sized(
        420,
        {
            "params": [{"name": "family", "value": "all"}, {"name": "step", "value": -1}],
            "layer": [
                environments,
                highlighted,
                *_source(atlas["source"], x, y),
                *_target(atlas["target"], x, y),
            ],
        },
    )


_TIP = [
    tip("label", "Shift"),
    tip("distance", "Distance to this graph", ".2f"),
    tip("accuracy", "Accuracy there", ".1%"),
    tip("temperature", "Temperature there", ".3g"),
]


def _axis(atlas: dict[str, Any], name: str, number: int) -> Spec:
    axis = atlas["axes"][number]
    title = [f"component {number + 1}, {axis['variance']:.0%} of the variance"]
    title += [f"mostly {axis['mostly'][0]}"] if axis["mostly"] else []
    scale = {"domain": atlas["window"][number], "nice": False, "clamp": True}
    return at(name) | {"title": title, "scale": scale, "axis": {"tickCount": 6}}


def _source(place: dict[str, Any], x: Spec, y: Spec) -> list[Spec]:
    row = place | {"label": "source, unshifted"}
    mark = {"type": "point", "shape": "diamond", "size": 170, "filled": True, "opacity": 1}
    return _named(row, mark | {"color": INK}, {"x": x, "y": y, "tooltip": _TIP}, "source", 20)


def _target(place: dict[str, Any], x: Spec, y: Spec) -> list[Spec]:
    row = place | {"label": "this graph"}
    mark = {"type": "point", "shape": _STAR, "size": 420, "filled": True, "opacity": 1}
    edge = {"color": "var(--target)", "stroke": "var(--page)", "strokeWidth": 1.5}
    tips = [tip("label", "Target")]
    return _named(row, mark | edge, {"x": x, "y": y, "tooltip": tips}, "this graph", -18)


def _named(row: dict[str, Any], mark: Spec, place: Spec, name: str, dy: int) -> list[Spec]:
    """Return a point and its name, with a halo that keeps it readable among others."""
    text = {"type": "text", "dy": dy, "fontWeight": "bold", "text": name}
    halo = {"stroke": "var(--page)", "strokeWidth": 6, "strokeJoin": "round"}
    data = {"values": [row]}
    return [
        {"data": data, "mark": mark, "encoding": place},
        {"data": data, "mark": text | halo, "encoding": place},
        {"data": data, "mark": text | {"color": INK}, "encoding": place},
    ]
