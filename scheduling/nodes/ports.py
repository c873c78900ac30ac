"""Host ports: two pods on a node may not ask for the same one (scheduling/AL-20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.objects import Pod

_ANY_ADDRESS = ("", "0.0.0.0")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes; an empty address is every address."""

    port: int
    protocol: str
    address: str

    def conflicts(self, other: HostPort) -> bool:
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or self.address in _ANY_ADDRESS or other.address in _ANY_ADDRESS


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of a pod: of its containers, and of the init containers that go on beside them."""
    beside = (item for item in pod.init_containers if item.restartable)
    return tuple(_ports(port for item in (*pod.containers, *beside) for port in item.ports))


def _ports(found: Iterable[dict[str, object]]) -> Iterable[HostPort]:
    for item in found:
        number, protocol, address = item.get("hostPort"), item.get("protocol"), item.get("hostIP")
        if isinstance(number, int) and number > 0:
            yield HostPort(
                number,
                protocol if isinstance(protocol, str) and protocol else "TCP",
                address if isinstance(address, str) else "",
            )
