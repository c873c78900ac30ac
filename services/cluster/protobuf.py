"""Requests in Kubernetes' protobuf form: ``kubectl create`` and ``kubectl drain`` send some objects that way.

Only reading, and only the kinds that those commands send; answers are JSON, which every client takes. The envelope is
``k8s\\0`` and a message with the type and the object's bytes. Each message is a table from field number to field name
and type, in the notation of ``schema``; ``bytes`` become base64, and fields that are not in the table are skipped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from adapters.clock import rfc3339
from events.canonical import Json
from services.cluster.refusal import Refused, bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

Fields = dict[int, tuple[str, str]]

_MESSAGES: dict[str, Fields] = {
    "Envelope": {1: ("type", "&TypeMeta"), 2: ("raw", "raw"), 3: ("contentEncoding", "string")},
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
    "ObjectMeta": {
        1: ("name", "string"), 2: ("generateName", "string"), 3: ("namespace", "string"), 5: ("uid", "string"),
        6: ("resourceVersion", "string"), 8: ("creationTimestamp", "time"), 11: ("labels", "{}string"),
        12: ("annotations", "{}string"), 13: ("ownerReferences", "[]&OwnerReference"), 14: ("finalizers", "[]string"),
    },
    "OwnerReference": {
        1: ("kind", "string"), 3: ("name", "string"), 4: ("uid", "string"), 5: ("apiVersion", "string"),
        6: ("controller", "boolean"), 7: ("blockOwnerDeletion", "boolean"),
    },
    "Namespace": {1: ("metadata", "&ObjectMeta")},
    "ConfigMap": {
        1: ("metadata", "&ObjectMeta"), 2: ("data", "{}string"), 3: ("binaryData", "{}bytes"),
        4: ("immutable", "boolean"),
    },
    "Secret": {
        1: ("metadata", "&ObjectMeta"), 2: ("data", "{}bytes"), 3: ("type", "string"), 4: ("stringData", "{}string"),
        5: ("immutable", "boolean"),
    },
    "ResourceQuota": {1: ("metadata", "&ObjectMeta"), 2: ("spec", "&ResourceQuotaSpec")},
    "ResourceQuotaSpec": {
        1: ("hard", "{}quantity"), 2: ("scopes", "[]string"), 3: ("scopeSelector", "&ScopeSelector"),
    },
    "ScopeSelector": {1: ("matchExpressions", "[]&ScopeRequirement")},
    "ScopeRequirement": {1: ("scopeName", "string"), 2: ("operator", "string"), 3: ("values", "[]string")},
    "PriorityClass": {
        1: ("metadata", "&ObjectMeta"), 2: ("value", "integer"), 3: ("globalDefault", "boolean"),
        4: ("description", "string"), 5: ("preemptionPolicy", "string"),
    },
    "Service": {1: ("metadata", "&ObjectMeta"), 2: ("spec", "&ServiceSpec")},
    "ServiceSpec": {
        1: ("ports", "[]&ServicePort"), 2: ("selector", "{}string"), 3: ("clusterIP", "string"), 4: ("type", "string"),
        10: ("externalName", "string"),
    },
    "ServicePort": {
        1: ("name", "string"), 2: ("protocol", "string"), 3: ("port", "integer"), 4: ("targetPort", "intstr"),
        5: ("nodePort", "integer"),
    },
    "Eviction": {1: ("metadata", "&ObjectMeta"), 2: ("deleteOptions", "&DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "integer"), 2: ("preconditions", "&Preconditions"),
        4: ("propagationPolicy", "string"), 5: ("dryRun", "[]string"),
    },
    "Preconditions": {1: ("uid", "string"), 2: ("resourceVersion", "string")},
    "Binding": {1: ("metadata", "&ObjectMeta"), 2: ("target", "&ObjectReference")},
    "ObjectReference": {1: ("kind", "string"), 2: ("namespace", "string"), 3: ("name", "string")},
    "Quantity": {1: ("value", "string")},
    "Time": {1: ("seconds", "integer")},
    "IntOrString": {1: ("type", "integer"), 2: ("number", "integer"), 3: ("text", "string")},
}  # fmt: skip
_ROOTS = {"Namespace", "ConfigMap", "Secret", "ResourceQuota", "PriorityClass", "Service", "Eviction", "DeleteOptions",
          "Binding"}  # fmt: skip


def decode(data: bytes) -> Json:
    """Return the object in a protobuf body. Raises Refused: 400 if it is broken, 415 for a kind that is not read."""
    if not data.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = _message(data[len(_MAGIC) :], "Envelope")
        kind, version = envelope["type"]["kind"], envelope["type"].get("apiVersion", "v1")
        if kind not in _ROOTS:
            message = f"{kind} is not read as protobuf here: send application/json"
            raise Refused(415, "UnsupportedMediaType", message)
        return {"apiVersion": version, "kind": kind, **_message(envelope.get("raw", b""), kind)}
    except (IndexError, KeyError, ValueError, OverflowError) as error:
        raise bad_request(f"error decoding protobuf: {error or type(error).__name__}") from error


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value (varint or bytes) of each field of a message."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, place = _varint(data, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} is not known")
        if place + size > len(data):
            raise ValueError("the message ends too early")
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _message(data: bytes, name: str) -> Json:
    found: Json = {}
    for number, raw in _fields(data):
        if number not in _MESSAGES[name]:
            continue
        field, type_ = _MESSAGES[name][number]
        if type_.startswith("[]"):
            found.setdefault(field, []).append(_value(raw, type_[2:]))
        elif type_.startswith("{}"):
            entry = dict(_fields(_bytes(raw)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(field, {})[key] = _value(entry.get(2, b""), type_[2:])
        else:
            value = _value(raw, type_)
            if value not in ("", None):
                found[field] = value
    return found


def _value(raw: int | bytes, type_: str) -> Any:
    if type_ in ("integer", "boolean"):
        number = _number(raw)
        return bool(number) if type_ == "boolean" else number
    data = _bytes(raw)
    if type_.startswith("&"):
        return _message(data, type_[1:])
    if type_ == "quantity":
        return _message(data, "Quantity").get("value", "0")
    if type_ == "time":
        seconds = _message(data, "Time").get("seconds")
        return None if seconds is None else rfc3339(seconds * 1000)
    if type_ == "intstr":
        either = _message(data, "IntOrString")
        return either.get("text", "") if either.get("type") else either.get("number", 0)
    if type_ == "bytes":
        return base64.b64encode(data).decode()
    return data if type_ == "raw" else data.decode()


def _number(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ValueError("a number was expected")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ValueError("bytes were expected")
    return raw
