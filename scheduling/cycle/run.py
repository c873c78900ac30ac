"""One cycle from beginning to end (scheduling/AL-2). Pure: the state is read, never changed."""

from __future__ import annotations

from scheduling.config.parse import default_config
from scheduling.cycle import close, promises, rest, snapshot, undo
from scheduling.cycle.actions import ACTIONS
from scheduling.cycle.eviction.leaving import evict_leaving
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.session import Session
from scheduling.cycle.stages import UNTOLD, Stages
from scheduling.reasons.kinds import NoConfiguration
from scheduling.state.model import CycleResult, Model

_DEFAULT = default_config()


def run(
    model: Model,
    time_ms: int,
    memo: Memo | None = None,
    placements_max: int | None = None,
    stages: Stages = UNTOLD,
) -> CycleResult:
    """Return what one scheduling pass over a state finds at this time (Unix milliseconds).

    ``memo`` may be handed from cycle to cycle of one process; it saves work and never changes a result. The pass ends
    early after the commit that reaches ``placements_max``; of groups that had no turn then, nothing is said. ``stages``
    is told what the pass is doing.
    """
    if model.config is None and model.config_report.errors:
        return close.without_configuration(model, NoConfiguration(tuple(model.config_report.errors)))
    memo = memo or Memo()
    memo.forget(model.pods)
    session = acted(model, time_ms, memo, placements_max, stages=stages)
    details = close.Details(session)
    result = CycleResult(
        gangs=session.gangs,
        evictions=session.evictions,
        groups=close.groups(session, details),
        pods=close.pods(session, details),
        promises=promises.standing(session),
        search_start=session.search_start,
    )
    rest.lay(session, result)
    memo.standing = session.standing
    return result


def acted(
    model: Model,
    time_ms: int,
    memo: Memo,
    placements_max: int | None = None,
    explains: str = "",
    stages: Stages = UNTOLD,
) -> Session:
    """Return the session of a cycle after its actions: what was decided, and what was tried.

    Of the tasks of the PodGroup that it ``explains``, the answer of every node is kept.
    """
    config = model.config or _DEFAULT
    with stages.during("open"):
        standing = snapshot.take(model, config, memo, time_ms)
        session = Session(model, config, standing, time_ms, memo, placements_max, explains, stages)
        session.open(PLUGINS)
    promises.restore(session)
    undo.undo_hopeless(session)
    for action in config.actions:
        execute = ACTIONS.get(action)
        if execute is not None:
            with stages.during("action", action):
                execute(session)
    evict_leaving(session)
    promises.drop_hopeless(session)
    undo.undo_stuck(session)
    return session
