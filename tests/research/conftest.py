"""What the tests of several benches share."""

import pytest

from graphtemper_research.harness import cells, runner


@pytest.fixture(scope="session")
def quick():
    """Return a function that runs a bench quickly in a folder."""

    def run(bench, folder, names=None, progress=None, **other):
        return runner.run(bench, runner.Request(folder, names, quick=True), progress, **other)

    return run


@pytest.fixture
def from_cells(quick):
    """Return a function that runs a bench again and fails if it measures a case."""

    def refuse():
        pytest.fail("measured again")

    def run(bench, folder, names=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cells, "one_blas_thread", refuse)
            return quick(bench, folder, names)

    return run
