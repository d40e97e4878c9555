"""The placement rules that persons have set, checked against the nodes there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, PlacementSet
from tfquiver.proto.tfquiver.v1.types_pb2 import CACHE_MODE_COOPERATIVE, CacheSetting, PlacementRule
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.shard_owners_chunks_hash_prefixes.places import Grouped, Groups, Regrouped, grouped, striped
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hash
from tfquiver.shard_owners_chunks_hash_prefixes.selector import Selector

MAX_REPLICAS = 8
MAX_STRIPE = 10_000
Labels = Mapping[str, Mapping[str, str]]  # of the nodes that store, by name
_SEVERAL = PlacementRule(replicas=2)  # for the log: any one that ends when it is taken away


@dataclass(frozen=True, slots=True, eq=False)
class _Striped:
    """What a rule came to, and over which nodes."""

    rule: PlacementRule
    grouped: Grouped
    groups: Groups


class Rules:
    """By digest id. `check` says what cannot be, the caller journals, `apply` performs.

    What was kept several times, and is to be no more, has the rule that any node keeps each shard once until the other
    copies are given up (`ends`): without a rule nobody would give them up. So, too, where one copy was asked for
    meanwhile, until that rule was carried out (`carried_out`).
    """

    def __init__(self) -> None:
        self._rules: dict[bytes, PlacementRule] = {}
        self._ending = set[bytes]()
        self._new = set[bytes]()
        self._several = set[bytes]()  # of the rest: copies may be left of what a rule before asked for
        self._selectors: dict[bytes, Selector] = {}
        self.changes = 0
        self._grouped: dict[tuple[str, bool], Grouped] = {}  # of the nodes in `_grouped_of`, by selector and rack_local
        self._grouped_of: Labels | None = None
        self._grouped_before: dict[tuple[str, bool], Grouped] = {}  # of the nodes before these
        self._regrouped: dict[tuple[str, bool], Regrouped] = {}  # from those to these
        self._striped: dict[bytes, _Striped] = {}

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, digest_id: object) -> bool:
        return digest_id in self._rules

    def find(self, digest_id: bytes) -> PlacementRule | None:
        return self._rules.get(digest_id)

    def groups(self, digest_id: bytes, nodes: Labels) -> Groups:
        """Of a data set that has a rule: the nodes that it comes to; none where no node matches. `nodes` is another
        object whenever they are others."""
        rule = self._rules[digest_id]
        if nodes is not self._grouped_of:
            self._grouped_before, self._grouped, self._grouped_of = self._grouped, {}, nodes
            self._regrouped = {}
        key = rule.selector, rule.rack_local
        if key not in self._grouped:
            self._grouped[key] = _grouped(rule, self._selectors[digest_id], nodes)
        if not rule.stripe:
            return striped(self._grouped[key], of_hash(digest_id), 0)
        return self._striped_over(self._grouped[key], digest_id, rule)

    def _striped_over(self, now: Grouped, digest_id: bytes, rule: PlacementRule) -> Groups:
        """Of thousands it takes most of a second to draw each anew whenever a node comes or goes."""
        made, of = self._striped.get(digest_id), of_hash(digest_id)
        if made is not None and made.rule is rule and made.grouped is now:
            return made.groups
        key = rule.selector, rule.rack_local
        before = self._grouped_before.get(key)
        if made is None or made.rule is not rule or made.grouped is not before:
            groups = striped(now, of, rule.stripe)
        else:
            if key not in self._regrouped:
                self._regrouped[key] = Regrouped(before, now)
            groups = self._regrouped[key].striped(made.groups, of, rule.stripe)
        self._striped[digest_id] = _Striped(rule, now, groups)
        return groups

    def apply(self, record: PlacementSet) -> None:
        self.changes += 1
        digest_id, before = record.digest_id, self._rules.get(record.digest_id)
        # Of one that is ending already, too: who did not hear the answer asks twice.
        several = before is not None and (digest_id in self.unfinished or before.rack_local or before.replicas > 1)
        self.forget(digest_id)
        if record.HasField("rule"):
            self._set(digest_id, record.rule)
            if several:
                self._several.add(digest_id)
        elif several:
            self._set(digest_id, PlacementRule(replicas=1))
            self._ending.add(digest_id)

    @property
    def ending(self) -> Set[bytes]:
        """Those whose rule is taken away, and goes when that is carried out."""
        return self._ending

    @property
    def unfinished(self) -> Set[bytes]:
        """Those, and all of which copies may be left that the rule in force does not ask for."""
        return self._ending | self._several

    def ends(self, digest_id: bytes) -> None:
        """It is carried out, or cannot be."""
        if digest_id in self._ending:
            self.forget(digest_id)

    def carried_out(self, digest_id: bytes) -> None:
        """The rule in force, as far as there is room."""
        self._several.discard(digest_id)
        self.ends(digest_id)

    def take_new(self) -> set[bytes]:
        """Those that were set since this was asked last."""
        new, self._new = self._new, set()
        return new

    def _set(self, digest_id: bytes, rule: PlacementRule) -> None:
        self._new.add(digest_id)
        self._rules[digest_id], self._selectors[digest_id] = rule, Selector.parse(rule.selector)

    def forget(self, digest_id: bytes) -> None:
        self._ending.discard(digest_id)
        self._several.discard(digest_id)
        self._new.discard(digest_id)
        if self._rules.pop(digest_id, None) is not None:
            self.changes += 1
            del self._selectors[digest_id]
            self._striped.pop(digest_id, None)

    def snapshot(self) -> Iterator[CommitRecord]:
        unfinished = self.unfinished
        for digest_id, rule in self._rules.items():
            if digest_id in unfinished:
                yield CommitRecord(placement_set=PlacementSet(digest_id=digest_id, rule=_SEVERAL))
            ends = digest_id in self._ending
            yield CommitRecord(placement_set=PlacementSet(digest_id=digest_id, rule=None if ends else rule))


def check_kept_once(rule: PlacementRule | None, setting: CacheSetting) -> None:
    """Raises InvalidArgumentError: a person asks for copies of what is cached by chunks, of which there is one copy."""
    if rule is None or setting.mode != CACHE_MODE_COOPERATIVE or not (rule.rack_local or rule.replicas > 1):
        return
    what = "rack_local" if rule.rack_local else f"replicas: {rule.replicas}"
    raise errors.InvalidArgumentError(
        f"{what}: a data set whose chunks come and go (cooperative) has one copy of each: cache it otherwise (tfquiver "
        "dataset set-cache NAME full, or auto), or place it on nodes only (--nodes, --stripe)"
    )


def check(rule: PlacementRule, digest_id: bytes, nodes: Labels) -> None:
    """Raises InvalidArgumentError naming the field, and what there is instead."""
    selector = Selector.parse(rule.selector)
    if rule.stripe > MAX_STRIPE:
        raise errors.InvalidArgumentError(f"stripe: {rule.stripe}; it is {MAX_STRIPE} at most, 0: all nodes")
    if rule.replicas > MAX_REPLICAS:
        raise errors.InvalidArgumentError(f"replicas: {rule.replicas}; there can be {MAX_REPLICAS} of each shard")
    groups = striped(_grouped(rule, selector, nodes), of_hash(digest_id), rule.stripe)
    if not groups:
        there = sorted({f"{key}={value}" for its in nodes.values() for key, value in its.items()})
        has = f"labels of those that live: {', '.join(there[:16]) or 'none'}" if nodes else "no node that stores lives"
        raise errors.InvalidArgumentError(f"selector: no node matches {rule.selector!r}; {has}")
    if rule.rack_local and (without := [name for rack, names in groups if not rack for name in names]):
        raise errors.InvalidArgumentError(
            f"rack_local: node {without[0]} has no label {labels.RACK}: start it with --labels={labels.RACK}=..., or "
            f"choose by {labels.RACK}"
        )
    for rack, names in groups:
        if rule.replicas > len(names):
            where = f"rack {rack}" if rule.rack_local else "the rule"
            raise errors.InvalidArgumentError(
                f"replicas: {rule.replicas} are more than the {len(names)} node{'s' * (len(names) != 1)} of {where}"
            )


def _grouped(rule: PlacementRule, selector: Selector, nodes: Labels) -> Grouped:
    matching = [name for name, its in nodes.items() if selector.matches(its)]
    return grouped(nodes, matching, labels.RACK if rule.rack_local else "")
