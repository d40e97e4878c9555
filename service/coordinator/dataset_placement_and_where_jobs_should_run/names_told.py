"""How many names of nodes stand in what nodes are told of all placements, kept up as they change. Pure."""

from __future__ import annotations

from tfquiver.shard_owners_chunks_hash_prefixes.places import Places


class NamesTold:
    """Data sets that are kept alike share an object, which is told, and counts, once."""

    def __init__(self) -> None:
        self._of: dict[bytes, Places] = {}
        self._users: dict[int, int] = {}  # data sets, by the id of the object, which `_of` keeps alive
        self._names = 0

    def put(self, digest_id: bytes, places: Places | None) -> None:
        """None: nothing is told of that data set."""
        before = self._of.get(digest_id)
        if before is places:
            return
        if places is not None:
            self._of[digest_id] = places
            self._users[id(places)] = users = self._users.get(id(places), 0) + 1
            self._names += len(places.members) if users == 1 else 0
        else:
            del self._of[digest_id]
        if before is not None:
            self._users[id(before)] -= 1
            if not self._users[id(before)]:
                del self._users[id(before)]
                self._names -= len(before.members)

    def without(self, digest_id: bytes) -> int:
        """Of all others."""
        its = self._of.get(digest_id)
        return self._names - (len(its.members) if its is not None and self._users[id(its)] == 1 else 0)
