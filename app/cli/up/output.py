"""The log of `up`: the lines of all children in one stream, whole lines only.

A line in our own format (`worker-A run=…`) already names who speaks and passes unchanged; any other gets a name.
"""

import re
from typing import BinaryIO

_OURS = re.compile(rb"[\w.-]+ run=")
_LONGEST_LINE_BYTES = 65536


class Output:
    """Where lines go; `broken` once nobody reads them."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write to `stream`, a terminal or a pipe."""
        self._stream = stream
        self.broken = False

    def say(self, text: str) -> None:
        """A line of our own."""
        self._write(text.encode())

    def relay(self, name: str, line: bytes) -> None:
        """A child's line."""
        self._write(line if _OURS.match(line) else name.encode() + b" | " + line)

    def _write(self, line: bytes) -> None:
        if self.broken:
            return
        try:
            self._stream.write(line + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            self.broken = True


class Lines:
    """Cuts what arrives from a pipe into lines. A line that never ends is cut, or it would fill the memory."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        return [line.rstrip(b"\r") for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """What is left at the end of the pipe."""
        return self.feed(b"\n")
