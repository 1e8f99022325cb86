"""Published calibrators behind one protocol: fit on a labelled source, apply to any graph.

``fit(logits, labels, graph, nodes)`` and ``transform(logits, graph) -> probabilities``;
`Calibrator` explains each argument. What a method needs and whether it preserves predictions are
data: ``needs``, ``granularity``, ``preserves_argmax``. `REGISTRY` holds them all by name;
`check` tries a calibrator of your own.
``docs/calibrators.md`` shows them and those of the research package in one table.

No module here imports torch before a method that needs it is used.
"""

from __future__ import annotations

from graphtemper.calibrators.base import Calibrator, Inputs, Labelled, Need, TemperatureCalibrator
from graphtemper.calibrators.cagcn import CaGCN
from graphtemper.calibrators.checking import check
from graphtemper.calibrators.gats import GATS
from graphtemper.calibrators.network import NetworkCalibrator, Stop, Training
from graphtemper.calibrators.stac import STAC
from graphtemper.calibrators.temperature_scaling import TemperatureScaling

__all__ = [
    "GATS",
    "REGISTRY",
    "STAC",
    "CaGCN",
    "Calibrator",
    "Inputs",
    "Labelled",
    "Need",
    "NetworkCalibrator",
    "Stop",
    "TemperatureCalibrator",
    "TemperatureScaling",
    "Training",
    "check",
]

REGISTRY: dict[str, type[Calibrator]] = {
    method.__name__: method
    for method in (
        TemperatureScaling,
        CaGCN,
        GATS,
        STAC,
    )
}
"""Every calibrator by its class's name: the generic ones, then those of graphs."""
