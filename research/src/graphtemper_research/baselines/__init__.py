"""Published methods to compare with, and variants of them, kept as evidence.

`REGISTRY` holds the calibrators by name, as `graphtemper.calibrators.REGISTRY` holds those of the
library, and `ESTIMATORS` the accuracy estimators with the protocol of `graphtemper.estimators`.
`stac_variants` has STAC as the paper's tables used it. Methods that train on the target are not
here (`NOT_RUN`): nothing of the target's may be stored in a frozen model.

No module here imports torch before a method that needs it is used.
"""

from __future__ import annotations

from graphtemper.calibrators import Calibrator
from graphtemper.estimators import Estimator
from graphtemper_research.baselines.agreement_line import AgreementLine
from graphtemper_research.baselines.cbpe import CBPE, PAPE
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.baselines.cott import COTT
from graphtemper_research.baselines.dcgc import DCGC
from graphtemper_research.baselines.dirichlet import Dirichlet
from graphtemper_research.baselines.dis2 import Dis2
from graphtemper_research.baselines.ensemble_temperature import EnsembleTemperature
from graphtemper_research.baselines.gets import GETS
from graphtemper_research.baselines.histogram_binning import HistogramBinning
from graphtemper_research.baselines.importance import ImportanceWeighted, Mandoline
from graphtemper_research.baselines.isotonic import Isotonic, IsotonicShared
from graphtemper_research.baselines.matrix_norms import MaNo, NuclearNorm
from graphtemper_research.baselines.matrix_scaling import MatrixScaling
from graphtemper_research.baselines.meta_set import MDE, Dispersion, GNNEvaluatorLite
from graphtemper_research.baselines.minimum import MinimumATCGDE
from graphtemper_research.baselines.pseudocal import PseudoCal
from graphtemper_research.baselines.rbs import RBS
from graphtemper_research.baselines.simi_mailbox import SimiMailbox
from graphtemper_research.baselines.stac_per_node import STACPerNode
from graphtemper_research.baselines.target_temperature import CPCS, LaSCal, TransCal
from graphtemper_research.baselines.vector_scaling import VectorScaling
from graphtemper_research.baselines.wats import WATS

__all__ = ["ESTIMATORS", "NOT_RUN", "REGISTRY", "STACPerNode"]

REGISTRY: dict[str, type[Calibrator]] = {
    method.__name__: method
    for method in (
        EnsembleTemperature,
        VectorScaling,
        MatrixScaling,
        Dirichlet,
        Isotonic,
        IsotonicShared,
        HistogramBinning,
        RBS,
        GETS,
        WATS,
        SimiMailbox,
        DCGC,
        STACPerNode,
        CFGNN,
    )
}

ESTIMATORS: dict[str, type[Estimator]] = {
    method.__name__: method
    for method in (
        MinimumATCGDE,
        NuclearNorm,
        MaNo,
        AgreementLine,
        CBPE,
        PAPE,
        ImportanceWeighted,
        Mandoline,
        COTT,
        Dispersion,
        MDE,
        GNNEvaluatorLite,
        Dis2,
        CPCS,
        TransCal,
        LaSCal,
        PseudoCal,
    )
}
NOT_RUN: dict[str, str] = {
    "SimCalib": "has no released code, and its equations are not public",
    "ProjNorm": "fine-tunes a copy of the model on the target's pseudo-labels",
    "LeBed": "trains the model again on the target's pseudo-labels",
    "Self-training ensembles (RI, RM)": "train ensembles on source and target together",
    "UTDC": "needs a model that was adapted to the target",
    "Pair-Align, StruRW, Matcha": "change the model for the target",
}
"""Methods that are not here, mostly as they train on the target or change the model, and why."""
