"""What a service is started with: defaults, then a YAML file, then ``GPULEDGER_*`` environment variables.

Nested fields are joined by two underscores (``GPULEDGER_KAFKA__SERVERS``). Secrets are never shown: ``shown`` masks
them, and that is all that ``--show-config`` and logs ever see.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from events.names import DEVICE_CONFIG, SCHEDULER_CONFIG
from events.projection import ConfigKey, Scope

S = TypeVar("S", bound=BaseSettings)
_CLUSTER_NAME = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


class SettingsError(Exception):
    """The configuration cannot be used; the text names file, field and value, a line each."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesSettings(_Section):
    """How the API server is reached: a plain ``server`` URL, else in-cluster if asked, else a kubeconfig."""

    server: str = ""
    token: SecretStr = SecretStr("")
    in_cluster: bool = False
    kubeconfig: str = ""
    context: str = ""


class KafkaSettings(_Section):
    """The log's brokers.

    ``protocol`` PLAINTEXT is for loopback, and elsewhere only if ``plaintext_anywhere`` says that the network is ours
    alone. ``topic`` may hold ``{cluster}``; ``session_s`` is how long a silent member of a group is waited for.
    """

    servers: str = ""
    topic: str = "gpuledger.{cluster}"
    protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT"
    plaintext_anywhere: bool = False
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str = ""
    sasl_password: SecretStr = SecretStr("")
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    session_s: int = Field(default=6, ge=1, le=300)


class ControllerSettings(_Section):
    """Which controllers run; ``garbage`` only where no kube-controller-manager deletes what is owned."""

    podgroups: bool = True
    jobs: bool = True
    queues: bool = True
    garbage: bool = False


class WebhookSettings(_Section):
    """The admission webhook that the controller's process serves, over TLS. Off where Volcano's own admission runs.

    ``check_allocated_pods``: a queue that holds pods may not be deleted.
    """

    enabled: bool = False
    host: str = "0.0.0.0"
    port: int = Field(default=8443, ge=0, le=65535)
    cert_file: str = ""
    key_file: str = ""
    check_allocated_pods: bool = False


class LogSettings(_Section):
    """Where the log is: SQLite in a file, or Kafka."""

    home: Literal["sqlite", "kafka", "memory"] = "sqlite"
    path: str = "gpuledger.db"


class CheckpointSettings(_Section):
    """Signed checkpoints of the log, which the binder's process writes: with this private key, to this file."""

    key_file: str = ""
    file: str = ""


class HttpSettings(_Section):
    """Metrics and health over HTTP, on loopback unless said otherwise; port 0 takes a free one.

    ``token`` is asked for by everything but health and metrics; off loopback nothing else is served without one.
    """

    host: str = "127.0.0.1"
    token: SecretStr = SecretStr("")
    port: int = Field(default=8080, ge=0, le=65535)


class ConfigMapName(_Section):
    """One configuration ConfigMap and the key that is read."""

    namespace: str
    name: str
    key: str

    @property
    def where(self) -> ConfigKey:
        return self.namespace, self.name, self.key


def _named(entry: ConfigKey) -> ConfigMapName:
    namespace, name, key = entry
    return ConfigMapName(namespace=namespace, name=name, key=key)


class Configured(BaseSettings):
    """Settings that come from defaults, a file and the environment, the later before the earlier."""

    model_config = SettingsConfigDict(
        env_prefix="GPULEDGER_", env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which is what a caller gives."""
        return env_settings, init_settings

    def shown(self) -> dict[str, Any]:
        """Return the effective configuration with every secret masked."""
        found: dict[str, Any] = json.loads(self.model_dump_json())
        return found


class Settings(Configured):
    """Everything that can be configured, for every service.

    ``snapshot_every`` is after how many records the binder keeps a snapshot in the database (0: never). Services that
    are told of the database start from the newest one.
    """

    cluster: str = Field(default="default", pattern=f"^{_CLUSTER_NAME}$")
    clusters: tuple[str, ...] = ()
    mode: Literal["active", "shadow"] = "active"
    scheduler_names: tuple[str, ...] = ("gpuledger",)
    scheduler_config: ConfigMapName = _named(SCHEDULER_CONFIG)
    device_config: ConfigMapName = _named(DEVICE_CONFIG)
    log: LogSettings = LogSettings()
    kafka: KafkaSettings = KafkaSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    controllers: ControllerSettings = ControllerSettings()
    webhook: WebhookSettings = WebhookSettings()
    http: HttpSettings = HttpSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    database: SecretStr = SecretStr("")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    stand_back_s: int = Field(default=60, ge=1)
    idle_decision_ms: int = Field(default=1000, ge=1)
    second_look_s: int = Field(default=30, ge=0)
    bind_lanes: int = Field(default=32, ge=1, le=256)
    controller_lanes: int = Field(default=16, ge=1, le=256)
    status_interval_s: int = Field(default=10, ge=0)
    snapshot_every: int = Field(default=10_000, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.log.home == "kafka" and not self.kafka.servers:
            raise ValueError("kafka.servers: must be set when log.home is kafka")
        if "@" in self.kubernetes.server:
            raise ValueError("kubernetes.server: a URL without user and password; kubernetes.token says who asks")
        if "@" in self.kafka.servers:
            raise ValueError("kafka.servers: host and port only; sasl_username and sasl_password say who asks")
        plaintext = self.kafka.protocol == "PLAINTEXT" and not self.kafka.plaintext_anywhere
        if self.log.home == "kafka" and plaintext and not _on_loopback(self.kafka.servers):
            raise ValueError("kafka.protocol: PLAINTEXT is refused off loopback, use SASL_SSL or SSL")
        if self.webhook.enabled and not (self.webhook.cert_file and self.webhook.key_file):
            raise ValueError("webhook: cert_file and key_file must be set when it is enabled")
        if bool(self.checkpoints.key_file) != bool(self.checkpoints.file):
            raise ValueError("checkpoints: key_file and file go together")
        if not self.scheduler_names:
            raise ValueError("scheduler_names: must name at least one")
        for name in self.clusters:
            if not re.fullmatch(_CLUSTER_NAME, name):
                raise ValueError(f"clusters: {name!r} is no name of a cluster ({_CLUSTER_NAME})")
        if len({self.topic_of(name) for name in self.served}) != len(self.served):
            raise ValueError("kafka.topic: must hold {cluster}, since each cluster has a log of its own")
        return self

    @property
    def served(self) -> tuple[str, ...]:
        """The clusters that a scheduler serves: ``clusters``, or ``cluster`` alone."""
        return self.clusters or (self.cluster,)

    def topic_of(self, cluster: str) -> str:
        """Return the name of a cluster's topic."""
        return self.kafka.topic.replace("{cluster}", cluster)

    @property
    def scope(self) -> Scope:
        """Which pods and ConfigMaps are observed."""
        return Scope(self.scheduler_names, self.scheduler_config.where, self.device_config.where)


def load_settings(path: Path | None = None) -> Settings:
    """Read the settings of a service from a file (optional) and the environment. Raises SettingsError."""
    return load(Settings, path)


def load(kind: type[S], path: Path | None = None) -> S:
    """Read settings of any kind from a file (optional) and the environment. Raises SettingsError."""
    content = _read(path) if path is not None else {}
    try:
        return kind(**content)
    except ValidationError as error:
        where = f"{path}: " if path is not None else ""
        raise SettingsError("\n".join(where + line for line in _lines(error))) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:  # its own text quotes the line, which may hold a secret
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise SettingsError(f"{path}: {line}{error.problem}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError(f"{path}: must be a mapping of settings")
    return content


_AT_A_WRONG_PLACE = ("extra_forbidden", "model_type", "dict_type", "model_attributes_type")


def _lines(error: ValidationError) -> list[str]:
    """Name field and reason of each problem; a value is shown unless it may be a secret, under a wrong name too."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        field = ".".join(str(part) for part in item["loc"])
        secret = item["type"] in _AT_A_WRONG_PLACE or any(word in field for word in ("password", "token", "database"))
        value = "" if secret or not field else f" (got {str(item['input'])[:100]!r})"
        lines.append(f"{field}: {item['msg']}{value}" if field else str(item["msg"]))
    return lines


def _on_loopback(servers: str) -> bool:
    hosts = [server.strip().rpartition(":")[0].strip("[]") or server.strip() for server in servers.split(",")]
    return all(host in ("localhost", "127.0.0.1", "::1") for host in hosts)
