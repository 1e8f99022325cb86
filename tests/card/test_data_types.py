"""Cards of graphs with types: stored, and compared with the target's."""

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.errors import FileError, InputError
from graphtemper.models import SIGN


@pytest.fixture(scope="module")
def typed():
    graph = csbm.sample(200, degree=6, homophily=0.9, snr=1.0, num_features=4, seed=0)
    return graph.replace(edge_type=np.arange(graph.num_edges) % 2)


def test_a_type_that_the_source_does_not_have_is_refused(typed, tmp_path):
    model = SIGN(hops=1).fit(typed, range(100))
    card = SourceCard.build(model, typed, range(100, 200), compositions=0, shifts=FEW_SHIFTS)
    path = tmp_path / "card.json"
    card.save(path)
    loaded = SourceCard.load(path)
    assert loaded.types.edge == (0, 1)
    assert recalibrate(model, typed, loaded, range(50)).probabilities.shape == (50, 2)
    with pytest.raises(InputError, match="edges of type 7, which the source graph had not"):
        recalibrate(model, typed.replace(edge_type=np.full(typed.num_edges, 7)), loaded)
    path.write_text(path.read_text().replace('"edge":[0,1]', '"edge":[0,-1]'))
    with pytest.raises(FileError, match=r"types|checksum"):
        SourceCard.load(path)


def test_bundled_models_refuse_a_target_type(typed):
    several = typed.replace(node_type=np.arange(200) % 2, target_type=0)
    with pytest.raises(InputError, match="SIGN is for graphs with one type of nodes"):
        SIGN().fit(several)
