"""The tools room: functions that the model may call, how they are declared, found, called and answered.

Rules:
1. A tool is plain Python: `@tool(effect=...)` over a typed function; it stays callable without the runtime.
2. Nothing here imports anthropic, the store or the engine: definitions, arguments and results are plain values.
3. Whatever a tool returns or raises becomes text that every store and every wire can carry, once, in `result`.
"""

from app.tools.call import ToolCall
from app.tools.declare import Tool, tool

__all__ = ["Tool", "ToolCall", "tool"]
