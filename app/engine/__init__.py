"""The engine: one step of a run, and what keeps it alive. No SQL, Flask, Celery or anthropic here."""
