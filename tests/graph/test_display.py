from graphtemper import csbm


def test_a_graph_with_a_hostile_name_is_displayed_briefly():
    g = csbm.sample(500, degree=6, homophily=0.8, snr=1.0, num_features=5, seed=3)
    text = repr(g.replace(name="x" * 1000))
    assert len(text) < 400
    assert f"edges={g.num_edges}" in text
    assert "&lt;b&gt;&amp;" in g.replace(name="<b>&")._repr_html_()
