"""Natural families of the leaderboard: one source and a few targets of each."""

from __future__ import annotations

from graphtemper_research.trials.pairs import Pair

_BUGS = "bugs_activemq_5."
_MONTHS = "covid_us_20"
FAMILIES = (
    *(Pair("airports", "airport_usa", f"airport_{name}") for name in ("brazil", "europe")),
    Pair("counties", "county_2012", "county_2016", same_nodes=True),
    *(Pair("villages", "villages_1", f"villages_{number}") for number in (2, 3)),
    Pair("bitcoin", "bitcoin_otc", "bitcoin_alpha"),
    *(Pair("bugs", f"{_BUGS}0.0", f"{_BUGS}{release}") for release in ("1.0", "8.0")),
    *(
        Pair("covid", f"{_MONTHS}20_07", f"{_MONTHS}{month}", same_nodes=True)
        for month in ("20_10", "21_01")
    ),
    *(Pair("twitch", "twitch_ptbr", f"twitch_{name}") for name in ("ru", "tw")),
    Pair("houses", "houses_california_north", "houses_california_south"),
    Pair("time", "imdb_years", "imdb_years"),
    *(Pair("languages", "ud_en", f"ud_{name}") for name in ("de", "fr")),
)
"""Ten families; the cheap ones come first, so that an interrupted run has most of them."""
