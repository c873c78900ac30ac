"""What all parts need: the cache folder where built ones are kept between runs, a free port, a word for absence."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


def folder(name: str) -> Path:
    """Return (and make) the cache folder of a part."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(home) / "gpuledger" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def missing(part: str, why: str) -> None:
    """Say that a part cannot be had: a failure where CI=true, a skip with the reason elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{part}: {why}")
    pytest.skip(f"{part}: {why}")


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
