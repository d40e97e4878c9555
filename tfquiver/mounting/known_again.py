"""A mounted data set that its coordinator does not know any more is made known to it again. Needs trio.

Whoever empties a cache directory takes the data sets of its own coordinator along. The mount has all that was known of
its one, and what it shows is read again from where the files are. What somebody has deleted, or a newer version has
taken the place of, stays gone: so a coordinator is asked, which tells that to nodes and admins, and where there are no
tokens to everybody. Who may not ask registers nothing: it may be there, and not be theirs any more.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from absl import logging

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2

_EVERY_S = 5.0
_CALLS_S = 10.0


class KnownAgain:
    """Lives on one trio loop.

    Args:
      terms: by which the data set is found by its files, if it is.
      coordinator: where it is now; may raise TfquiverError.
    """

    def __init__(self, digest: Digest, terms: ListingTerms | None, coordinator: Callable[[], str], token: str) -> None:
        self._digest, self._terms, self._coordinator, self._token = digest, terms, coordinator, token
        self._looked_at, self._made = -_EVERY_S, False
        self._looking = trio.Lock()

    async def __call__(self) -> bool:
        """Whether it was made known just now, and so may be asked for again. Who asks often is told what was found
        last: a file that is gone in the store is not found either."""
        async with self._looking:
            if trio.current_time() - self._looked_at >= _EVERY_S:
                try:
                    self._made = await trio.to_thread.run_sync(self._make, abandon_on_cancel=True)
                except (errors.TfquiverError, OSError, RuntimeError, MemoryError) as error:
                    logging.vlog(1, "is %s known? %s", self._digest.name, error)
                    self._made = False
                self._looked_at = trio.current_time()
            return self._made

    def _make(self) -> bool:
        digest_id, where = self._digest.digest_id, self._coordinator()
        with Registrar(where, None, self._token, _CALLS_S) as registrar:
            if registrar.find(coordinator_pb2.FindDatasetRequest(digest_id=digest_id)) is not None:
                return False
            if registrar.was_removed(digest_id):
                return False
            name = self._digest.name
            if name and registrar.find(coordinator_pb2.FindDatasetRequest(name=name)) is not None:
                name = digest_id.hex()  # what is called so now is found by it, not what this shows
            registrar.register(self._digest, self._digest.to_bytes(), self._digest.name, self._terms, name)
        logging.warning(
            "%s (%s): the coordinator at %s did not know it any more (was the cache directory emptied?); it is "
            "registered again%s, without what was set of it: a name of its own, a pin, how it is cached",
            self._digest.name, digest_id.hex(), where, "" if name == self._digest.name else f" as {name}",
        )  # fmt: skip
        return True
