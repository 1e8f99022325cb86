import pytest

from graphtemper import csbm


@pytest.fixture(scope="session")
def graph():
    """A block model with 250 nodes, 6 columns and 3 classes."""
    return csbm.sample(250, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=0)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Small tensors gain nothing from threads, and wait long where the cores are busy."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _seeded():
    torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
