"""The systems of the paper's Table 1 are ten calibrators of the packages."""

import pytest

from graphtemper import calibrators

pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research import baselines, retrained
from graphtemper_research.gats import systems


def test_the_systems_are_the_ten_of_table_1():
    every = calibrators.REGISTRY | baselines.REGISTRY | retrained.REGISTRY
    assert len({system.kind for system in systems.SYSTEMS}) == len(systems.SYSTEMS) == 10
    assert all(system.kind in every.values() for system in systems.SYSTEMS)


def test_the_design_after_simcalib_does_not_claim_to_be_it():
    verdicts = {system.name: system.faithful for system in systems.SYSTEMS}
    assert "no" in verdicts["SimCalib"]
    assert baselines.SimilarityCalibrator.differs
