# One image for every process of the product; docker-compose.yml says which command each service runs.
# Build: docker build -t durable-agent .

FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
COPY requirements/prod.txt /build/requirements.txt
# Hashes only, and no compiler: a package that has no wheel is an error. The servers of the `embedded` extra stay out.
RUN /opt/venv/bin/pip install --require-hashes --only-binary :all: -r /build/requirements.txt
COPY app /srv/durable/app
COPY tasks /srv/durable/tasks
COPY alembic /srv/durable/alembic
COPY alembic.ini /srv/durable/
# The root file system is read-only at run time; without this every start compiles anew.
RUN /opt/venv/bin/python -m compileall -q /srv/durable

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 durable && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp durable
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv/durable /srv/durable
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv/durable
USER 10001:10001
# Celery finishes what it has begun. Only the main process may get it: its children must not.
STOPSIGNAL SIGTERM
CMD ["gunicorn", "app.wsgi:app", "--bind", "0.0.0.0:8080", "--worker-class", "gthread", "--threads", "32", \
     "--no-control-socket", "--graceful-timeout", "20"]
