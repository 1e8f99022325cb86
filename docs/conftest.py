"""The objects that the pages assume: a model, its graphs and its card, in a temporary folder."""

import pytest

from graphtemper import SourceCard, csbm, shifts
from graphtemper.models import SIGN

collect_ignore = ["conf.py", "_build", "_ext", "_generated", "api/generated"]


@pytest.fixture(scope="session")
def made():
    """Return the objects, which are made once."""
    settings = {"degree": 6, "snr": 1.0, "num_features": 6}
    source = csbm.sample(600, homophily=0.8, seed=1, **settings)
    target = shifts.noise(0.5)(csbm.sample(600, homophily=0.7, seed=2, **settings), 5)
    model = SIGN(hops=1).fit(source, range(300))
    card = SourceCard.build(model, source, range(300, 600), compositions=0)
    return {"source": source, "target": target, "model": model, "card": card}


@pytest.fixture(autouse=True)
def _in_a_folder(doctest_namespace, made, tmp_path, monkeypatch):
    doctest_namespace.update(made)
    monkeypatch.chdir(tmp_path)
