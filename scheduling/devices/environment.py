"""What the device rules are configured with: the device ConfigMap and the deviceshare arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceEnv:
    """Everything configurable that the device rules read; a change of it rebuilds the books of all nodes (N-16)."""
