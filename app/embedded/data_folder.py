"""PostgreSQL's data folder: which version wrote it, and how a new one is made."""

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

from app.embedded import tether
from app.embedded.account import Site
from app.embedded.errors import EmbeddedError

_INITDB_OPTIONS = (
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",  # sorts alike on every machine, and no wheel needs ICU
    "--data-checksums",
)


def data_major(home: Path) -> int | None:
    """The major version that wrote the data, None when there is none."""
    try:
        return int((home / "data" / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


def make_data(site: Site, *, sync: bool) -> None:
    """Make `data` and a new `password` in the site's home folder.

    Args:
        site: where and as whom.
        sync: flush everything to disk.

    Raises:
        EmbeddedError: initdb's own reason.
    """
    # Made aside and renamed: a start that is cut short leaves no half-made data folder.
    draft = site.home / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    password = _new_password(site)
    command = [*site.prefix, str(site.bin_dir / "initdb"), "-D", str(draft), f"--pwfile={password}", *_INITDB_OPTIONS]
    process = tether.spawn(
        command if sync else [*command, "--no-sync"],
        death_signal=signal.SIGTERM,
        output=subprocess.PIPE,
        cwd=site.home,
        account=site.account,
    )
    said, _ = process.communicate()
    if process.returncode:
        raise EmbeddedError(f"initdb failed: {last_words(said)}")
    draft.rename(site.home / "data")


def last_words(said: bytes) -> str:
    """The end of a program's output, for an error message."""
    lines = said.decode(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"


def _new_password(site: Site) -> Path:
    file = site.home / "password"
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(secrets.token_urlsafe(24))
    if site.account:  # initdb reads it
        os.chown(file, *site.account)
    return file
