"""The batch system's write checks (``scheduling.admission``) as a step of the embedded API's front door.

A refusal has the form that clients know from admission webhooks.
"""

from __future__ import annotations

from dataclasses import dataclass

from events.canonical import Json
from events.kinds import Kind
from scheduling.admission import Denied, Lister, complete_and_judge
from services.cluster.refusal import Refused


@dataclass(frozen=True)
class Admission:
    """The admission step. ``check_allocated_pods`` also refuses to delete a queue that holds pods (scheduling/Q-5)."""

    check_allocated_pods: bool = False

    def __call__(self, verb: str, kind: Kind, new: Json | None, old: Json | None, lister: Lister) -> Json | None:
        """Return the completed new form. Raises Refused."""
        try:
            complete_and_judge(verb, kind, new, old, lister, check_allocated_pods=self.check_allocated_pods)
        except Denied as denied:
            text = f'admission webhook "{denied.webhook}" denied the request: {denied.message}'
            raise Refused(403, "Forbidden", text) from None
        return new


admit = Admission()


def admission_chain(*, check_allocated_pods: bool = False) -> list[Admission]:
    """Return the admission steps of an embedded cluster, in their order."""
    return [Admission(check_allocated_pods)]


__all__ = ["Admission", "Lister", "Refused", "admission_chain", "admit"]
