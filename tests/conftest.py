import pytest

from graphtemper import datasets


def pytest_generate_tests(metafunc):
    if "shared_graph_path" in metafunc.fixturenames:
        metafunc.parametrize("shared_graph_path", sorted(datasets.CATALOGUE), indirect=True)


@pytest.fixture
def shared_graph_path(request):
    path = datasets.find(request.param)
    if path is None:
        pytest.skip(f"{request.param}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    return path
