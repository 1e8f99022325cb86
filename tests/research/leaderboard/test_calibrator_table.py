from pathlib import Path

import pytest

from graphtemper.calibrators import REGISTRY
from graphtemper_research.leaderboard.calibrator_table import markdown_table

PAGE = Path(__file__).parents[3] / "docs" / "calibrators.md"


def test_the_page_shows_the_registry():
    if not PAGE.is_file():
        pytest.skip("the documentation is not part of this installation")
    assert markdown_table(REGISTRY) in PAGE.read_text("utf-8")
