"""What one server knows: scripts, the request log, the prompt cache. The same operations in process and over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.llm.fake.answer import check_turns
from app.llm.fake.request_log import LoggedRequest, RequestLog
from app.llm.fake.scripts import Scripts
from app.llm.fake.tokens import PromptCache
from app.llm.fake.turn import Turn


@dataclass(slots=True)
class FakeState:
    """The server's memory and settings.

    Attributes:
        latency_s: seconds that an answer takes where its script does not say.
        api_key: the only key that is accepted; None accepts any.
    """

    latency_s: float = 0.0
    api_key: str | None = None
    scripts: Scripts = field(default_factory=Scripts)
    log: RequestLog = field(default_factory=RequestLog)
    cache: PromptCache = field(default_factory=PromptCache)

    def script(self, key: str, turns: Sequence[dict[str, Any]]) -> None:
        """Append turns (see `Turn`) to the script of `key`.

        Raises:
            ValueError: a turn is not one; nothing was appended.
        """
        if not isinstance(key, str) or not key or "]" in key or not isinstance(turns, list | tuple):
            raise ValueError("a script is a key (text without ']') and a list of turns")
        parsed = [Turn.parse(raw) for raw in turns]
        check_turns(parsed)
        self.scripts.add(key, parsed)

    def requests(self, key: str | None = None) -> list[LoggedRequest]:
        """What was asked, in order of arrival; of one key, or all.

        Raises:
            LookupError: the log had to drop entries, so that a count would not be true.
        """
        return self.log.read(key)

    def reset(self) -> None:
        """Forget scripts, log and cache."""
        self.scripts.clear()
        self.log.clear()
        self.cache = PromptCache()
