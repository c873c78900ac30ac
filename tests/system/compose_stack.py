"""The stack of ``docker-compose.yml`` on an engine of the tests, looked at as a user would: by Compose and the API."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from parts import local_images
from parts.engine import Engine
from system.lab import OutsideView
from system.stack import ROOT

PROJECT = "gpuledger"
SERVICES = ("watcher", "scheduler", "binder", "controller")
_SETTINGS = Path(__file__).with_name("compose_settings.yml")


class ComposeStack:
    """One stack; ``containers`` are named as Compose names them, such as ``gpuledger-scheduler-1``."""

    def __init__(self, engine: Engine, compose: list[str], kubeconfig: Path) -> None:
        self.engine = engine
        self._compose = [*compose, "-f", str(ROOT / "docker-compose.yml"), "-f", str(_SETTINGS), "--progress=quiet"]
        self._given = {**local_images.NAMES, "POSTGRES_PASSWORD": "hunter2", "KUBECONFIG_FILE": str(kubeconfig)}

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a Compose command to its end."""
        return self.engine.run(*self._compose, *arguments, check=check, **self._given)

    def containers(self) -> dict[str, str]:
        """Return every container, stopped ones too, with its state or, where it has one, its health."""
        lines = self.compose("ps", "--all", "--format", "json").stdout.splitlines()
        return {item["Name"]: item["Health"] or item["State"] for item in map(json.loads, lines)}

    def ours(self) -> list[str]:
        """Return the containers of our services."""
        return [name for name in self.containers() if name.split("-")[1] in SERVICES]

    def inspect(self, container: str) -> dict[str, Any]:
        """Return what the engine says of a container."""
        found: list[dict[str, Any]] = json.loads(self.engine.run("docker", "inspect", container).stdout)
        return found[0]

    def kill(self, container: str) -> None:
        """End a container's process as ``kill -9`` does, behind the engine's back, so that its restart policy holds."""
        self.engine.inside("kill", "-9", str(self.inspect(container)["State"]["Pid"]))

    def within(self, container: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a container."""
        return self.engine.run("docker", "exec", container, *command, check=check)

    def gpuledger(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that looks back at the log, beside the watcher."""
        return self.within(f"{PROJECT}-watcher-1", "gpuledger", *arguments)

    def query(self, statement: str) -> str:
        """Ask the database."""
        return self.within(f"{PROJECT}-postgres-1", "psql", "-U", "gpuledger", "-tA", "-c", statement).stdout.strip()

    def left(self) -> list[str]:
        """Return every container, volume and network of the stack that the engine still knows."""
        mark = f"label=com.docker.compose.project={PROJECT}"
        listings = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
        return [line for words in listings for line in self._listed(*words, "--quiet", "--filter", mark)]

    def _listed(self, *words: str) -> list[str]:
        return self.engine.run("docker", *words).stdout.split()


class ComposeView(OutsideView):
    """Answers the lab's questions; of the cards it says what ``gpuledger state`` prints in a container."""

    def __init__(self, api: Any, stack: ComposeStack) -> None:
        self.api = api
        self.stack = stack

    async def look(self) -> None:
        """Nothing is folded here."""

    def cards(self) -> str:
        state = json.loads(self.stack.gpuledger("state", "-o", "json").stdout)
        return "; ".join(
            f"{card['uuid']} {card['memory']['used']}/{card['memory']['total']} MiB, "
            f"{card['cores']['used']}/{card['cores']['total']} cores, "
            f"{card['shares']['used']}/{card['shares']['total']} shares"
            for node in state["nodes"]
            for card in node["cards"]
        )
