"""s3:// credentials and endpoint: what botocore finds here, with fsspec's own configuration before it."""

from __future__ import annotations

import calendar
import os
from typing import Any

import botocore.exceptions
import botocore.session

from tfquiver import errors
from tfquiver.stores.s3_errors import WHAT_TO_DO, classify

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def resolve(options: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Options for s3fs, and when they expire (Unix time, 0: never).

    Args:
      options: of fsspec's configuration (FSSPEC_S3_*): what they say is not looked for elsewhere.

    Raises UnauthenticatedError, InvalidArgumentError: no usable credentials, a broken configuration.
    """
    try:
        session = botocore.session.Session(profile=options.get("profile"))
        return _resolve(session, {key: value for key, value in options.items() if key != "profile"})
    except botocore.exceptions.BotoCoreError as error:
        raise classify("s3://", error) or errors.UnauthenticatedError(f"s3://: {error}; {WHAT_TO_DO}") from error


def _resolve(session: botocore.session.Session, options: dict[str, Any]) -> tuple[dict[str, Any], float]:
    fields, expires_at_s = dict(options), 0.0
    profile = session.get_scoped_config() if session.profile in session.available_profiles else {}
    if not fields.get("endpoint_url"):
        named = [os.environ.get(name) for name in _ENDPOINTS] + [profile.get("endpoint_url")]
        fields["endpoint_url"] = next(filter(None, named), None)
    client: dict[str, Any] = dict(fields.get("client_kwargs") or {})
    client.setdefault("region_name", os.environ.get("AWS_REGION") or session.get_config_variable("region"))
    if bundle := session.get_config_variable("ca_bundle"):
        client.setdefault("verify", bundle)
    fields["client_kwargs"] = {key: value for key, value in client.items() if value is not None}
    if isinstance(profile.get("s3"), dict):
        fields["config_kwargs"] = {"s3": profile["s3"]} | dict(fields.get("config_kwargs") or {})
    if not fields.get("anon") and not (fields.get("key") or fields.get("username")):
        credentials = session.get_credentials()
        if credentials is None:
            raise errors.UnauthenticatedError(f"s3://: no S3 credentials: {WHAT_TO_DO}")
        frozen = credentials.get_frozen_credentials()
        fields |= {"key": frozen.access_key, "secret": frozen.secret_key, "token": frozen.token}
        expiry = getattr(credentials, "_expiry_time", None)
        expires_at_s = float(calendar.timegm(expiry.utctimetuple())) if expiry else 0.0
    return {key: value for key, value in fields.items() if value not in (None, "", {})}, expires_at_s
