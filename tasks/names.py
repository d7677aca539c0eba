"""What a message may name: whoever can write to Redis can send any."""

import uuid
from typing import Any

_MAX_SEQ = 2**31 - 1


def is_step(run_id: Any, seq: Any) -> bool:
    """Whether this can name a step: a UUID as we write it, and a number that the database can hold."""
    if not isinstance(run_id, str) or type(seq) is not int or not 1 <= seq <= _MAX_SEQ:
        return False
    try:
        return str(uuid.UUID(run_id)) == run_id
    except ValueError:
        return False
