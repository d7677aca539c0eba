"""What one model call used, in tokens, in the four parts that are billed at their own rates.

Source: Anthropic Messages API, `usage`: `input_tokens` counts only what comes after the last cache breakpoint.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several added up.

    Attributes:
        input_tokens: uncached prompt.
        output_tokens: output, thinking included.
        cache_write_tokens: prompt written to the cache (both lifetimes).
        cache_read_tokens: prompt read from the cache.
        cache_write_1h_tokens: the part of `cache_write_tokens` with one hour of life (dearer).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_1h_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The full prompt: uncached, cache writes and cache reads."""
        return self.input_tokens + self.cache_write_tokens + self.cache_read_tokens

    @property
    def total_tokens(self) -> int:
        """What counts against a token budget: full prompt and output, each token once."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        """The sum, part by part."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )
