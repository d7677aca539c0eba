"""Starts a process that cannot outlive us.

Linux sends the child a signal when its parent ends, even by kill -9. The kernel ties this to the parent *thread*:
spawn from a thread that lives as long as the child should, in practice the main one. Elsewhere (macOS) children end
by an orderly stop only.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def tie(death_signal: signal.Signals) -> Callable[[], None] | None:
    """What a fresh child runs to die with its parent, or None where the kernel cannot do it.

    It must run after any change of user, which clears the setting: `subprocess` runs `preexec_fn` after it.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended between fork and prctl: no signal will ever come
            os._exit(1)

    return die_with_parent


def spawn(
    argv: Sequence[str],
    *,
    death_signal: signal.Signals,
    output: int | IO[bytes],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    account: tuple[int, int] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start `argv` in a session of its own, so that Ctrl-C at the terminal reaches only us.

    Args:
        argv: the program and its arguments.
        death_signal: what the kernel sends the child when we end.
        output: where standard output and error go, a file or `subprocess.PIPE`.
        cwd: its working folder; ours if None.
        env: its whole environment; ours if None.
        account: (uid, gid) to run as; needs root. No other group stays.
    """
    uid, gid = account or (None, None)
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        user=uid,
        group=gid,
        extra_groups=[] if account else None,
        start_new_session=True,
        preexec_fn=tie(death_signal),
    )
