"""The nodes of the embedded cluster: a kubelet and a device plugin that play their parts (devices/A-10 to A-13)."""

from services.cluster.nodeagent.agents import NodeAgents

__all__ = ["NodeAgents"]
