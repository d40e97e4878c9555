"""What a policy sees and what it decides. Amounts are bytes, rates bytes/s of raw records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Mode = Literal["none", "cooperative", "uniform", "lru"]
MODES: tuple[Mode, ...] = ("none", "cooperative", "uniform", "lru")  # in columns a mode is its place here
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Allocation:
    """How one data set is cached.

    `uniform` keeps what came first until `cache_bytes` are used, and never evicts; `cooperative` rotates chunks within
    them; `none` keeps nothing, and has 0 bytes.
    """

    mode: Mode = "none"
    cache_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Computed:
    """What some shards of a derived data set took to compute, where a miss is computed again."""

    shards: int  # of the input
    input_bytes: int
    made_bytes: int  # what they have become: what a reader reads in their place
    cpu_s: float  # with reading the input
    read_cpu_s: float  # of that, to read the input
    bytes_per_s: float  # of what they become, as fast as one process computes

    @property
    def saved_cpu_s(self) -> float:
        """What is not done again where a reader reads what they have become, at what reading the input takes a byte."""
        return self.cpu_s - self.read_cpu_s * self.made_bytes / max(1, self.input_bytes)

    @property
    def pays(self) -> bool:
        return self.saved_cpu_s > 0


@dataclass(frozen=True, slots=True)
class DatasetView:
    """One data set that is read or pinned.

    Attributes:
      name: by which a plan names it.
      size_bytes: what all of it takes on the nodes' disks; more cache than that is of no use to it.
      cooperative_bytes: the least with which `cooperative` works: two chunks. A plan that gives less is refused.
      now: what is in force; what is really there is `resident_bytes`.
      pin: what a person has set. A plan has to repeat it as it is; what pins take is not left for others.
      resident_bytes: cached now, on all nodes: also what was kept before, until somebody needs the room.
      computed: what computing a derived data set took; None: it is none, or that is not measured.
    """

    name: str  # of the registry, or any key that is one data set's only
    size_bytes: int  # what all of it takes on the disks
    cooperative_bytes: int  # the least that `cooperative` needs: two chunks
    now: Allocation = Allocation()  # what is in force
    pin: Allocation | None = None  # a person's choice; no policy touches it
    resident_bytes: int = 0
    computed: Computed | None = None  # it is a derived data set, and this was measured while it was made


@dataclass(frozen=True, slots=True)
class JobView:
    """One job that reads one data set; one that reads several is one for each. None: not measured yet.

    Attributes:
      name: by which a plan names it.
      dataset: the name of its DatasetView.
      ideal_bytes_per_s: what it reads where data is never waited for.
      hit_bytes_per_s, miss_bytes_per_s: what it read while it was probed, all from the cache or all from the store.
      accelerators: that it keeps busy, as it says; 1 where it says nothing.
      remaining_bytes: until it ends. Only the simulator knows; in a cluster always None.
      irregular: it does not read each record once an epoch (sampled orders): what it gains by a cache nobody can say.
      remote_pin_bytes_per_s: its limit that was set (`tfquiver limit`). A plan has to repeat it.
      cooperative_bytes_per_s: what it read while its data set was cached so.
      hit_ratio, reads_bytes_per_s: of the last seconds.
      ideal_guessed: `ideal_bytes_per_s` is more than was ever seen, to try: it has only been seen to wait.
    """

    name: str
    dataset: str
    ideal_bytes_per_s: float | None = None  # f*: what it reads where data is never waited for; None: not known yet
    hit_bytes_per_s: float | None = None  # measured by probing, when all comes from the cache
    miss_bytes_per_s: float | None = None  # measured by probing, when all comes from the store
    accelerators: int = 1
    remaining_bytes: float | None = None  # until the job ends; None: not known
    irregular: bool = False  # does not read each record once an epoch (curriculum): SiloD section 6
    # An outside scheduler's choice; no policy touches it. Of a job that reads several data sets its part: equal ones.
    remote_pin_bytes_per_s: float | None = None
    cooperative_bytes_per_s: float | None = None  # measured while its data set was cached so, in step with its others
    # Of what it reads now: less than what is resident where that came after the job had passed it (SiloD section 6).
    hit_ratio: float | None = None
    reads_bytes_per_s: float | None = None  # now
    ideal_guessed: bool = False  # it has only been seen to wait: `ideal_bytes_per_s` is tried, not measured


@dataclass(frozen=True, slots=True, eq=False)
class ViewColumns:
    """A view's data sets and jobs by column, each in the view's order: what is planned for thousands is planned so.

    Rates that are not known are nan.
    """

    datasets: Sequence[str]
    rank_of_name: Ints  # in the order of names
    size_bytes: Ints
    cooperative_bytes: Ints
    resident_bytes: Ints
    pinned: Bools
    jobs: Sequence[str]
    dataset_of: Ints  # each job's, by its place
    ideal_bytes_per_s: Floats
    hit_bytes_per_s: Floats
    miss_bytes_per_s: Floats
    cooperative_bytes_per_s: Floats
    hit_ratio: Floats
    accelerators: Ints
    irregular: Bools
    limited: Bools  # `remote_pin_bytes_per_s` is set
    rows: tuple[Sequence[DatasetView], Sequence[JobView]]  # the same


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that is planned for.

    Attributes:
      cache_bytes: what all live nodes can keep, pins included; of several nodes a twentieth less than their quotas, for
        shards do not spread evenly.
      remote_bytes_per_s: what the store gives to all together (`--store_bytes_per_s`); None: no limit is known.
      datasets: those that are read or pinned. jobs: those that read.
      accelerators: idle ones, too; None: those of the jobs are all there are.
      columns: the same as arrays, for those who plan for thousands; may be None.
    """

    cache_bytes: int  # of all live nodes
    remote_bytes_per_s: float | None  # what the store gives all together; None: no limit is known
    datasets: Sequence[DatasetView]
    jobs: Sequence[JobView]
    accelerators: int | None = None  # idle ones too; None: those of the jobs are all there are
    columns: ViewColumns | None = field(default=None, repr=False, compare=False)  # `columns.columns_of` makes them


@dataclass(frozen=True, slots=True)
class Plan:
    """Data sets that are not named keep nothing; jobs that are not named read from the store as fast as they can."""

    allocations: Mapping[str, Allocation] = field(default_factory=dict)
    remote_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    # For `tfquiver explain`: by data set or job, which measurement and which rule decided; what was tried and refused.
    reasons: Mapping[str, str] = field(default_factory=dict)


class Policy(Protocol):
    """Those with a goal of their own are `planning.worth.Valuing`, too: it says which moves of data pay.

    Jobs are probed, which costs the store up to 2 % more, unless the class says `probing = False`: it does not look at
    what is measured so.
    """

    def plan(self, view: ClusterView, now: float) -> Plan:
        """The same view gives the same plan. Raises nothing on views that `check_view` passes.

        Args:
          now: seconds, never falls.
        """
