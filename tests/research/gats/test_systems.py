"""The table of the paper's systems is that of the code and of the committed results."""

from pathlib import Path

import pytest

from graphtemper import calibrators

pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research import baselines, retrained
from graphtemper_research.gats import systems
from graphtemper_research.leaderboard.calibrator_table import markdown_table

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def page():
    if not DOCS.is_dir():
        pytest.skip("the documentation is not part of this installation")
    return (DOCS / "calibrators.md").read_text("utf-8")


def test_the_page_shows_every_system_and_its_numbers(page):
    assert systems.table(DOCS / "results") in page


def test_the_page_shows_what_trains_its_own_network(page):
    assert markdown_table(retrained.REGISTRY) in page


def test_every_scale_is_explained_and_used(page):
    """A scale that no row of the tables has would be an orphan."""
    every = calibrators.REGISTRY | baselines.REGISTRY | retrained.REGISTRY
    assert {method.granularity for method in every.values()} >= {"set", "model"}
    assert all(f"| {name.replace('_', ' and ')} |" in page for name in {"set", "model"})


def test_the_systems_are_the_ten_of_table_1():
    every = calibrators.REGISTRY | baselines.REGISTRY | retrained.REGISTRY
    assert len({system.kind for system in systems.SYSTEMS}) == len(systems.SYSTEMS) == 10
    assert all(system.kind in every.values() for system in systems.SYSTEMS)


def test_the_design_after_simcalib_does_not_claim_to_be_it():
    verdicts = {system.name: system.faithful for system in systems.SYSTEMS}
    assert "no" in verdicts["SimCalib"]
    assert baselines.SimilarityCalibrator.differs


def test_the_table_is_replaced_in_its_place(page):
    other = page.replace("| SimCalib | ", "| SimCalib? | ")
    assert other != page == systems.filled(other, DOCS / "results")
