"""The API as gunicorn starts it: `gunicorn app.wsgi:app`. Celery carries the wake-ups."""

from app.api.app import create_app
from app.bootstrap import build_runtime
from app.config import settings
from app.observe.log import configure_logging
from tasks.celery_app import app as celery_app
from tasks.dispatch import CeleryDispatcher

_settings = settings()
configure_logging(_settings.node_name, style=_settings.log_format, level=_settings.log_level)
_dispatcher = CeleryDispatcher(celery_app)

app = create_app(build_runtime(_settings, _dispatcher), _settings, broker_answers=_dispatcher.is_reachable)
