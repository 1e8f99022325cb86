"""What can be done with a result: apply, print, draw, tabulate."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import answering, block_model, raises

from graphtemper import recalibrate, shifts
from graphtemper.errors import MissingExtraError
from graphtemper.recalibration.applied import probabilities_at
from graphtemper.recalibration.labels.few_labels import Labels


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


def test_predictions_are_those_of_the_model(result, model, target):
    assert (result.predictions == np.asarray(model(target)).argmax(axis=1)).all()


def test_the_repr_is_short_and_says_what_matters(result, per_node):
    for item in (result, per_node):
        text = repr(item)
        assert len(text) < 400
        assert item.verdict in text
        assert f"{item.accuracy.value:.3f}" in text
        assert item.reasons[0].code in text
    many = answering(result, reasons=result.reasons * 30)
    assert len(repr(many)) < 400
    assert len(repr(result.accuracy)) < 400


def test_the_summary_holds_verdict_numbers_and_reasons(result, per_node):
    text = result.summary()
    assert text.splitlines()[0] == f"Verdict: {result.verdict}"
    joined = " ".join(text.split())
    assert f"{result.accuracy.value:.1%}" in joined
    assert all(" ".join(reason.text.split()) in joined for reason in result.reasons)
    for width in (60, 80, 120):
        assert max(map(len, result.summary(width).splitlines())) <= width
    assert "per node" in per_node.summary()


@pytest.mark.parametrize("verdict", ["trust", "caution", "abstain"])
def test_the_summary_ends_with_what_to_type(result, verdict):
    last = " ".join(answering(result, verdict=verdict).summary().split()).rpartition("- ")[2]
    assert ("suggest_labels(result, 50)" in last) == (verdict != "trust")
    assert ("card.learn(model, " in last) == (verdict != "trust")


def test_in_a_shell_the_summary_ends_with_a_command(result):
    summary = answering(result, verdict="caution").summary(command="graphtemper label a.npz")
    assert summary.endswith("\nNext: graphtemper label a.npz")
    assert "Next" not in answering(result, verdict="trust").summary(command="graphtemper label")


def test_the_next_sample_has_more_nodes_than_the_labels(result):
    some, every = (Labels(rows, rows * 0) for rows in (np.arange(30), np.arange(len(result.nodes))))
    asked = replace(answering(result, verdict="caution"), labels=some)
    assert "suggest_labels(result, 80)" in " ".join(asked.summary().split())
    assert "suggest_labels" not in replace(asked, labels=every).summary()


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


def test_a_frame_without_pandas_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError):
        result.to_frame()


def test_a_result_is_no_dictionary_and_says_so(result):
    with raises("wrong-type", match=r"read result\.verdict; .*to_dict"):
        result["verdict"]


def test_rounding_does_not_change_a_prediction():
    logits = np.array([[0.0, 0.0, 1e-20], [1e-20, 0.0, 0.0]])
    assert probabilities_at(logits, 1e9).argmax(axis=1).tolist() == [2, 0]
