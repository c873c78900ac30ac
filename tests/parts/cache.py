"""Where built parts are kept between runs: the user's cache folder, one sub-folder a part and version."""

from __future__ import annotations

import os
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
