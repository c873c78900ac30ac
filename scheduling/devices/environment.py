"""What the device rules are configured with: the device ConfigMap and the deviceshare arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.config import DeviceConfig


@dataclass(frozen=True)
class DeviceEnv:
    """Everything configurable that the device rules read; a change of it rebuilds the books of all nodes (N-16)."""

    config: DeviceConfig = field(default_factory=DeviceConfig)
    args: DeviceShareArgs = field(default_factory=DeviceShareArgs)

    @property
    def number_name(self) -> str:
        """The resource that asks for shares (C-1, R-12)."""
        return self.config.number_name

    @property
    def memory_name(self) -> str:
        """The resource that asks for memory per share in units (C-2)."""
        return self.config.memory_name

    @property
    def percentage_name(self) -> str:
        """The resource that asks for memory per share in percent of the card (C-3)."""
        return self.config.percentage_name

    @property
    def cores_name(self) -> str:
        """The resource that asks for compute percent per share (C-4)."""
        return self.config.cores_name

    @cached_property
    def resource_names(self) -> frozenset[str]:
        """All four names."""
        return frozenset((self.number_name, self.memory_name, self.percentage_name, self.cores_name))
