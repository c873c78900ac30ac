"""What the database's adapters raise, for callers that do not use a database themselves."""

from __future__ import annotations


class DatabaseError(Exception):
    """The database did not do what was asked; nothing that matters is lost by it."""
