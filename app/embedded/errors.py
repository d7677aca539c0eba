"""What this room raises. The text is shown to a person as it is, so it names the fix."""


class EmbeddedError(Exception):
    """A server could not be found, prepared, started or stopped."""
