"""What the binder tells those who count (scheduling section 8)."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from scheduling.objects import Pod


class Observer(Protocol):
    """Is told how long a Binding took, in milliseconds."""

    def prebound(self, took_ms: int, latency_ms: int | None) -> None:
        """Node, volumes and lock are seen to; ``latency_ms`` is since the pod's creation, None: not known."""
        ...

    def bound(self, took_ms: int) -> None:
        """The Binding was applied, so long after it was first sent."""
        ...


class Progress:
    """How far each command got, and since when. A command that is taken up again goes on, it does not begin anew."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self._begun: dict[str, int] = {}
        self._sent: dict[str, int] = {}

    def keep(self, commands: Container[str]) -> None:
        """Forget what is not among these."""
        self._begun = {key: since for key, since in self._begun.items() if key in commands}
        self._sent = {key: since for key, since in self._sent.items() if key in commands}

    def begins(self, command: str, now_ms: int) -> None:
        """A command is taken up."""
        self._begun.setdefault(command, now_ms)

    def sends(self, command: str, pod: Pod | None, now_ms: int) -> None:
        """All that comes before its Binding is done."""
        if command in self._sent:
            return
        self._sent[command] = now_ms
        if self._observer is not None:
            latency_ms = now_ms - pod.created * 1000 if pod is not None and pod.created else None
            self._observer.prebound(now_ms - self._begun.get(command, now_ms), latency_ms)

    def applied(self, command: str, now_ms: int) -> None:
        """Its Binding was applied."""
        since = self._sent.get(command)
        if self._observer is not None and since is not None:
            self._observer.bound(now_ms - since)
