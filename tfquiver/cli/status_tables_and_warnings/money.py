"""What it would have cost to read alone (pure). Prices are in any one currency, and the user's: tfquiver knows none."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from tfquiver.plain_text import shortened

_TB, _MILLION = 1e12, 1e6
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Prices:
    """0: it costs nothing, or nobody has said."""

    store_tb: float = 0.0  # a TB (10^12 bytes) that leaves the store
    million_requests: float = 0.0

    def of(self, saved: Mapping[str, int]) -> float | None:
        """What was saved; None where no price is known."""
        if not self.store_tb and not self.million_requests:
            return None
        return self.store_tb * saved["bytes"] / _TB + self.million_requests * saved["requests"] / _MILLION


def add_flags(parser: argparse.ArgumentParser) -> None:
    """`--store_price`, as `tfquiver plan` has it, and `--request_price`."""
    for name, what in (("store", "a TB that leaves the store"), ("request", "a million requests to the store")):
        parser.add_argument(
            f"--{name}_price", type=price, default=0.0, metavar="PRICE", help=f"of {what}: money saved is shown"
        )


def given(arguments: argparse.Namespace) -> Prices:
    return Prices(arguments.store_price, arguments.request_price)


def price(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _MOST:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is no price from 0")
    return found
