"""The lease: the proof that a worker owns a started step. No lease in the signature, no write to a started step."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """One claim of one step.

    Attributes:
        run_id: the run's UUID as text.
        seq: the step, from 1.
        attempt: how often the step had been claimed, this claim included.
        owner: `process nonce/pid/task id/claim nonce`, fresh for every claim: a worker's name alone is no fence, since
            a restarted namesake would pass.
    """

    run_id: str
    seq: int
    attempt: int
    owner: str


def owner_text(process: str, pid: int, task_id: str, nonce: str) -> str:
    """The `locked_by` value of a claim.

    Args:
        process: the process nonce, `node.random`; without a slash.
        pid: operating system id of the process.
        task_id: the Celery task, or `-` in embedded use.
        nonce: random text, new for each claim.
    """
    return f"{process}/{pid}/{task_id}/{nonce}"


def owner_node(owner: str | None) -> str | None:
    """The node's name in a `locked_by` value, for people."""
    return owner.split("/", 1)[0].rsplit(".", 1)[0] if owner else None
