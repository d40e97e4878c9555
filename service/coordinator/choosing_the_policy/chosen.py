"""Which policy decides: the last word holds, be it `tfquiver policy` or another --policy; across restarts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, PolicyChosen


class ChosenPolicy:
    """What a person has chosen holds until another one is chosen, or the coordinator is started with another --policy
    than it had then: that was said later. It is forgotten for good with that."""

    def __init__(self, flag: str) -> None:
        """`flag`: what --policy says."""
        self.flag = flag
        self._chosen = PolicyChosen()

    def apply(self, record: PolicyChosen) -> None:
        """From the log: the last one counts."""
        self._chosen = record

    @property
    def name(self) -> str:
        return self._chosen.policy if self._chosen.policy and self._chosen.flag == self.flag else self.flag

    @property
    def outdated(self) -> bool:
        """Something else was chosen while --policy said something else."""
        return bool(self._chosen.policy or self._chosen.coming) and self._chosen.flag != self.flag

    @property
    def pending(self) -> bool:
        """Its first plan has yet to be carried out: also after a restart, whatever that moves."""
        return self._chosen.pending and not self.outdated

    def choose(self, policy: str, pending: bool = False) -> CommitRecord:
        """To be made durable."""
        self._chosen = PolicyChosen(policy=policy, flag=self.flag, pending=pending)
        return CommitRecord(policy_chosen=self._chosen)

    @property
    def coming(self) -> str:
        """Who was chosen, and does not decide yet: also after a restart. Empty: nobody."""
        return "" if self.outdated else self._chosen.coming

    def comes(self, policy: str) -> CommitRecord:
        """To be made durable. Who decides goes on. `policy`: empty: nobody comes any more."""
        before = PolicyChosen() if self.outdated else self._chosen
        self._chosen = PolicyChosen(policy=before.policy, flag=self.flag, pending=before.pending, coming=policy)
        return CommitRecord(policy_chosen=self._chosen)

    def still(self) -> Callable[[], Iterator[CommitRecord]]:
        """Gives the records that bring an empty object here; in any thread."""
        chosen = self._chosen
        return lambda: iter([CommitRecord(policy_chosen=chosen)] if chosen.policy or chosen.coming else [])
