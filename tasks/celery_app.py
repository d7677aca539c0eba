"""The Celery application: configured from the settings, with the guards that Celery 5.7.0 needs."""

from celery import Celery

from app.config import settings
from app.tools.registry import Registry
from tasks import broker_guard, hub_tick
from tasks.configuration import configuration


def _queues() -> list[str]:
    """The queues of the steps that this deployment can open."""
    named = {entry.tool.definition.queue for entry in Registry(modules=settings().tool_modules())}
    return ["model", *sorted({"tool"} | named)]


broker_guard.install()
app = Celery("agent", include=["tasks.step", "tasks.maintenance", "tasks.processes"])
app.config_from_object(configuration(settings(), _queues()))
app.steps["consumer"].add(hub_tick.HubTick)
