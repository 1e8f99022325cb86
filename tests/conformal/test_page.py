"""The how-to page runs as printed."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sets.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="the docs are not beside the tests")
def test_the_page_runs():
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 10
    assert found.failed == 0
