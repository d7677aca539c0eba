"""What a call costs: exact, each token once at its own rate, at the price of its day and size."""

import tomllib
import warnings
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.domain.errors import ConfigError
from app.domain.pricing import Price, PriceBook, nano_of, usd
from app.domain.usage import Usage

BOOK_FILE = Path(__file__).resolve().parents[2] / "app" / "prices.toml"
DAY = date(2026, 11, 30)
RATES = {
    "input": 3,
    "output": 15,
    "cache_write_5m": Decimal("3.75"),
    "cache_write_1h": 6,
    "cache_read": Decimal("0.30"),
}


def book(*rows: dict[str, Any]) -> PriceBook:
    return PriceBook.from_toml({"version": "test", "price": [{"model": "m", **RATES, **row} for row in rows]})


@pytest.fixture(scope="module")
def shipped() -> PriceBook:
    with BOOK_FILE.open("rb") as file:
        return PriceBook.from_toml(tomllib.load(file, parse_float=Decimal))


def test_cache_tokens_are_priced_once_at_their_own_rates() -> None:
    usage = Usage(input_tokens=11, output_tokens=700, cache_write_tokens=40_000, cache_read_tokens=120_000)
    cost = book({}).cost_nano("m", usage, DAY)
    assert cost == 196_533_000
    assert usd(cost) == "0.196533"
    assert usage.total_tokens == 160_711


def test_writes_for_an_hour_have_their_own_rate() -> None:
    usage = Usage(cache_write_tokens=1_000_000, cache_write_1h_tokens=400_000)
    assert book({}).cost_nano("m", usage, DAY) == nano_of(Decimal("0.6") * Decimal("3.75") + Decimal("0.4") * 6)


def test_the_latest_row_that_has_begun_holds() -> None:
    prices = book({}, {"since": date(2026, 10, 7), "input": 2}, {"since": date(2027, 1, 1), "input": 1})
    tokens = Usage(input_tokens=1_000_000)
    costs = [
        prices.cost_nano("m", tokens, date(*day))
        for day in [(2026, 10, 6), (2026, 10, 7), (2026, 12, 31), (2027, 1, 1)]
    ]
    assert costs == [nano_of(Decimal(dollars)) for dollars in (3, 2, 2, 1)]


def test_a_later_row_replaces_the_tiers_of_the_days_before_it() -> None:
    prices = book({}, {"above_prompt_tokens": 10, "input": 9}, {"since": date(2026, 10, 7), "input": 1})
    assert prices.cost_nano("m", Usage(input_tokens=1000), date(2026, 10, 6)) == 9_000_000
    assert prices.cost_nano("m", Usage(input_tokens=1000), date(2026, 10, 7)) == 1_000_000


def test_a_tier_holds_for_the_whole_request_and_counts_the_whole_prompt() -> None:
    prices = book({}, {"above_prompt_tokens": 100_000, "input": 30, "cache_read": 3})
    below, above = Usage(input_tokens=50_000, cache_read_tokens=50_000), Usage(50_001, 0, 0, 50_000)
    assert prices.cost_nano("m", below, DAY) == 50_000 * 3000 + 50_000 * 300
    assert prices.cost_nano("m", above, DAY) == 50_001 * 30_000 + 50_000 * 3000


def test_the_dated_id_of_an_answer_has_the_price_of_its_alias() -> None:
    prices = book({})
    assert prices.knows("m-20261001")
    assert prices.cost_nano("m-20261001", Usage(1), DAY) == 3000
    for other in ("m-2", "m-2026100", "mm", "m-20261001-x", "m20261001"):
        assert not prices.knows(other)
        assert prices.cost_nano(other, Usage(1), DAY) is None


def test_a_price_that_has_not_begun_is_no_price() -> None:
    assert book({"since": date(2027, 1, 1)}).cost_nano("m", Usage(1), DAY) is None


@given(
    st.lists(st.builds(Usage, *[st.integers(0, 10**7)] * 2, st.integers(10**6, 10**7), *[st.integers(0, 10**6)] * 2))
)
def test_the_cost_of_whole_rates_is_the_sum_of_the_costs(usages: list[Usage]) -> None:
    prices = book({})
    costs = [prices.cost_nano("m", usage, DAY) or 0 for usage in usages]
    assert prices.cost_nano("m", sum(usages, Usage()), DAY) == sum(costs)


@pytest.mark.parametrize(
    "row",
    [
        {"input": -1},
        {"input": "dear"},
        {"output": Decimal("NaN")},
        {"since": "2026-10-07"},
        {"since": datetime(2026, 10, 7, tzinfo=UTC)},
        {"above_prompt_tokens": "many"},
        {"input": None},
    ],
    ids=str,
)
def test_a_wrong_row_is_refused_when_the_book_is_read(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        book(row)


@pytest.mark.parametrize(
    "content", [{}, {"version": "1"}, {"version": "1", "price": [{}]}, {"version": "1", "price": 3}]
)
def test_what_is_no_price_book_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PriceBook.from_toml(content)


@pytest.mark.parametrize(
    ("nano", "text"), [(0, "0"), (1, "0.000000001"), (10**9, "1"), (12 * 10**10, "120"), (5 * 10**8, "0.5")]
)
def test_money_is_shown_exactly(nano: int, text: str) -> None:
    assert usd(nano) == text
    assert nano_of(Decimal(text)) == nano


# Not in their list; Anthropic's page has each in one row with the other.
_LISTED_AS = {"claude-mythos-5": "claude-fable-5", "claude-mythos-5-1": "claude-fable-5-1"}


def _theirs(model: str, usage: Usage, day: date) -> Decimal:
    # Their input_tokens is the whole prompt, caches included.
    counts = genai_prices.Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens or None,
        cache_read_tokens=usage.cache_read_tokens,
    )
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a count that they do not know would otherwise be left out of the sum
        return genai_prices.calc_price(
            counts, _LISTED_AS.get(model, model), provider_id="anthropic", genai_request_timestamp=at
        ).total_price


def _rows() -> list[Price]:
    with BOOK_FILE.open("rb") as file:
        return list(PriceBook.from_toml(tomllib.load(file, parse_float=Decimal)).prices)


@pytest.mark.parametrize("part", ["input", "output", "cache_write_5m", "cache_write_1h", "cache_read"])
@pytest.mark.parametrize("price", _rows(), ids=lambda p: f"{p.model} since {p.since} above {p.above_prompt_tokens}")
def test_every_shipped_rate_agrees_with_the_independent_price_list(shipped: PriceBook, price: Price, part: str) -> None:
    later = [p.since for p in _rows() if p.model == price.model and p.since > price.since]
    day = min(later) - timedelta(days=1) if later else DAY
    size = 150_000 if price.above_prompt_tokens >= 0 else 50_000
    usage = {
        "input": Usage(input_tokens=size),
        "output": Usage(input_tokens=size if price.above_prompt_tokens >= 0 else 0, output_tokens=1000),
        "cache_write_5m": Usage(cache_write_tokens=size),
        "cache_write_1h": Usage(cache_write_tokens=size, cache_write_1h_tokens=size),
        "cache_read": Usage(cache_read_tokens=size),
    }[part]
    ours = shipped.cost_nano(price.model, usage, day)
    if later and part == "cache_read":
        # Their list has no date on the price before 2026-10-07; Anthropic's own price page says 0.20 until then.
        assert (price.model, ours) == ("claude-sonnet-5-5", 50_000 * 200)
        return
    assert ours is not None
    assert Decimal(ours) / 10**9 == _theirs(price.model, usage, day)


def test_the_default_model_has_a_price(shipped: PriceBook) -> None:
    assert shipped.knows(str(Settings.model_fields["model"].default))
    assert not shipped.knows("gpt-1")
