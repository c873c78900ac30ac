"""Compose 2 for tests: the one that is installed, else built once from its Go module."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from parts.cache import folder, missing

_HERE = Path(__file__).parent / "docker-compose"


def command() -> list[str]:
    """Return the words that call it."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and _is_recent(words):
            return words
    return [str(_built())]


def _is_recent(words: list[str]) -> bool:
    """Tell whether it is there and no longer version 1, which does not know the whole format."""
    done = subprocess.run([*words, "version", "--short"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout.startswith("1.")


def _built() -> Path:
    key = hashlib.sha256((_HERE / "go.mod").read_bytes()).hexdigest()[:16]
    target = folder("docker-compose") / key / "docker-compose"
    if target.exists():
        return target
    if not shutil.which("go"):
        missing("Compose", "needs docker compose 2, or go to build it")
    target.parent.mkdir(exist_ok=True)
    partial = target.with_suffix(".partial")
    build = ["go", "build", "-ldflags=-s -w", "-o", str(partial), "github.com/docker/compose/v2/cmd"]
    done = subprocess.run(build, cwd=_HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        missing("Compose", f"go build failed: {done.stderr[-800:]}")
    partial.rename(target)
    return target
