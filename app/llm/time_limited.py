"""A total time limit around each request. Read timeouts are none: every ping of the stream starts them anew."""

import threading

from app.domain.errors import CallCut, LlmError
from app.llm.client import Cutoff, ModelClient, ModelRequest, ModelResponse

_REASON = "attempt_limit"


class TimeLimited:
    """Cuts a call of `client` that takes longer than `limit_s` seconds, and reports it as transient."""

    def __init__(self, client: ModelClient, limit_s: float) -> None:
        self._client = client
        self._limit_s = limit_s

    def complete(self, request: ModelRequest, cutoff: Cutoff) -> ModelResponse:
        """One request. A call past the limit raises LlmError `timeout_error`; a cut from outside stays a CallCut."""
        attempt = Cutoff()
        forget = cutoff.on_cut(lambda: attempt.cut(cutoff.reason or "stopped"))
        timer = threading.Timer(self._limit_s, attempt.cut, (_REASON,))
        timer.daemon = True
        timer.start()
        try:
            return self._client.complete(request, attempt)
        except CallCut as cut:
            if cut.reason != _REASON:
                raise
            message = f"no whole answer within {self._limit_s:g} s"
            raise LlmError(message, transient=True, code="timeout_error", usage=cut.usage) from cut
        finally:
            forget()
            timer.cancel()
            timer.join()
