"""Published calibrators behind one protocol: fit on a labelled source, apply to any graph.

``fit(logits, labels, graph, nodes)`` and ``transform(logits, graph) -> probabilities``;
`Calibrator` explains each argument. What a method needs and whether it preserves predictions are
data: ``needs``, ``granularity``, ``preserves_argmax``. `REGISTRY` holds them all by name, and
``docs/calibrators.md`` shows it as a table.

No module here imports torch before a method that needs it is used.
"""

from __future__ import annotations

import warnings
from typing import Any

from graphtemper.calibrators.base import Calibrator, TemperatureCalibrator
from graphtemper.calibrators.cagcn import CaGCN
from graphtemper.calibrators.cf_gnn import CFGNN
from graphtemper.calibrators.dcgc import DCGC
from graphtemper.calibrators.dirichlet import Dirichlet
from graphtemper.calibrators.ensemble_temperature import EnsembleTemperature
from graphtemper.calibrators.gats import GATS
from graphtemper.calibrators.gets import GETS
from graphtemper.calibrators.histogram_binning import HistogramBinning
from graphtemper.calibrators.isotonic import Isotonic, IsotonicShared
from graphtemper.calibrators.matrix_scaling import MatrixScaling
from graphtemper.calibrators.rbs import RBS
from graphtemper.calibrators.simi_mailbox import SimiMailbox
from graphtemper.calibrators.similarity import SimilarityCalibrator
from graphtemper.calibrators.stac.calibrator import STAC, STACPerNode
from graphtemper.calibrators.temperature_scaling import TemperatureScaling
from graphtemper.calibrators.vector_scaling import VectorScaling
from graphtemper.calibrators.wats import WATS

__all__ = [
    "CFGNN",
    "DCGC",
    "GATS",
    "GETS",
    "RBS",
    "REGISTRY",
    "STAC",
    "WATS",
    "CaGCN",
    "Calibrator",
    "Dirichlet",
    "EnsembleTemperature",
    "HistogramBinning",
    "Isotonic",
    "IsotonicShared",
    "MatrixScaling",
    "STACPerNode",
    "SimiMailbox",
    "SimilarityCalibrator",
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
        RBS,
        CaGCN,
        GATS,
        SimilarityCalibrator,
        GETS,
        WATS,
        SimiMailbox,
        DCGC,
        STAC,
        STACPerNode,
        CFGNN,
    )
}
"""Every calibrator by its class's name: the generic ones, then those of graphs."""


def __getattr__(name: str) -> Any:
    if name == "SimCalib":
        warnings.warn(
            "SimCalib is now SimilarityCalibrator: an independent design after that paper's "
            "abstract; use the new name.",
            DeprecationWarning,
            stacklevel=2,
        )
        return SimilarityCalibrator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
