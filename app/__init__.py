"""A durable runtime for AI agents. Start reading at app/engine/advance.py; ARCHITECTURE.md shows the rooms."""
