"""`durable up`: one terminal that runs services, API, workers and Flower, and keeps them alive."""

from app.cli.up.launch import up
from app.cli.up.plan import UpPlan

__all__ = ["UpPlan", "up"]
