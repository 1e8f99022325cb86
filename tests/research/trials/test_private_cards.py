from itertools import islice

import pytest

from graphtemper import SourceCard, csbm
from graphtemper_research.trials import private_cards


@pytest.mark.nightly
def test_cards_have_their_budgets_and_the_oracle_none(monkeypatch):
    graph = csbm.sample(600, degree=6, homophily=0.7, snr=0.8, num_features=6, seed=1)
    whole, build, cards = private_cards.shifted, SourceCard.build, []
    monkeypatch.setattr(private_cards, "shifted", lambda *given: islice(whole(*given), 2))
    monkeypatch.setattr(private_cards, "families", lambda: ("noise",))

    def recorded(*given, **named):
        cards.append(build(*given, **named))
        return cards[-1]

    monkeypatch.setattr(SourceCard, "build", recorded)
    rows = [
        {"graph": "csbm", "epsilon": epsilon}
        | private_cards.measure(graph, 0, epsilon, compositions=0)
        for epsilon in (0.05, None)
    ]
    assert [card.privacy for card in cards] == [0.05, None]
    private, exact = rows
    assert private["oracle"] == exact["oracle"]
    assert private["nothing"] == exact["nothing"] > exact["oracle"]
