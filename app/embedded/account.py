"""Under which account and in which folder PostgreSQL runs: it refuses to run as root.

`choose_route` decides from facts alone; `settle` gathers the facts and carries the decision out.
"""

import enum
import hashlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from app.embedded.errors import EmbeddedError

REFUGE = Path("/var/lib/durable-agent")
_USERNS = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_REACH = 'for f do test -x "$f" || exit 1; done'


class Route(enum.Enum):
    """The four ways to run a server that refuses root."""

    PLAIN = "as ourselves"
    DROP = "as an unprivileged account, everything where it is"
    USERNS = "inside a user namespace, where root is an ordinary user"
    MOVE = "as an unprivileged account, data and if need be programs under /var"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the choice depends on.

    Attributes:
        is_root: we run as root.
        moved: the data of this state folder already lies under /var.
        reachable: the unprivileged account can reach programs and state folder.
        userns: root inside a user namespace can do so.
    """

    is_root: bool
    moved: bool
    reachable: bool
    userns: bool


@dataclass(frozen=True, slots=True)
class Site:
    """Where the server runs and as whom: programs, home folder, words before the command, (uid, gid) to change to."""

    bin_dir: Path
    home: Path
    prefix: tuple[str, ...] = ()
    account: tuple[int, int] | None = None


def choose_route(facts: Facts) -> Route:
    """The first way that works; data once moved stays where it is."""
    if not facts.is_root:
        return Route.PLAIN
    if facts.moved:
        return Route.MOVE
    if facts.reachable:
        return Route.DROP
    return Route.USERNS if facts.userns else Route.MOVE


def settle(bin_dir: Path, home: Path, refuge: Path = REFUGE, userns: tuple[str, ...] = _USERNS) -> Site:
    """Make `home` (or its stand-in under `refuge`) usable by the server's account.

    Args:
        bin_dir: the folder with the programs.
        home: the wanted folder for data, password and log; its parent exists.
        refuge: root's folder that everybody may reach; used when nothing else works.
        userns: the command that runs another inside a user namespace.

    Raises:
        EmbeddedError: no account can reach the programs.
    """
    if os.geteuid() != 0:
        home.mkdir(mode=0o700, exist_ok=True)
        return Site(bin_dir, home)
    account = _unprivileged()
    moved_home = refuge / hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
    places = (bin_dir, bin_dir / "postgres", bin_dir / "initdb", home.parent)
    facts = Facts(
        is_root=True,
        moved=(moved_home / "data").exists(),
        reachable=_reaches(places, account=account),
        userns=_reaches(places, prefix=userns),
    )
    match choose_route(facts):
        case Route.USERNS:
            return Site(bin_dir, _own(home, (0, 0)), prefix=userns)
        case Route.MOVE:
            return _move(bin_dir, home, moved_home, account)
        case _:
            return Site(bin_dir, _own(home, account), account=account)


def _unprivileged() -> tuple[int, int]:
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    return 65534, 65534


def _reaches(places: tuple[Path, ...], *, prefix: tuple[str, ...] = (), account: tuple[int, int] | None = None) -> bool:
    uid, gid = account or (None, None)
    try:
        asked = subprocess.run(
            [*prefix, "/bin/sh", "-c", _REACH, "sh", *map(str, places)],
            user=uid,
            group=gid,
            extra_groups=[] if account else None,
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:  # no unshare, no sh, or not allowed: the way is closed
        return False
    return asked.returncode == 0


def _own(home: Path, account: tuple[int, int]) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != account[0]:
        for folder, _, files in os.walk(home):
            for path in (Path(folder), *(Path(folder) / name for name in files)):
                os.chown(path, *account, follow_symlinks=False)
    return home


def _move(bin_dir: Path, home: Path, moved_home: Path, account: tuple[int, int]) -> Site:
    moved_home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if (home / "data").exists() and not (moved_home / "data").exists():
        shutil.move(home, moved_home)
    _own(moved_home, account)
    if not _reaches((bin_dir / "postgres", bin_dir / "initdb"), account=account):
        bin_dir = _copied(bin_dir, moved_home.parent)
        if not _reaches((bin_dir / "postgres", bin_dir / "initdb"), account=account):
            raise EmbeddedError(f"user id {account[0]} cannot run the PostgreSQL programs in {bin_dir}")
    return Site(bin_dir, moved_home, account=account)


def _copied(bin_dir: Path, refuge: Path) -> Path:
    """A copy of the wheel's PostgreSQL that everybody may run, with the libraries that lie beside the package."""
    prefix = bin_dir.parent
    package = prefix.parent
    stamp = f"{bin_dir.resolve()}:{(bin_dir / 'postgres').stat().st_mtime_ns}"
    target = refuge / f"programs-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"
    if not target.exists():
        draft = target.with_suffix(f".{os.getpid()}")
        shutil.copytree(prefix, draft / package.name / prefix.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        _open_to_all(draft)
        draft.rename(target)
    return target / package.name / prefix.name / bin_dir.name


def _open_to_all(tree: Path) -> None:
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for path in (Path(folder) / name for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
