"""--metrics_address, the same on every server."""

from __future__ import annotations

from absl import flags

from tfquiver.grpc_plumbing import addresses

flags.disclaim_key_flags()  # it is one of whichever server defines it


def define() -> flags.FlagHolder[str]:
    """Before the command line is read."""
    flag = flags.DEFINE_string(
        "metrics_address",
        "",
        "host:port where Prometheus finds this server's metrics (http, /metrics), port 0: any free one, printed in the "
        "ready line. Asks for no token and tells names of jobs and data sets: localhost, or a network that is yours. "
        "Empty: nowhere.",
    )
    flags.register_validator(
        "metrics_address",
        lambda text: (
            not text or addresses.is_host_port(text.removesuffix(":0") + ":1" if text.endswith(":0") else text)
        ),
        "must be host:port, for example localhost:9464 or [::]:9464",
    )
    return flag
