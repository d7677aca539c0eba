"""The Flask application."""

from collections.abc import Callable

from flask import Flask

from app.api import problems
from app.api.health import health_blueprint
from app.api.runs import runs_blueprint
from app.config import Settings
from app.engine.runtime import Runtime


def create_app(runtime: Runtime, settings: Settings, *, broker_answers: Callable[[], bool] = lambda: True) -> Flask:
    """The API over this runtime.

    Args:
        broker_answers: whether wake-ups can be sent; asked by /readyz, and given up on after a second.
    """
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    problems.install(app)
    app.register_blueprint(runs_blueprint(runtime, settings))
    app.register_blueprint(health_blueprint(runtime.store, broker_answers))
    return app
