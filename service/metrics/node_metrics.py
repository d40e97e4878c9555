"""What a node's StatusReply says, as Prometheus wants it. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tfquiver.proto.tfquiver.v1 import node_pb2

_COUNTERS = {
    "hits": ("node_hits", "Shards served from this node's own store."),
    "peer_hits": ("node_peer_hits", "Shards served from a peer that had them."),
    "misses": ("node_misses", "Shards read from the object store for a reader."),
    "bypasses": ("node_bypasses", "Shards read past the cache, for jobs that are measured without it."),
    "hit_bytes": ("node_hit_bytes", "Raw bytes of the hits."),
    "peer_bytes": ("node_peer_bytes", "Raw bytes of the shards that came from peers."),
    "bypass_bytes": ("node_bypass_bytes", "Raw bytes of the bypasses."),
    "served_bytes": ("node_served_bytes", "Raw bytes handed to readers."),
    "store_bytes": ("node_store_bytes", "Bytes read from the object store, for whatever reason."),
    "store_requests": ("node_store_requests", "Requests to the object store."),
    "loads": ("node_loads", "Shards loaded because they were ordered, before a reader asked."),
    "loaded_bytes": ("node_loaded_bytes", "Raw bytes of the loads."),
    "evictions": ("node_evictions", "Entries that went for a setting, an order, or to make room."),
    "evicted_bytes": ("node_evicted_bytes", "Bytes on the disk of the evictions."),
    "written_bytes": ("node_written_bytes", "Bytes of entries written onto the disk."),
    "corrupt_entries": ("node_corrupt_entries", "Entries dropped because they failed a check."),
    "cross_rack_bytes": ("node_cross_rack_bytes", "Raw bytes from nodes of other racks, as their labels say."),
    "computed": ("node_computed", "Shards of derived data sets that trainers computed because they were missing."),
    "computed_bytes": ("node_computed_bytes", "Raw bytes of the computed."),
    "moved": ("node_moved", "Shards taken over from other nodes by a data set's placement."),
    "moved_bytes": ("node_moved_bytes", "Raw bytes of the moved."),
    "peer_mismatches": ("node_peer_mismatches", "Bodies from peers that were damaged or others than asked for."),
}
_GAUGES = {
    "entries": ("node_entries", "Shards on the disk."),
    "readers": ("node_readers", "Readers connected."),
    "hot_bytes": ("node_hot_bytes", "Bytes of decompressed shards in memory."),
}


async def families(status: node_pb2.StatusReply) -> AsyncIterator[Metric]:
    for field, (name, about) in _COUNTERS.items():
        yield CounterMetricFamily(f"tfquiver_{name}", about, value=getattr(status, field))
    yield _refused(status)
    for field, (name, about) in _GAUGES.items():
        yield GaugeMetricFamily(f"tfquiver_{name}", about, value=getattr(status, field))
    yield GaugeMetricFamily("tfquiver_node_quota_bytes", "Most bytes stored.", value=status.node.quota_bytes)
    yield GaugeMetricFamily("tfquiver_node_used_bytes", "Bytes stored.", value=status.node.used_bytes)
    about = "So long something has waited for the disk of --cache_dir; 0: it answers."
    yield GaugeMetricFamily("tfquiver_node_disk_hangs_seconds", about, value=status.disk_hangs_ms / 1000)


def _refused(status: node_pb2.StatusReply) -> Metric:
    """Quota (or account), disk (full, read-only or sick), damaged (bytes from others that did not have the hash)."""
    family = CounterMetricFamily(
        "tfquiver_node_refused_inserts",
        "Shards that were not kept, by reason: quota, disk, damaged.",
        labels=["reason"],
    )
    by_disk, damaged = status.refused_by_disk, status.refused_damaged
    family.add_metric(["quota"], status.refused_inserts - by_disk - damaged)
    family.add_metric(["disk"], by_disk)
    family.add_metric(["damaged"], damaged)
    return family
