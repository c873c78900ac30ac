"""Refusals of the API server: one exception that knows its Kubernetes ``Status``.

Every way in which a request can fail is a function here, with the words of the real server, since clients (and people)
match on them.
"""

from __future__ import annotations

from events.canonical import Json
from events.kinds import Kind


class Refused(Exception):
    """The request is refused: HTTP status, machine-readable reason, message, and ``details`` of the Status."""

    def __init__(self, status: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.details = status, reason, message, details or {}

    def body(self) -> Json:
        """Return the ``Status`` object."""
        return failure(self.status, self.reason, self.message, self.details)


def failure(status: int, reason: str, message: str, details: Json | None = None) -> Json:
    """Return a ``Status`` object of a failure."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        body["reason"] = reason
    if details:
        body["details"] = details
    body["code"] = status
    return body


def success(status: int, details: Json | None = None) -> Json:
    """Return a ``Status`` object of a success."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    if status != 200:
        body["code"] = status
    return body


def resource_of(kind: Kind) -> str:
    """Return ``plural.group``, as messages name a resource."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def details_of(kind: Kind, name: str, **more: object) -> Json:
    """Return the ``details`` of a Status about an object."""
    details: Json = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details.update(more)
    return details


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{resource_of(kind)} "{name}" not found', details_of(kind, name))


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def wrong_method() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def exists(kind: Kind, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{resource_of(kind)} "{name}" already exists', details_of(kind, name))


def conflict(kind: Kind, name: str, why: str, resource: str = "") -> Refused:
    """Return a conflict; ``resource`` is what the real server names in place of the plural, where it does."""
    shown = f"{resource}.{kind.group}" if resource and kind.group else resource or resource_of(kind)
    details = details_of(kind, name) | ({"kind": resource} if resource else {})
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {shown} "{name}": {why}', details)


def modified(kind: Kind, name: str) -> Refused:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def forbidden(kind: Kind, name: str, why: str) -> Refused:
    return Refused(403, "Forbidden", f'{resource_of(kind)} "{name}" is forbidden: {why}', details_of(kind, name))


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def bad_options(kind: str, why: str) -> Refused:
    """Return the refusal of a request's own options."""
    return Refused(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {why}', {"group": "meta.k8s.io", "kind": kind})


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)


class Problems:
    """Collects what is wrong with an object, field by field, into one 422."""

    def __init__(self) -> None:
        self.causes: list[Json] = []

    def required(self, field: str, why: str = "") -> None:
        self._add("FieldValueRequired", field, "Required value" + (f": {why}" if why else ""))

    def invalid(self, field: str, value: object, why: str) -> None:
        self._add("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {why}")

    def forbidden(self, field: str, why: str) -> None:
        self._add("FieldValueForbidden", field, f"Forbidden: {why}")

    def duplicate(self, field: str, value: object) -> None:
        self._add("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")

    def unsupported(self, field: str, value: object, known: list[str]) -> None:
        listed = ", ".join(f'"{item}"' for item in known)
        self._add("FieldValueNotSupported", field, f"Unsupported value: {_shown(value)}: supported values: {listed}")

    def missing(self, field: str, value: object) -> None:
        self._add("FieldValueNotFound", field, f"Not found: {_shown(value)}")

    def too_long(self, field: str, bytes_max: int) -> None:
        self._add("FieldValueTooLong", field, f"Too long: may not be more than {bytes_max} bytes")

    def _add(self, reason: str, field: str, message: str) -> None:
        self.causes.append({"reason": reason, "message": message, "field": field})

    def refuse(self, kind: Kind, name: str) -> None:
        """Raise a 422 if anything was found."""
        if self.causes:
            raise self.refusal(kind, name)

    def refusal(self, kind: Kind, name: str, *, stored: bool = False) -> Refused:
        """Return the 422 of what was found; ``stored``: by what stores it, which knows it by its plural."""
        texts = [f"{cause['field']}: {cause['message']}" for cause in self.causes]
        joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        named = kind.plural if stored else kind.name
        shown = f"{named}.{kind.group}" if kind.group else named
        details: Json = {"name": name} if name else {}
        if kind.group:
            details["group"] = kind.group
        details |= {"kind": named, "causes": self.causes}
        return Refused(422, "Invalid", f'{shown} "{name}" is invalid: {joined}', details)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
