"""``gpuledger watcher | scheduler | binder | controller``: one service a process, on a log that is on Kafka.

Each is configured by a file and the environment (``services/runtime/settings.py``). Several processes of a role share
its clusters by group membership; one leads a cluster, the others follow its log and take over within seconds.

Each builder imports what its own service is made of: a scheduler starts without the Kubernetes client, which alone
takes longer to load than all the rest, and only a binder with a database loads SQLAlchemy.
"""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
import yaml

from adapters.cluster.port import ApiUnknown
from adapters.database.errors import DatabaseError
from adapters.log.errors import CheckpointError
from adapters.log.follower import Follower
from adapters.log.port import Log, LogError
from scheduling.state.fold import Fold
from services.runtime import logging
from services.runtime.driving import GATHER_S, READ_MODELS_S, STATUS_S, SharedNews
from services.runtime.process import Process
from services.runtime.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from adapters.database.recovery import Recovery

#: A superseded one tries again soon: whether it may is the group's to say.
_STAND_BACK_MS: Final = 1_000
#: Status and events ask less at once of the API server than bindings do.
_STATUS_LANES: Final = 8
#: A new pod that fits is bound and seen bound within this time: what would be written before is soon another.
_SETTLE_MS: Final = 500

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings in YAML.", envvar="GPULEDGER_CONFIG")
]
ShowOption = Annotated[bool, typer.Option("--show-config", help="Print the effective settings, secrets masked.")]


def watcher(config: ConfigOption = None, show_config: ShowOption = False) -> None:
    """Run a cluster's watcher: the API server's objects become observations on the log."""
    _run("watcher", config, show_config, build_watcher)


def scheduler(config: ConfigOption = None, show_config: ShowOption = False) -> None:
    """Run a scheduler for one cluster or several: it folds the log, decides, and appends its batches."""
    _run("scheduler", config, show_config, build_scheduler)


def binder(config: ConfigOption = None, show_config: ShowOption = False) -> None:
    """Run a cluster's binder and status writer, and its read models if there is a database."""
    _run("binder", config, show_config, build_binder)


def controller(config: ConfigOption = None, show_config: ShowOption = False) -> None:
    """Run a cluster's controllers for VolcanoJobs, PodGroups and Queues."""
    _run("controller", config, show_config, build_controller, needs_log=False)


def _run(
    name: str,
    config: Path | None,
    show: bool,
    build: Callable[[Process], Awaitable[None]],
    *,
    needs_log: bool = True,
) -> None:
    """Run a service until it is stopped; exits with 2 and one line for settings that cannot be used."""
    try:
        settings = load_settings(config)
    except SettingsError as error:
        _refuse(str(error))
    if show:
        sys.stdout.write(yaml.safe_dump(settings.shown(), sort_keys=True))
        raise typer.Exit(0)
    if needs_log and settings.log.home != "kafka":
        _refuse(f"log.home: separate services share a log on kafka (got {settings.log.home!r}); or use gpuledger up")
    logging.configure(settings.log_level, settings.log_format, service=name)
    try:
        code = asyncio.run(_serve(name, settings, build))
    except (LogError, DatabaseError, ApiUnknown, CheckpointError, OSError) as error:
        _refuse(str(error))
    raise typer.Exit(code)


async def _serve(name: str, settings: Settings, build: Callable[[Process], Awaitable[None]]) -> int:
    return await Process(name, settings).run(build)


def _refuse(text: str) -> None:
    typer.echo("".join(f"gpuledger: {line}\n" for line in text.splitlines()), err=True, nl=False)
    raise typer.Exit(2)


async def build_watcher(process: Process) -> None:
    """Drive the watcher of the cluster."""
    from services.watcher.beginning import remembered
    from services.watcher.watcher import Watcher

    settings = process.settings
    recovery = _recovery(process, settings.cluster)
    api, log = await process.connect(), await process.open_log(settings.cluster)
    may = process.join(f"gpuledger-watcher.{settings.cluster}", [settings.cluster])
    service = Watcher(
        api, log, process.clock, settings.cluster, process.writer_id(),
        incarnation=lambda: uuid.uuid4().hex[:8], scope=settings.scope, jitter=random.random,
        stand_back_ms=_STAND_BACK_MS, may_lead=may(settings.cluster), config=settings.shown(),
        start=(lambda: remembered(recovery, log)) if recovery else None,
        covered=recovery.covers if recovery else None,
    )  # fmt: skip
    process.at_end(service.close)
    process.drive("watcher", service.step, process.watch_news(lambda: service.reflectors), pace_s=GATHER_S)


async def build_scheduler(process: Process) -> None:
    """Drive a scheduler for every cluster that is served."""
    from services.runtime.model_metrics import ModelCollector, by_cluster
    from services.scheduler.scheduler import Scheduler

    def collector_of(service: Scheduler) -> ModelCollector:
        return ModelCollector(lambda: service.model, service.times, lambda: service.follower.state)

    settings = process.settings
    logs = {cluster: await process.open_log(cluster) for cluster in settings.served}
    may = process.join("gpuledger-scheduler", settings.served)
    services: dict[str, Scheduler] = {}
    for cluster, log in logs.items():
        service = services[cluster] = Scheduler(
            log, process.clock, cluster, process.writer_id(), follower=await _start(process, log, cluster),
            threaded=True, mode=settings.mode,
            idle_ms=settings.idle_decision_ms, stand_back_ms=_STAND_BACK_MS, may_lead=may(cluster),
            observer=process.metrics, second_look_ms=settings.second_look_s * 1000,
        )  # fmt: skip
        follower = service.follower
        process.drive(f"scheduler of {cluster}", service.step, process.log_news(log, _position_of(follower)))
    process.metrics.registry.register(
        by_cluster({cluster: collector_of(service) for cluster, service in services.items()})
    )


async def build_binder(process: Process) -> None:
    """Drive the binder, the status writer and, with a database, the projector of the cluster."""
    from services.binder.binder import Binder
    from services.binder.recorder import Recorder
    from services.binder.status import StatusWriter

    settings = process.settings
    cluster = settings.cluster
    vouch = _voucher(process)
    api = await process.connect()
    log = await process.open_log(cluster)
    follower = await _start(process, log, cluster)
    may = process.join(f"gpuledger-binder.{cluster}", [cluster])
    events = Recorder(api, process.clock, parallel=_STATUS_LANES, pressed=lambda: service.pressed)
    service = Binder(
        api, log, follower, process.clock, cluster, process.writer_id(), recorder=events,
        parallel=settings.bind_lanes, jitter=random.random, pause=asyncio.sleep, stand_back_ms=_STAND_BACK_MS,
        may_lead=may(cluster), observer=process.metrics.times,
    )  # fmt: skip
    news = SharedNews(log, _position_of(follower))
    process.drive("binder", news.around(service.step), news)
    vouch(follower)
    status = StatusWriter(
        api, follower, process.clock, recorder=events, parallel=_STATUS_LANES,
        interval_ms=settings.status_interval_s * 1000, settle_ms=_SETTLE_MS, leads=lambda: service.leading,
        pressed=lambda: service.pressed,
    )  # fmt: skip
    process.drive("status writer", status.step, _a_moment, pace_s=STATUS_S)
    process.drive("events", events.flush, _a_moment, pace_s=STATUS_S)
    if url := settings.database.get_secret_value():
        from adapters.database.engine import open_database
        from adapters.database.projector import Projector

        own = await process.open_log(cluster)
        projector = Projector(
            own, open_database(url), cluster, threaded=True, snapshot_every=settings.snapshot_every, note=process.note,
            leads=lambda: service.leading,
        )  # fmt: skip
        followed = process.log_news(own, lambda: projector.follower.position)
        process.drive("projector", projector.step, followed, pace_s=READ_MODELS_S)


def _voucher(process: Process) -> Callable[[Follower[Fold]], None]:
    """Return what writes signed checkpoints of what a follower has read, if there is a key. Raises CheckpointError."""
    given = process.settings.checkpoints
    if not given.key_file:
        return lambda _: None
    from adapters.log.checkpoints import CheckpointWriter, read_private

    key = read_private(Path(given.key_file))

    def vouch(follower: Follower[Fold]) -> None:
        def identity() -> tuple[str, str]:
            return process.settings.cluster, follower.state.model.incarnation

        writer = CheckpointWriter(Path(given.file), key, process.clock, follower, identity)
        process.drive("checkpoints", writer.step, _a_moment, pace_s=STATUS_S)

        async def finish() -> None:
            writer.finish()

        process.at_end(finish)

    return vouch


async def build_controller(process: Process) -> None:
    """Drive the controllers of the cluster."""
    from services.controller.manager import ControllerManager
    from services.controller.observing import ControllerMetrics
    from services.controller.routes import Switches

    settings = process.settings
    manager = ControllerManager(
        await process.connect(), process.clock, Switches(**settings.controllers.model_dump()),
        schedulers=settings.scheduler_names, jitter=random.random,
        observer=ControllerMetrics(process.metrics.registry), parallel=settings.controller_lanes,
    )  # fmt: skip
    process.at_end(manager.close)
    if settings.webhook.enabled:
        await _serve_webhook(process)
    process.drive("controller", manager.step, process.watch_news(lambda: manager.reflectors), pace_s=GATHER_S)


def _recovery(process: Process, cluster: str) -> Recovery | None:
    """Return the snapshots of a cluster, None without a database. Raises DatabaseError for a bad URL."""
    url = process.settings.database.get_secret_value()
    if not url:
        return None
    from adapters.database.engine import open_database
    from adapters.database.recovery import Recovery

    return Recovery(open_database(url), cluster, process.note)


async def _start(process: Process, log: Log, cluster: str) -> Follower[Fold]:
    """Return a follower that stands at a snapshot and has read on from it, or before the log."""
    recovery = _recovery(process, cluster)
    while recovery is not None:
        try:
            return await recovery.follower(log)
        except LogError as error:
            process.note(f"the log cannot be read, will try again: {error}")
            await asyncio.sleep(1.0)
    return Follower(log, Fold())


async def _a_moment(_: float) -> None:
    """No news of their own: status writer and events look at their pace at what the binder, and they, have brought."""


async def _serve_webhook(process: Process) -> None:
    """Serve the write checks beside the controllers."""
    from services.controller.webhook import Certificates, serve

    given = process.settings.webhook
    certificates = Certificates(given.cert_file, given.key_file)
    api = await process.connect()
    end, _ = await serve(api, given.host, given.port, certificates, check_allocated_pods=given.check_allocated_pods)
    process.at_end(end)
    process.drive("webhook", certificates.step, asyncio.sleep)


def _position_of(follower: Follower[Fold]) -> Callable[[], int]:
    return lambda: follower.position
