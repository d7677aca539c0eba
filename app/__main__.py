"""`python -m app …` is `durable …`."""

from app.cli import main

if __name__ == "__main__":
    main(prog_name="durable")
