"""The HTTP door: translates requests into one engine or store call each, and what comes back into JSON.

Rules: no anthropic, no Celery, no SQL; camelCase; every error is a problem (RFC 9457) out of the table in `problems`.
"""
