import numpy as np
import pytest

pytest.importorskip("torch_geometric")

from graphtemper_research.trials import share_alarms


def test_directed_weighted_graphs_that_are_drawn_alike_raise_no_alarm():
    found = list(share_alarms.generated(share_alarms.SETTINGS[0], 2, 8, 1000))
    naive, honest = np.mean([item.moved for item in found], axis=0)
    assert len(found) == 16
    assert naive > 0.3
    assert honest <= 0.1
    assert not any(item.advised[1] for item in found)


def test_shares_that_moved_are_still_found():
    (setting,) = (one for one in share_alarms.SETTINGS if one.target and one.model == "SIGN")
    found = list(share_alarms.generated(setting, 1, 4, 1000))
    assert [item.moved for item in found] == [(True, True)] * 4


def test_a_drawn_graph_is_as_its_setting_says():
    setting = share_alarms.SETTINGS[2]
    graph = share_alarms.drawn(setting, setting.shares, 0, 4000)
    same = graph.labels[graph.edges[:, 0]] == graph.labels[graph.edges[:, 1]]
    assert graph.directed
    assert same.mean() == pytest.approx(setting.homophily, abs=0.02)
    assert graph.edge_weight[same].mean() > 1.5 * graph.edge_weight[~same].mean()
    shares = np.bincount(graph.labels) / 4000
    assert shares == pytest.approx(setting.shares, abs=0.03)


def test_the_page_has_a_row_per_setting():
    said = share_alarms.Alarm((True, False), (False, False), 0.0)
    text = share_alarms.page([share_alarms.line("one", [said]), "| two |"], "abc")
    assert text.splitlines()[-2:] == ["| one | 1 | 1 | 0 | 0 | 0 |  |  |", "| two |"]
