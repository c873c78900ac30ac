"""The fold: records in, state out. It applies what is recorded and never decides anything.

Records are counted from the genesis (``sequence``); that count, not the offset of a home, is the place that decisions
refer to. Every record moves the count, also one without effect, so that all readers agree on every place.

What has effect (design section 3): a genesis begins a new state; an ``opened`` counts if it follows its role's current
term; everything else counts only if it comes from its role's current term and was not folded before. ``apply`` returns
what became of the record: ``applied`` or ``void: <why>``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from events.canonical import Json
from events.records import (
    Batch,
    Body,
    Deleted,
    Genesis,
    ListChunk,
    ListEnd,
    Observed,
    Opened,
    Outcome,
    Record,
    Role,
    Ticked,
)
from scheduling.state.decisions import Decisions
from scheduling.state.digest import Digest
from scheduling.state.model import Model, Term
from scheduling.state.observing import Observing
from scheduling.state.placing import Placing

APPLIED = "applied"
#: How many places back a batch may be based on; far more than is ever in flight.
MEMORY = 100_000
#: A jump of the clock above this needs two ticks (design section 3), in milliseconds.
JUMP_MS = 15 * 60 * 1000

_WRITER_OF: dict[type[Body], Role] = {
    Ticked: "scheduler", Batch: "scheduler", Outcome: "binder",
    Observed: "watcher", Deleted: "watcher", ListChunk: "watcher", ListEnd: "watcher",
}  # fmt: skip


class Fold:
    """The state of one cluster's log. ``model`` is what everyone reads; only this class changes it."""

    def __init__(self) -> None:
        self.sequence = 0
        self.aside = 0
        self.diverged = 0
        self._begin("", "")

    def _begin(self, cluster: str, incarnation: str) -> None:
        #: What decisions over this state found out and may use again; no part of the state.
        self.findings: object = None
        self.model = Model(cluster=cluster, incarnation=incarnation)
        self.sequence = 0
        self._digest = Digest()
        self._marks: deque[tuple[str, str]] = deque(maxlen=MEMORY)
        #: The position of the genesis, and the place right after the newest batch that counted (-1: none).
        self.begins, self._batch_end = -1, -1
        self._jump_ms = 0
        self._placing = Placing(self.model)
        self._observing = Observing(self.model, self._placing, self._digest)
        self._decisions = Decisions(self.model, self._placing, self._digest)
        self._observing.configure()
        self._effects: dict[type[Body], Callable[[Any], str]] = {
            Ticked: self._ticked,
            Observed: self._observing.observed,
            Deleted: self._observing.deleted,
            ListChunk: self._observing.chunk,
            ListEnd: self._observing.list_end,
            Outcome: self._decisions.outcome,
        }

    @property
    def anchored(self) -> bool:
        """Whether a genesis was folded: nothing is known, and nothing may be decided, before (scheduling/F-11b)."""
        return bool(self.model.incarnation)

    @property
    def ready(self) -> bool:
        """Whether the present watcher term has listed every kind, so that the state is whole (F-11)."""
        return self._observing.complete

    @property
    def after_batch(self) -> bool:
        """Whether the last record was a batch that counts: no batch still to come is based on a place before here."""
        return self._batch_end == self.sequence

    def objects(self, kind: str) -> Iterator[tuple[str, Json]]:
        """Yield the objects of a kind (``apiVersion/Kind``) by ``namespace/name``, as they were last observed."""
        return self._observing.objects(kind)

    def digest(self) -> str:
        """Return the digest of the state as it is now."""
        return self._digest.hex()

    def mark(self) -> tuple[int, str]:
        """Return the place that a decision made now is based on, and the state's digest there."""
        return self.sequence, self.digest()

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record; ``chain_before`` is the chain's digest of everything before it. Returns the verdict."""
        if isinstance(record.body, Genesis):
            return self._genesis(position, record.body)
        if not self.anchored:
            return "void: the beginning of the log is gone"
        self._marks.append((chain_before, self.digest()))
        self._observing.at(self.sequence)
        verdict = self._fold(record)
        self.sequence += 1
        return verdict

    def set_aside(self, position: int, reason: str, chain_before: str) -> None:
        """Count bytes that could not be read as a record without effect."""
        self.aside += 1
        if self.anchored:
            self._marks.append((chain_before, self.digest()))
            self.sequence += 1

    def _genesis(self, position: int, body: Genesis) -> str:
        if self.model.incarnation == body.incarnation:
            return "void: the log has begun already"
        self._begin(body.cluster, body.incarnation)
        self._digest.set("log", "", [body.cluster, body.incarnation])
        self._marks.append(("", ""))
        self.sequence, self.begins = 1, position
        return APPLIED

    def _fold(self, record: Record) -> str:
        body = record.body
        if isinstance(body, Opened):
            return self._opened(body, record)
        term = self.model.terms.get(record.role, Term())
        if record.role != _WRITER_OF.get(type(body)):
            return f"void: {record.role} does not write {body.TYPE}"
        if record.term != term.number:
            return f"void: superseded term {record.term}, current is {term.number}"
        if record.number < term.next_record:
            return "void: repeated"
        self._set_term(record.role, Term(term.number, term.writer, record.number + 1))
        if isinstance(body, Batch):
            return self._batch(body, record)
        return self._effects[type(body)](body)

    def _set_term(self, role: Role, term: Term) -> None:
        self.model.terms[role] = term
        self._digest.set_late("term", role, lambda: [term.number, term.writer, term.next_record])

    def _opened(self, body: Opened, record: Record) -> str:
        current = self.model.terms.get(body.role, Term())
        if record.role != body.role or body.previous != current.number or body.term <= current.number:
            return f"void: term {body.term} follows {body.previous}, current is {current.number}"
        self._set_term(body.role, Term(body.term, body.writer, record.number + 1))
        if body.role == "watcher":
            self._observing.new_term(body.config)
        if body.role == "scheduler":
            self._decisions.new_term()
            if not self.model.time_ms:
                self._set_time(body.time_ms)
            else:
                self._move_time(body.time_ms)
        return APPLIED

    def _ticked(self, body: Ticked) -> str:
        return APPLIED if self._move_time(body.time_ms) else "void: a jump of the clock needs a second tick"

    def _move_time(self, time_ms: int) -> bool:
        """Move time, never backwards; a jump waits for a second tick that says the same (design section 3)."""
        if time_ms - self.model.time_ms > JUMP_MS and not (self._jump_ms and time_ms >= self._jump_ms):
            self._jump_ms = time_ms
            return False
        self._jump_ms = 0
        if time_ms > self.model.time_ms:
            self._set_time(time_ms)
        return True

    def _set_time(self, time_ms: int) -> None:
        self.model.time_ms = time_ms
        self._digest.set_late("time", "", lambda: time_ms)

    def _batch(self, body: Batch, record: Record) -> str:
        back = self.sequence - body.base
        if not 0 <= back < len(self._marks):
            return f"void: based on place {body.base}, which is not known at {self.sequence}"
        chain, state = self._marks[len(self._marks) - 1 - back]
        if (body.chain, body.state) != (chain, state):
            self.diverged += 1
            return f"void: diverged: chain or state at place {body.base} is another"
        if not self._move_time(body.time_ms):
            return "void: the batch's time jumps ahead"
        verdict = self._decisions.batch(body, record, self.sequence)
        if verdict.startswith(APPLIED):
            self._batch_end = self.sequence + 1
        return verdict


def effective_configuration(model: Model) -> dict[str, Any]:
    """Return the configuration in force as JSON, for ``opened`` records and for people."""
    config = model.config
    if config is None:
        return {"scheduler": None, "errors": list(model.config_report.errors)}
    return {
        "scheduler": {
            "actions": list(config.actions),
            "tiers": [[option.name for option in tier] for tier in config.tiers],
        },
        "warnings": [*model.config_report.warnings, *model.device_warnings],
    }
