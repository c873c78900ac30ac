"""Writes the catalogue of record types: ``python -m adapters.log.catalogue docs/events``.

The files are compared with the types in every test run, so the two cannot part.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from events.canonical import Json
from events.catalogue import asyncapi, schemas


def files() -> dict[str, str]:
    """Return the texts of all files by their names."""
    found = {f"{name}.schema.json": _text(schema) for name, schema in sorted(schemas().items())}
    return {**found, "asyncapi.json": _text(asyncapi())}


def write(folder: Path) -> None:
    """Bring a folder in line: every file of the catalogue, and no other schema."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for old in folder.glob("*.schema.json"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text)


def _text(value: Json) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
