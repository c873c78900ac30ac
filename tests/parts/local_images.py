"""Images for an engine that can pull none, made on this machine: what the Compose file wants, under names of our own.

One root file system by debootstrap is under all of them. The packages that our image installs are fetched beforehand,
so that the build itself needs no network; their hashes are checked in the build as always.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from parts import broker
from parts.cache import folder, missing
from parts.engine import Engine

_HERE = Path(__file__).parent / "images"
_LOCK = Path(__file__).parents[2] / "requirements.lock"
_BASE = "gpuledger-local/base"

#: The variables of ``docker-compose.yml`` that name images, each with the one that is made here.
NAMES = {
    "PYTHON_IMAGE": "gpuledger-local/python",
    "KAFKA_IMAGE": "gpuledger-local/kafka",
    "POSTGRES_IMAGE": "gpuledger-local/postgres",
}


def make(engine: Engine) -> None:
    """Make all of them."""
    engine.run("docker", "import", str(_base()), _BASE)
    _build(engine, "python", wheels=_wheels(engine))
    _build(engine, "kafka", libs=broker.jars())
    _build(engine, "postgres")


def _build(engine: Engine, name: str, **parts: Path) -> None:
    """Build one from its folder and, beside it, folders of parts."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-image-") as context:
        shutil.copytree(_HERE / name, context, dirs_exist_ok=True)
        for part, source in parts.items():
            shutil.copytree(source, Path(context) / part)
        engine.run("docker", "build", "--tag", f"gpuledger-local/{name}", context)


def _base() -> Path:
    """Return the tarball of the root file system, made once per version of the script."""
    script = _HERE / "base.sh"
    target = folder("images") / f"base-{_key(script)}.tar"
    if target.exists():
        return target
    if not shutil.which("debootstrap"):
        missing("images for Compose", "needs debootstrap")
    done = subprocess.run(["bash", str(script), str(target)], capture_output=True, text=True, check=False)
    if done.returncode:
        missing("images for Compose", f"{script.name} failed: {done.stderr[-1500:]}")
    return target


def _wheels(engine: Engine) -> Path:
    """Return the folder of the locked packages for the Python of the base, fetched once per lock file."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = engine.run("docker", "run", "--rm", "--network", "none", _BASE, "python3", "-c", ask).stdout.strip()
    target = folder("wheels") / f"{version}-{_key(_LOCK)}"
    if (target / "complete").exists():
        return target
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    fetch += ["--only-binary=:all:", f"--python-version={version}", "--require-hashes", "-r", str(_LOCK)]
    done = subprocess.run([*fetch, "-d", str(target)], capture_output=True, text=True, check=False)
    if done.returncode:
        missing("images for Compose", f"pip download failed: {done.stderr[-1500:]}")
    (target / "complete").touch()
    return target


def _key(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
