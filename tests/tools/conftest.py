"""What the tests of this room share."""

import pytest

from app.tools import ToolCall


@pytest.fixture
def call() -> ToolCall:
    return ToolCall(run_id="run-1", seq=4, id="toolu_1", seconds_left=60.0)
