"""Published calibrators behind one protocol: fit on a labelled source, apply to any graph.

``fit(logits, labels, graph, nodes)`` and ``transform(logits, graph) -> probabilities``;
`Calibrator` explains each argument. What a method needs and whether it preserves predictions are
data: ``needs``, ``granularity``, ``preserves_argmax``. `REGISTRY` holds them all by name.
``docs/calibrators.md`` shows them and those of the research package in one table.

No module here imports torch before a method that needs it is used.
"""

from __future__ import annotations

from graphtemper.calibrators.base import Calibrator, TemperatureCalibrator
from graphtemper.calibrators.cagcn import CaGCN
from graphtemper.calibrators.dirichlet import Dirichlet
from graphtemper.calibrators.ensemble_temperature import EnsembleTemperature
from graphtemper.calibrators.gats import GATS
from graphtemper.calibrators.histogram_binning import HistogramBinning
from graphtemper.calibrators.isotonic import Isotonic, IsotonicShared
from graphtemper.calibrators.matrix_scaling import MatrixScaling
from graphtemper.calibrators.stac import STAC
from graphtemper.calibrators.temperature_scaling import TemperatureScaling
from graphtemper.calibrators.vector_scaling import VectorScaling

__all__ = [
    "GATS",
    "REGISTRY",
    "STAC",
    "CaGCN",
    "Calibrator",
    "Dirichlet",
    "EnsembleTemperature",
    "HistogramBinning",
    "Isotonic",
    "IsotonicShared",
    "MatrixScaling",
    "TemperatureCalibrator",
    "TemperatureScaling",
    "VectorScaling",
]

REGISTRY: dict[str, type[Calibrator]] = {
    method.__name__: method
    for method in (
        TemperatureScaling,
        VectorScaling,
        MatrixScaling,
        Dirichlet,
        EnsembleTemperature,
        Isotonic,
        IsotonicShared,
        HistogramBinning,
        CaGCN,
        GATS,
        STAC,
    )
}
"""Every calibrator by its class's name: the generic ones, then those of graphs."""
