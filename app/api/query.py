"""The query of GET /api/runs, and its cursor: opaque to callers, `(created_at, id)` of the last run of a page to us."""

import base64
import binascii
import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from app.api.problems import BadRequest, Fault
from app.domain.run import RunView
from app.domain.status import ShownStatus

DEFAULT_LIMIT = 50
MAX_LIMIT = 100

Place = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which page of which runs."""

    status: ShownStatus | None = None
    limit: int = DEFAULT_LIMIT
    after_run: Place | None = None

    def next_path(self, path: str, cursor: str) -> str:
        """The address of the page that begins at the cursor."""
        words = {"status": self.status} if self.status else {}
        return f"{path}?{urlencode({**words, 'limit': self.limit, 'cursor': cursor})}"


def read_run_query(args: "MultiDict[str, str]") -> RunQuery:
    """The query of a request.

    Raises:
        BadRequest: 422: an unknown parameter, one that is given twice, or a wrong value.
    """
    faults = [
        Fault(name, "there is no such parameter" if name not in _READERS else "given twice", "parameter", "parameter")
        for name, values in args.lists()
        if name not in _READERS or len(values) > 1
    ]
    found: dict[str, object] = {}
    for name, (field, read, wanted) in _READERS.items():
        try:
            if name in args:
                found[field] = read(args[name])
        except ValueError:
            faults.append(Fault(name, wanted, "value", "parameter"))
    if faults:
        raise BadRequest(422, "the query is not what GET /api/runs takes; see errors", faults)
    return RunQuery(**found)  # type: ignore[arg-type]


def cursor_after(view: RunView) -> str:
    """The cursor of the page that follows this run."""
    return base64.urlsafe_b64encode(f"{view.created_at.isoformat()} {view.id}".encode()).decode().rstrip("=")


def _read_cursor(text: str) -> Place:
    try:
        said = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except binascii.Error as error:
        raise ValueError("not base64") from error
    created_at, _, run_id = said.partition(" ")
    moment = datetime.fromisoformat(created_at)
    if moment.tzinfo is None:
        raise ValueError("a moment has a time zone")
    return moment, str(uuid.UUID(run_id))


def _read_limit(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MAX_LIMIT:
        raise ValueError(text)
    return int(text)


_READERS = {
    "status": ("status", ShownStatus, f"one of {', '.join(ShownStatus)}"),
    "limit": ("limit", _read_limit, f"a whole number from 1 to {MAX_LIMIT}"),
    "cursor": ("after_run", _read_cursor, "the nextCursor of a page before"),
}
