"""What planning takes, for people and benches: whether it stays beside the work of the coordinator. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2


@dataclass(slots=True)
class PlanTimes:
    """Seconds, as in the message of that name."""

    plans: int = 0
    last_s: float = 0.0
    longest_s: float = 0.0
    longest_policy_s: float = 0.0
    longest_change_s: float = 0.0

    def planned(self, view_s: float, policy_s: float) -> None:
        """`view_s`: to look at the cluster, on the loop; `policy_s`: in a thread."""
        self.plans += 1
        self.last_s = view_s + policy_s
        self.longest_s = max(self.longest_s, self.last_s)
        self.longest_policy_s = max(self.longest_policy_s, policy_s)

    def changed(self, change_s: float) -> None:
        self.longest_change_s = max(self.longest_change_s, change_s)

    def told(self) -> pb2.PlanTimes:
        return pb2.PlanTimes(
            plans=self.plans,
            last_s=self.last_s,
            longest_s=self.longest_s,
            longest_policy_s=self.longest_policy_s,
            longest_change_s=self.longest_change_s,
        )
