"""The Celery application: configured from the settings, with the guards that Celery 5.7.0 needs."""

from celery import Celery

from app.config import settings
from app.tools.registry import Registry
from tasks import broker_guard, hub_tick
from tasks.configuration import configuration

broker_guard.install()
app = Celery("agent", include=["tasks.step", "tasks.maintenance", "tasks.processes"])
app.config_from_object(configuration(settings(), ["model", *Registry(modules=settings().tool_modules()).queues()]))
app.steps["consumer"].add(hub_tick.HubTick)
