"""A model that plays a script, in this process: for tests, examples and dry runs, where no network should be needed."""

import copy
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from app.domain.blocks import Block
from app.domain.errors import AgentError, CallCut, LlmError
from app.domain.text import dumps
from app.domain.usage import Usage
from app.llm.client import Cutoff, ModelRequest, ModelResponse

Turn = Callable[[ModelRequest, Cutoff], ModelResponse]


class ScriptedModel:
    """Answers the n-th request with the n-th turn. For any number of threads.

        model = ScriptedModel().then_tool_use("toolu_1", "add", {"a": 1}, 10, 5).then_text("It is 2.", 20, 5)

    `in_` and `out` are the input and output tokens that the turn reports.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: deque[Turn] = deque()
        self._requests: list[ModelRequest] = []

    @property
    def requests(self) -> list[ModelRequest]:
        """What was asked, in order, as it was at that moment."""
        with self._lock:
            return list(self._requests)

    @property
    def calls(self) -> int:
        """How many requests came."""
        with self._lock:
            return len(self._requests)

    def then_tool_use(self, id: str, name: str, input: Any, in_: int = 0, out: int = 0) -> Self:
        """Then ask for one tool call."""
        return self.then_tool_uses([(id, name, input)], in_, out)

    def then_tool_uses(self, uses: list[tuple[str, str, Any]], in_: int = 0, out: int = 0) -> Self:
        """Then ask for several tool calls in one turn; each is (id, name, input)."""
        blocks = [{"type": "tool_use", "id": id, "name": name, "input": input} for id, name, input in uses]
        return self.then_blocks(blocks, "tool_use", in_, out)

    def then_text(self, text: str, in_: int = 0, out: int = 0) -> Self:
        """Then end the turn with this text."""
        return self.then_blocks([{"type": "text", "text": text}], "end_turn", in_, out)

    def then_blocks(self, blocks: list[Block], stop_reason: str | None, in_: int = 0, out: int = 0) -> Self:
        """Then answer with these content blocks."""
        content, usage = dumps(blocks), Usage(input_tokens=in_, output_tokens=out)
        return self.then_call(lambda request, _: ModelResponse(content, stop_reason, request.model, usage))

    def then_fail(self, error: AgentError) -> Self:
        """Then raise this error (`LlmError`, `CallCut`)."""

        def fail(request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
            raise error

        return self.then_call(fail)

    def then_call(self, turn: Turn) -> Self:
        """Then do whatever `turn` does with the request and the cutoff: be late, be cut, look, answer, raise."""
        with self._lock:
            self._turns.append(turn)
        return self

    def complete(self, request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        """Play the next turn.

        Raises:
            LlmError: `script_exhausted`, terminal: one request more than the script has turns.
        """
        if cutoff.reason is not None:
            raise CallCut(cutoff.reason)
        with self._lock:
            # A copy, because a caller may go on to extend the very list of messages that it sent.
            self._requests.append(copy.deepcopy(request))
            turn = self._turns.popleft() if self._turns else None
            number = len(self._requests)
        if turn is None:
            message = f"the script has {number - 1} turns and this is request {number}"
            raise LlmError(message, transient=False, code="script_exhausted")
        return turn(request, cutoff)
