"""The folders of the documentation and of the built site."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docs():
    if not (ROOT / "docs" / "index.md").is_file():
        pytest.skip("the documentation is not part of this checkout")
    return ROOT / "docs"


@pytest.fixture(scope="module")
def extension(docs):
    """Import a module that takes part in building the pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(docs / "_ext"))
        yield __import__


@pytest.fixture(scope="session")
def site(docs):
    if not (docs / "_build" / "html" / "explore.html").is_file():
        pytest.skip("the site is not built; run make docs")
    return docs / "_build" / "html"
