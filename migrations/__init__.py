"""Alembic migrations of what can be rebuilt: snapshots, the index of commands, and the read models."""
