"""`tfquiver plan`: what a larger cache or a faster store would buy the jobs of a scenario, and cost a month."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import isfinite
from typing import Any

from tfquiver import errors, named_files
from tfquiver.cli import calls, standard_streams
from tfquiver.cli.sim_plan_trace_commands import limits_of_patience, plan_now, plan_view, sim, sim_view
from tfquiver.cli.sim_plan_trace_commands.plan_view import Point
from tfquiver.cli.sim_plan_trace_commands.progressing import Progressing
from tfquiver.service.coordinator.job_schedulers import registry as schedulers
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_BYTES, MOST_BYTES_PER_S
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import bound, check_end
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.probing_and_policies.shipping import Shipping
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_ABOUT = """Simulates the jobs of a scenario (`tfquiver sim --help`) with its first policy and scheduler, for each size
of the cache and each rate of the store. Without a file: the jobs that read now in a running cluster, as if each began
with --epochs and the cache was empty. What they still read no cluster knows, nor what its store could give: the store's
rate is what it gives now, if a job waits for data half of its time or more, else without limit."""
_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)  # the scenario's cache
_TB, _MONTH_S = 1e12, 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Prices:
    """In any one currency."""

    cache_tb: float  # a TB (10^12 bytes) of cache, a month
    store_tb: float  # a TB that leaves the store
    store_gb_per_s: float  # a GB/s of the store's rate, a month

    def month(self, cluster: Cluster, store_bytes_per_s: float) -> float:
        rate = cluster.remote_bytes_per_s if isfinite(cluster.remote_bytes_per_s) else 0.0
        return (
            self.cache_tb * cluster.cache_bytes / _TB
            + self.store_gb_per_s * rate / 1e9
            + self.store_tb * store_bytes_per_s * _MONTH_S / _TB
        )


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("plan", description=_ABOUT)
    sim.add_files(parser, "; a coordinator (host:port) or cache directory: what reads there now")
    calls.add_where(parser)
    parser.add_argument("--epochs", type=plan_now.epochs, metavar="N", help="that each job of a cluster still reads; "
                        f"default: {plan_now.EPOCHS:g}")  # fmt: skip
    parser.add_argument("--policy", metavar="NAME", help="in place of the scenario's first, or the cluster's")
    for name, metavar, what in (
        ("cache", "SIZE", "for example 2TiB; may be repeated; default: from a quarter to four times what there is"),
        ("store", "RATE", "a second, for example 200MB; may be repeated; default: the scenario's, or as said above"),
    ):
        parser.add_argument(f"--{name}", action="append", metavar=metavar, help=what)
    for name, what in (
        ("cache", "a TB of cache, a month"),
        ("store", "a TB that leaves the store"),
        ("rate", "a GB/s of the store, a month"),
    ):
        parser.add_argument(f"--{name}_price", type=_price, default=0.0, metavar="PRICE", help=f"of {what}")
    limits_of_patience.add_flag(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument(
        "--plot", type=named_files.typed_path, metavar="FILE", help="PNG of JCT by cache size (needs matplotlib)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.plot:
        sim_view.check_drawing(arguments.plot)
    where, assumed = plan_now.meant(arguments), ""
    if where:
        epochs = arguments.epochs or plan_now.EPOCHS
        scenario, workload, assumed = plan_now.ask(where, calls.token(arguments), epochs, arguments.policy or "")
        seed = None
    elif arguments.epochs:
        raise errors.InvalidArgumentError("--epochs: a file says itself what its jobs read")
    else:
        scenario, workload, seed = sim.read(arguments.scenario, arguments.trace)
        named = () if arguments.policy else scenario.policies[:1]
        sim.check_names(arguments.scenario or arguments.trace, named, scenario.schedulers[:1])
    policy = arguments.policy or scenario.policies[0]
    own = scenario.cluster
    caches = _sizes("--cache", arguments.cache, 0, MOST_BYTES) or sorted(
        {min(int(own.cache_bytes * times), MOST_BYTES) for times in _TIMES}
    )
    rates = _sizes("--store", arguments.store, 1, MOST_BYTES_PER_S) or [own.remote_bytes_per_s]
    prices = Prices(arguments.cache_price, arguments.store_price, arguments.rate_price)
    with standard_streams.for_what_comes_of_it():
        Shipping(policy)  # there is one, before minutes go by
    points = []
    check_end(workload, replace(own, remote_bytes_per_s=min(rates)))
    first_s = min(job.submit_s for job in workload.jobs)
    patience = limits_of_patience.Patience(len(rates) * len(caches), arguments.anyway)
    with standard_streams.for_what_comes_of_it(), Progressing(len(workload.jobs)) as bar:
        for rate, cache_bytes in product(rates, caches):
            cluster = replace(own, cache_bytes=int(cache_bytes), remote_bytes_per_s=rate)
            shipping = Shipping(policy)
            least_s = bound(workload, cluster).makespan_s
            title = f"{of_bytes(cluster.cache_bytes)}, {plan_view.rate(rate)}"
            patience.begin(title, first_s, least_s)
            bar.begin(title, lambda: patience.simulated_s, least_s)
            outcome = simulate(
                workload, cluster, shipping, schedulers.make(scenario.schedulers[0]),
                replan_s=scenario.replan_s, least_gap_s=scenario.least_gap_s, sight=SIGHTS[scenario.sees],
                progress=bar.ended, look=patience.look,
            )  # fmt: skip
            sim.warn(shipping)
            pace = outcome.store_bytes / outcome.makespan_s
            points.append(
                Point(
                    cluster.cache_bytes,
                    rate if isfinite(rate) else None,
                    outcome.average_jct_s,
                    outcome.makespan_s,
                    outcome.store_bytes,
                    outcome.probe_bytes,
                    prices.month(cluster, pace) if any(asdict(prices).values()) else None,
                )
            )
    cold_bytes = bound(workload, own).store_bytes
    if arguments.plot:
        plan_view.draw(points, arguments.plot)
    if arguments.json:
        told = {"policy": policy, "seed": seed, "assumed": assumed, "first_read_bytes": cold_bytes}
        print(json.dumps(told | {"points": [asdict(point) for point in points]}))
    else:
        drawn = f", drawn with seed {seed}" if seed is not None else ""
        console = calls.console()
        console.print(f"{sim_view.number_of(workload.jobs)}, policy {policy}{drawn}")
        if assumed:
            console.print(assumed)
        plan_view.show(points, cold_bytes, console)
    return 0


def _sizes(flag: str, given: list[str] | None, least: int, most: float) -> list[float]:
    """Raises InvalidArgumentError naming the flag."""
    made: list[float] = []
    for text in given or []:
        made.append(sizes.of_flag(flag, text))
        if made[-1] < least:
            raise errors.InvalidArgumentError(f"{flag}: {text!r}: with nothing no job would end")
        if made[-1] > most:
            raise errors.InvalidArgumentError(f"{flag}: {text!r} is more than is simulated, {most:g}")
    return made


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price <= 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} is no price from 0")
    return price
