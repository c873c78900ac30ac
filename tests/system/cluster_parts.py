"""What a real cluster has and a bare API server lacks: kubelets and device plugins, as a process of its own.

    python cluster_parts.py KUBECONFIG

They are the embedded cluster's node agents; here they act on the API server that the kubeconfig names.
"""

from __future__ import annotations

import asyncio
import random
import sys

from adapters.clock import SystemClock
from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from services.cluster.nodeagent import NodeAgents
from services.runtime.driving import Driven, WatchNews, drive


async def main(kubeconfig: str) -> None:
    api = await KubernetesApi.connect(kubeconfig_configuration(kubeconfig))
    agents = NodeAgents(api, SystemClock(), jitter=random.random)
    await drive(Driven("node agents"), agents.step, WatchNews(lambda: agents.reflectors))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
