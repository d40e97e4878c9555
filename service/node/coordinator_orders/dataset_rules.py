"""What a node keeps of each data set, from the coordinator's newest orders: the rules of its disk. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why

# The one that keeps longest comes first where several data sets have the same shard.
_ORDER = (types_pb2.CACHE_MODE_UNIFORM, types_pb2.CACHE_MODE_COOPERATIVE, types_pb2.CACHE_MODE_LRU)
_SLACK = 0.03
_SIGMAS = 4


@dataclass(frozen=True, slots=True)
class DatasetRule:
    """One data set's. `gone`: chunks that were ordered away, and not ordered to be loaded since."""

    digest_id: bytes
    mode: types_pb2.CacheMode.ValueType
    terms: AccountTerms
    map: ChunkMap
    load: frozenset[int] = frozenset()
    evict: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()

    def keeps(self, chunk: int, why: Why) -> bool:
        """A shard that this node was asked for is kept in a chunk that is not to be loaded, too: the coordinator, which
        gave it out, may have changed its mind since, and its orders are on their way."""
        if self.mode == types_pb2.CACHE_MODE_NONE:
            return False
        if self.mode != types_pb2.CACHE_MODE_COOPERATIVE:
            return True
        match why:
            case Why.STANDS:
                return chunk not in self.evict
            case Why.ASKED:
                return chunk not in self.gone and chunk not in self.evict
            case Why.PASSES:
                return chunk in self.load


class CacheRules:
    """The disk's `Rules`."""

    def __init__(self, datasets: Sequence[DatasetRule] = ()) -> None:
        ranks = {mode: rank for rank, mode in enumerate(_ORDER)}
        self.datasets = sorted(datasets, key=lambda rule: (ranks.get(rule.mode, len(ranks)), rule.digest_id))
        self.terms: Mapping[bytes, AccountTerms] = {
            rule.digest_id: rule.terms for rule in self.datasets if rule.mode != types_pb2.CACHE_MODE_NONE
        }

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        known, keys = False, []
        for rule in self.datasets:
            chunk = rule.map.chunk(hash)
            if chunk is not None:
                known = True
                if rule.keeps(chunk, why):
                    keys.append(rule.digest_id)
        return keys if known else (UNSET,)

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        known = [False] * len(hashes)
        keys: list[list[bytes]] = [[] for _ in hashes]
        for rule in self.datasets:
            for at, chunk in enumerate(rule.map.chunks_of(hashes).tolist()):
                if chunk >= 0:
                    known[at] = True
                    if rule.keeps(chunk, Why.STANDS):
                        keys[at].append(rule.digest_id)
        return [its_keys if is_known else (UNSET,) for its_keys, is_known in zip(keys, known, strict=True)]


def terms(
    name: str,
    setting: types_pb2.CacheSetting,
    map: ChunkMap,
    own: str,
    quotas: Mapping[str, int],
    moving: bool = False,
) -> AccountTerms:
    """How this node keeps its part of a data set's allocation.

    Args:
      quotas: of every live node that may store it, by id. Where this one is none of them what it has stays until its
        owners have taken it over; so too where there is none, as where no node matches a data set's placement.
      moving: the same of what others own now: this node's part has become smaller, but nothing goes by lot until then.
    """
    if own not in quotas:
        return AccountTerms(name, 0, by_order=True)
    cooperative = setting.mode == types_pb2.CACHE_MODE_COOPERATIVE
    # Nodes own unequal parts: where there is room for all of it, each keeps what it owns, not its share.
    whole = setting.mode == types_pb2.CACHE_MODE_UNIFORM and setting.allocation_bytes >= int(map.entry_bytes.sum())
    limit_bytes = None
    if setting.allocation_bytes and not whole:
        limit_bytes = share_bytes(setting.allocation_bytes, own, quotas)
        if cooperative:
            limit_bytes = with_slack(limit_bytes, setting.allocation_bytes, map, len(quotas))
    lru = setting.mode == types_pb2.CACHE_MODE_LRU
    return AccountTerms(name, limit_bytes, lru=lru, by_order=cooperative or (moving and not lru))


def share_bytes(allocation_bytes: int, own: str, quotas: Mapping[str, int]) -> int:
    """Of an allocation, by the node's share of the quotas."""
    all_bytes = sum(quotas.values())
    return allocation_bytes * quotas.get(own, 0) // all_bytes if all_bytes else 0


def with_slack(own_bytes: int, allocation_bytes: int, map: ChunkMap, nodes: int) -> int:
    """What a node may have to keep of chunks that fit the allocation: its owners are drawn by hash, as often one node
    as another, so a node's part varies as a binomial does."""
    mean_bytes = float(map.entry_bytes.mean()) if len(map.entry_bytes) else 0.0
    part_bytes = max(own_bytes, allocation_bytes / max(nodes, 1))
    spread_bytes = math.sqrt(part_bytes * mean_bytes) if nodes > 1 else 0.0
    return int(min(allocation_bytes, part_bytes + _SIGMAS * spread_bytes) * (1 + _SLACK))
