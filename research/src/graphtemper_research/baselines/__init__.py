"""Published methods that the leaderboard refutes, and variants of them, kept as evidence.

`REGISTRY` holds the calibrators by name, as `graphtemper.calibrators.REGISTRY` holds those of the
library. `MixtureSlope` is an accuracy estimator with the protocol of `graphtemper.estimators`;
`stac_variants` has STAC as the paper's tables used it.

No module here imports torch before a method that needs it is used.
"""

from __future__ import annotations

from graphtemper.calibrators import Calibrator
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.baselines.dcgc import DCGC
from graphtemper_research.baselines.gets import GETS
from graphtemper_research.baselines.mixture_slope import MixtureSlope
from graphtemper_research.baselines.rbs import RBS
from graphtemper_research.baselines.simi_mailbox import SimiMailbox
from graphtemper_research.baselines.similarity import SimilarityCalibrator
from graphtemper_research.baselines.stac_per_node import STACPerNode
from graphtemper_research.baselines.wats import WATS

__all__ = [
    "CFGNN",
    "DCGC",
    "GETS",
    "RBS",
    "REGISTRY",
    "WATS",
    "MixtureSlope",
    "STACPerNode",
    "SimiMailbox",
    "SimilarityCalibrator",
]

REGISTRY: dict[str, type[Calibrator]] = {
    method.__name__: method
    for method in (
        RBS,
        SimilarityCalibrator,
        GETS,
        WATS,
        SimiMailbox,
        DCGC,
        STACPerNode,
        CFGNN,
    )
}
