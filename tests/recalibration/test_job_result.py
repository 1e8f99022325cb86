"""What can be done with a result: apply, print, draw, tabulate."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import answering, block_model, raises

from graphtemper import recalibrate, shifts
from graphtemper.errors import MissingExtraError
from graphtemper.recalibration.applied import probabilities_at


@pytest.fixture(scope="module")
def target():
    return shifts.noise(0.8)(block_model(2), 5)


@pytest.fixture(scope="module")
def result(model, card, target):
    return recalibrate(model, target, card)


@pytest.fixture(scope="module")
def per_node(model, card, target):
    return recalibrate(model, target, card, per_node=True)


def test_apply_gives_the_same_probabilities_to_the_same_logits(result, per_node, model, target):
    logits = np.asarray(model(target))
    np.testing.assert_allclose(result.apply(logits), result.probabilities, atol=1e-12)
    np.testing.assert_allclose(per_node.apply(logits), per_node.probabilities, atol=1e-12)
    # Of other nodes no temperature is known but the graph's.
    np.testing.assert_allclose(per_node.apply(logits[:3]), result.probabilities[:3], atol=1e-12)


def test_apply_adds_the_correction_for_class_shares(result):
    shift = np.array([0.0, 1.0, -1.0])
    corrected = replace(result, logit_shift=shift)
    logits = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(corrected.apply(logits), result.apply(logits + shift))


@pytest.mark.parametrize("logits", [3.0, [1.0, 2.0], [[np.nan, 0.0]], [["a", "b"]]])
def test_apply_refuses_what_are_no_logits(result, logits):
    with raises(("not-finite", "not-logits")):
        result.apply(logits)


def test_the_summary_holds_verdict_numbers_and_reasons(result, per_node):
    text = result.summary()
    assert text.splitlines()[0] == f"Verdict: {result.verdict}"
    joined = " ".join(text.split())
    assert f"{result.accuracy.value:.1%}" in joined
    assert all(" ".join(reason.text.split()) in joined for reason in result.reasons)
    for width in (60, 80, 120):
        assert max(map(len, result.summary(width).splitlines())) <= width
    assert "per node" in per_node.summary()


def test_notebooks_show_a_table_and_a_picture(result, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    reason = replace(result.reasons[0], text="a <script> of 3 > 2")
    html = answering(result, reasons=(reason,))._repr_html_()
    assert f"Verdict: {result.verdict}" in html
    assert "<script>" not in html
    assert 'src="data:image/png;base64,' in html
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    plain = result._repr_html_()
    assert "<img" not in plain
    assert "<table>" in plain


def test_a_plot_draws_on_given_axes_and_shades_the_interval(result):
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    ax = figure.Figure().subplots()
    assert result.plot(ax) is ax
    (span,) = (patch for patch in ax.patches if patch.get_alpha() == 0.2)
    low, high = span.get_extents().transformed(ax.transData.inverted()).intervalx
    assert (low, high) == pytest.approx((result.accuracy.low, result.accuracy.high))
    assert result.verdict in ax.get_title()


def test_a_plot_without_matplotlib_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError):
        result.plot()


def test_a_frame_has_one_row_per_node(per_node, result):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = per_node.to_frame()
    assert frame.index.tolist() == per_node.nodes.tolist()
    assert frame["prediction"].tolist() == per_node.predictions.tolist()
    assert frame["temperature"].tolist() == per_node.node_temperatures.tolist()
    columns = [f"probability_{k}" for k in range(3)]
    assert (frame[columns].to_numpy() == per_node.probabilities).all()
    assert "temperature" not in result.to_frame()


def test_a_result_is_no_dictionary_and_says_so(result):
    with raises("wrong-type", match=r"read result\.verdict; .*to_dict"):
        result["verdict"]


def test_rounding_does_not_change_a_prediction():
    logits = np.array([[0.0, 0.0, 1e-20], [1e-20, 0.0, 0.0]])
    assert probabilities_at(logits, 1e9).argmax(axis=1).tolist() == [2, 0]
