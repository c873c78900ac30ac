"""The catalogue of record types, made from the types themselves: JSON Schema for each body, AsyncAPI for the log.

A type that was published never changes: its readers accept exactly its fields, so one field more is another version.
``shape`` is what must stay; names for people and explanations may be improved.
"""

from __future__ import annotations

from typing import Any, Final

from events.canonical import Json
from events.records import BODIES, Body

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: The attributes that every record carries beside its body (Kafka protocol binding: headers ``ce_*``).
HEADERS: Final[Json] = {
    "type": "object",
    "required": ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "content-type"],
    "properties": {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {
            "type": "string",
            "pattern": "/[wsb](0|[1-9][0-9]{0,17})\\.(0|[1-9][0-9]{0,17})$",
            "description": "<cluster>/<incarnation>/<role initial><term>.<number>; watcher, scheduler or binder",
        },
        "ce_source": {"type": "string", "description": "gpuledger/<cluster>"},
        "ce_type": {"type": "string"},
        "ce_time": {
            "type": "string",
            "pattern": "^[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z$",
            "description": "RFC 3339 in UTC with milliseconds",
        },
        "ce_subject": {"type": "string", "description": "Kind/namespace/name of the object that it is about"},
        "ce_ignorable": {"const": "true", "description": "a reader that does not know the version may pass over it"},
        "content-type": {"const": "application/json"},
    },
}
_FOR_PEOPLE: Final = ("title", "description", "examples")


def schema(body: type[Body]) -> Json:
    """Return the JSON Schema of a body."""
    return {"$schema": DIALECT, "$id": f"urn:gpuledger:{body.TYPE}", **body.model_json_schema()}


def schemas() -> dict[str, Json]:
    """Return the schema of every type by its name."""
    return {body.TYPE: schema(body) for body in BODIES}


def asyncapi() -> Json:
    """Return the AsyncAPI document of the log."""
    names = sorted(schemas())
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "gpuledger log",
            "version": "1",
            "description": "One totally ordered log a cluster. Records are CloudEvents in Kafka's binary mode.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "log": {
                "address": "gpuledger.{cluster}",
                "parameters": {"cluster": {"description": "The name of the cluster"}},
                "bindings": {"kafka": {"partitions": 1}},
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
            }
        },
        "operations": {
            "append": {"action": "send", "channel": {"$ref": "#/channels/log"}},
            "follow": {"action": "receive", "channel": {"$ref": "#/channels/log"}},
        },
        "components": {
            "messageTraits": {"cloudEvent": {"headers": HEADERS}},
            "messages": {
                name: {
                    "name": name,
                    "traits": [{"$ref": "#/components/messageTraits/cloudEvent"}],
                    "payload": {"$ref": f"./{name}.schema.json"},
                }
                for name in names
            },
        },
    }


def shape(value: Any) -> Any:
    """Return a schema without what is only for people."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: shape(item) for key, item in value.items() if not (key in _FOR_PEOPLE and isinstance(item, str))}
