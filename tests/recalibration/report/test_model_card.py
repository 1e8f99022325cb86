"""The section of a model card."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper.models import SIGN
from graphtemper.recalibration.report import model_card_section


@pytest.fixture(scope="module")
def answer():
    """A card and a result."""
    graph = csbm.sample(400, degree=8, homophily=0.8, snr=1.0, num_features=4, seed=1)
    model = SIGN(hops=1).fit(graph, range(200))
    card = SourceCard.build(model, graph, range(200, 400), compositions=0, shifts=FEW_SHIFTS)
    return card, recalibrate(model, shifts.noise(1.0)(graph, 5), card, range(200, 400))


def test_the_section_holds_the_numbers(answer):
    card, result = answer
    text = model_card_section(card, result, target="May")
    assert text.startswith("## Calibration\n")
    assert f"| temperature | {card.probe.temperature:.4g} |" in text
    assert f"| temperature | {result.temperature:.3g} (source" in text
    assert f"| verdict | {result.verdict} |" in text
    assert "| on May | |" in text
    assert "| shifts measured | 6 of drop, mask, noise, rewire |" in text
    assert "on May" not in model_card_section(card)


def test_temperatures_per_node_are_summarised(answer):
    card, result = answer
    many = replace(
        result,
        relative=1.5 / result.source_temperature,
        node_temperatures=np.linspace(1.0, 3.0, 201),
    )
    text = model_card_section(card, many)
    assert "| temperature | 1.5 for the graph; per node, 90 % between 1.1 and 2.9 |" in text


def test_text_from_files_cannot_become_markup(answer):
    card, _ = answer
    text = model_card_section(replace(card, predictor="Net|<b>\n\n# Trust `me`"))
    assert "\\# Trust \\`me\\`" in text
    assert "\n# Trust" not in text
    assert "<b>" not in text
