"""What a call cost, in whole nano-dollars, at the rates of a price book, which is a value made from a TOML file.

A rate of 1 US dollar per million tokens is 1000 nano-dollars per token, so rates with up to three decimals are whole
numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from app.domain.errors import ConfigError
from app.domain.usage import Usage

NANO_PER_USD = 1_000_000_000
_RATES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


@dataclass(frozen=True, slots=True)
class Price:
    """One row of the book. Rates are US dollars per million tokens.

    Attributes:
        since: first day on which the row holds; the latest row that holds wins.
        above_prompt_tokens: the row holds only for prompts longer than this, and then for the whole request.
    """

    model: str
    rates: Mapping[str, Decimal]
    since: date = date.min
    above_prompt_tokens: int = -1


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices by model, date and prompt size.

    Attributes:
        version: name of the book, kept with every cost that it made.
    """

    version: str
    prices: tuple[Price, ...]

    @classmethod
    def from_toml(cls, content: Mapping[str, Any]) -> "PriceBook":
        """A book from parsed TOML (`parse_float=Decimal`): `version` and `[[price]]` rows.

        Raises:
            ConfigError: a row lacks a rate, or something is not what it should be.
        """
        try:
            return cls(str(content["version"]), tuple(_price(row) for row in content["price"]))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise ConfigError(f"price book: {error!r} is missing or wrong") from error

    def knows(self, model: str) -> bool:
        """Whether the model has a price at all."""
        return any(_same_model(price.model, model) for price in self.prices)

    def cost_nano(self, model: str, usage: Usage, day: date) -> int | None:
        """Cost of a call on that day, each token once at its own rate; None for a model without a price."""
        price = self._pick(model, usage.prompt_tokens, day)
        if price is None:
            return None
        write_5m = usage.cache_write_tokens - usage.cache_write_1h_tokens
        tokens = (
            usage.input_tokens,
            usage.output_tokens,
            write_5m,
            usage.cache_write_1h_tokens,
            usage.cache_read_tokens,
        )
        total = sum((price.rates[rate] * count * 1000 for rate, count in zip(_RATES, tokens, strict=True)), Decimal(0))
        return int(total.to_integral_value(ROUND_HALF_EVEN))

    def _pick(self, model: str, prompt_tokens: int, day: date) -> Price | None:
        fitting = [
            price
            for price in self.prices
            if _same_model(price.model, model) and price.since <= day and price.above_prompt_tokens < prompt_tokens
        ]
        return max(fitting, key=lambda price: (price.since, price.above_prompt_tokens), default=None)


def _same_model(priced: str, model: str) -> bool:
    # Anthropic answers with a dated id (claude-haiku-4-5-20251001) where an alias was asked for.
    suffix = model.removeprefix(priced)
    return model == priced or (
        model.startswith(priced) and suffix[:1] == "-" and suffix[1:].isdigit() and len(suffix) == 9
    )


def _price(row: Mapping[str, Any]) -> Price:
    rates = {rate: Decimal(row[rate]) for rate in _RATES}
    if any(not rate.is_finite() or rate < 0 for rate in rates.values()):
        raise ConfigError(f"price book: a rate of {row['model']} is negative")
    since = row.get("since", date.min)
    if type(since) is not date:  # a datetime is a date too, but cannot be compared with one
        raise ConfigError(f"price book: `since` of {row['model']} is not a date")
    return Price(str(row["model"]), rates, since, int(row.get("above_prompt_tokens", -1)))


def usd(nano: int) -> str:
    """Nano-dollars as a decimal string of US dollars, without trailing zeros."""
    return f"{(Decimal(nano) / NANO_PER_USD).normalize():f}"


def nano_of(dollars: Decimal) -> int:
    """US dollars to nano-dollars, rounded half to even."""
    return int((dollars * NANO_PER_USD).to_integral_value(ROUND_HALF_EVEN))
