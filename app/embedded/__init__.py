"""Real servers without Docker: PostgreSQL and a Redis-compatible server, from the machine or from wheels.

For development, tests and `up`; production sets DATABASE_URL and REDIS_URL and never comes here. Rules: loopback only,
a generated password, fsync on, data in the state folder, and every server dies with the process that started it.
"""
