"""The embedded cluster's objects on disk: SQLite, written through.

Every write is one transaction, in WAL mode, before the request is answered: what was acknowledged survives a kill of
the process. Only the present form of each object is kept; after a restart, watches from before start with 410.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from events.canonical import Json
from events.kinds import Kind, kind_of
from services.cluster.refusal import Refused
from services.cluster.store import Key

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    api_version TEXT, kind TEXT, namespace TEXT, name TEXT, object TEXT NOT NULL,
    PRIMARY KEY (api_version, kind, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (only INTEGER PRIMARY KEY CHECK (only = 1), version TEXT NOT NULL);
"""
_DELETE = "DELETE FROM objects WHERE (api_version, kind, namespace, name) = (?, ?, ?, ?)"


class ClusterFileError(OSError):
    """The cluster's file cannot be used; the text names it and says why."""


class SqliteBacking:
    """A file that holds the present form of every object, and the counter of resource versions.

    Opening and loading raise ClusterFileError; nothing is changed or repaired then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._readable():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.executescript(_SCHEMA)
            except BaseException:
                self._connection.close()
                raise

    def load(self) -> tuple[int, list[tuple[Kind, Json]]]:
        """Return the counter and every object of a kind that is still served."""
        with self._readable():
            return self._load()

    def _load(self) -> tuple[int, list[tuple[Kind, Json]]]:
        row = self._connection.execute("SELECT version FROM counter").fetchone()
        items: list[tuple[Kind, Json]] = []
        query = "SELECT api_version, kind, object FROM objects ORDER BY api_version, kind, namespace, name"
        for api_version, name, text in self._connection.execute(query):
            kind = kind_of(api_version, name)
            if kind is not None:
                items.append((kind, json.loads(text)))
        return int(row[0]) if row else 0, items

    def save(self, kind: Kind, key: Key, item: Json | None, version: int) -> None:
        """Write an object's present form (None: it is gone) and the counter, as one transaction.

        Raises Refused (500) if the file cannot be written; nothing of it is stored then.
        """
        place = (kind.api_version, kind.name, *key)
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                if item is None:
                    self._connection.execute(_DELETE, place)
                else:
                    self._connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                                             (*place, json.dumps(item)))  # fmt: skip
                self._connection.execute("INSERT OR REPLACE INTO counter VALUES (1, ?)", (str(version),))
        except sqlite3.Error as error:
            message = f"Internal error occurred: the cluster's file cannot be written: {error}"
            raise Refused(500, "InternalError", message) from error

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            hint = "put back a copy of the data folder, or begin a new one"
            raise ClusterFileError(
                f"{self._path}: the embedded cluster's objects cannot be read: {error}; {hint}"
            ) from error

    def close(self) -> None:
        self._connection.close()
