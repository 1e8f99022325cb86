from pathlib import Path

import pytest

from graphtemper import calibrators
from graphtemper_research import baselines
from graphtemper_research.leaderboard.calibrator_table import markdown_table

PAGE = Path(__file__).parents[3] / "docs" / "calibrators.md"


@pytest.mark.parametrize("package", [calibrators, baselines])
def test_the_page_shows_the_registry(package):
    if not PAGE.is_file():
        pytest.skip("the documentation is not part of this installation")
    assert markdown_table(package.REGISTRY) in PAGE.read_text("utf-8")
