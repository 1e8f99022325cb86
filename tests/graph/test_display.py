import numpy as np
import scipy.sparse as sp

from graphtemper import Graph, csbm


def test_a_graph_is_displayed_briefly():
    g = csbm.sample(500, degree=6, homophily=0.8, snr=1.0, num_features=5, seed=3)
    text = repr(
        g.replace(name="x" * 1000, time=np.arange(500), val_masks=np.eye(9, 500, dtype=bool))
    )
    assert len(text) < 400
    assert "\n" not in text
    facts = ("nodes=500", f"edges={g.num_edges}", "5, dense", "classes=2", "9 (val)", "0 to 499")
    for fact in facts:
        assert fact in text
    assert "sparse (0.25 filled)" in repr(Graph(features=sp.csr_matrix(np.eye(4, 2)), edges=[]))
    page = g.replace(name="<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert len(page) < 1500
    assert repr(Graph(features=[[1.0]], edges=[])) == (
        "Graph(nodes=1, edges=0, features='1, dense', degree=0.0)"
    )
