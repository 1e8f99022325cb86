"""The systems of the paper's Table 1 are calibrators of the packages."""

import pytest

from graphtemper import calibrators

pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research import baselines, retrained
from graphtemper_research.gats import systems


def test_the_systems_are_those_of_table_1_with_known_equations():
    every = calibrators.REGISTRY | baselines.REGISTRY | retrained.REGISTRY
    assert len({system.kind for system in systems.SYSTEMS}) == len(systems.SYSTEMS) == 9
    assert all(system.kind in every.values() for system in systems.SYSTEMS)
