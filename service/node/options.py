"""What a node's flags come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfquiver.service.node.disk import codec
from tfquiver.service.node.unix_socket_clients.reader_group import ReaderGroup
from tfquiver.service.node.unix_socket_clients.silent_readers import PATIENCE_S
from tfquiver.service.tracing.shard_spans import ShardSpans


@dataclass(frozen=True, slots=True)
class Options:
    quota_bytes: int | None  # None: by what is free
    hot_bytes: int
    codec: codec.Mode
    coordinator: str  # "": its own
    control_port: int | None  # None: on a Unix socket only
    data_port: int
    bind_host: str
    advertise_host: str
    token: str
    fetch_deadline_s: float
    connect_s: float
    lost_s: float
    ahead_bytes: int
    refill_bytes_per_s: int
    incarnation: str
    reader_group: ReaderGroup | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    move_bytes_per_s: int = 0  # 0: no limit
    scan_share_bytes: int = 0  # 0: one node scans a data set
    spans: ShardSpans | None = None  # None: nothing is traced
    reader_silence_s: float = PATIENCE_S  # then it is taken for gone
    trust_peers: bool = False  # those that prove to hold `token`: their bytes are not hashed here
