"""The store: the only room with SQL. One class, one set of statements, Postgres and SQLite.

`store` is the contract page. `tables` has the schema, `dialect` every difference between the databases.
"""
