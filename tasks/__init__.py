"""The Celery door: `celery -A tasks worker`. Thin: a task advances one step, then dispatches what it opened.

Celery carries wake-ups, pools, queues, hard time limits and events for Flower. It is not trusted with delivery,
retries, timers, results, rate limits or revocation: those are the database's.
"""

from tasks.celery_app import app

__all__ = ["app"]
