"""An embedded cluster as a process of its own: the API server, node agents and controllers, but no scheduler.

    python embedded_cluster.py FOLDER

Its address is the one line on standard output.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from adapters.clock import SystemClock
from services.cluster.admission import admission_chain
from services.cluster.cluster import EmbeddedCluster
from services.cluster.nodeagent import NodeAgents
from services.controller.manager import ControllerManager
from services.runtime.driving import Driven, WatchNews, drive


async def main(folder: Path) -> None:
    clock = SystemClock()
    cluster = EmbeddedCluster(clock, data=folder, admission=admission_chain())
    runner = await cluster.serve(0)
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}", flush=True)
    agents = NodeAgents(cluster.direct("node agents"), clock, jitter=random.random)
    manager = ControllerManager(cluster.direct("controller"), clock, jitter=random.random)
    await asyncio.gather(
        drive(Driven("node agents"), agents.step, WatchNews(lambda: agents.reflectors)),
        drive(Driven("controller"), manager.step, WatchNews(lambda: manager.reflectors)),
    )


if __name__ == "__main__":
    home = Path(sys.argv[1])
    home.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(home))
