"""gs:// credentials: what google-auth finds here, as an access token that can only read."""

from __future__ import annotations

import calendar
import os
from typing import Any

import google.auth
import google.auth.credentials
import google.auth.exceptions
import google.auth.transport.requests
import google.oauth2.credentials
import requests

from tfquiver import errors

SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
EMULATOR = "STORAGE_EMULATOR_HOST"
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_ASK_S = 5.0
WHAT_TO_DO = f"run `gcloud auth application-default login`, or set {_KEY_FILE} to the path of a service account's key"


def resolve() -> tuple[dict[str, Any], float]:
    """Options for GcsStore, and when they expire (Unix time, 0: never).

    Raises:
      UnauthenticatedError: no credentials, or ones that Google does not take.
      UnavailableError: Google's token service does not answer.
    """
    if endpoint := os.environ.get(EMULATOR):
        return {"endpoint": endpoint}, 0.0
    found = default_credentials()
    try:
        found.refresh(google.auth.transport.requests.Request(session=_Impatient()))
    except google.auth.exceptions.TransportError as error:
        raise errors.UnavailableError(f"gs://: Google's token service does not answer: {error}") from error
    except google.auth.exceptions.GoogleAuthError as error:
        raise errors.UnauthenticatedError(f"gs://: {_source()} are not taken: {error}; {WHAT_TO_DO}") from error
    expiry = found.expiry
    fields = {"token": found.token, "quota_project": getattr(found, "quota_project_id", None)}
    return fields, float(calendar.timegm(expiry.timetuple())) if expiry else 0.0


def of_key(info: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """As `resolve`, of a key as Google hands it out, of a token, or of another endpoint, with a token or without.

    Raises UnauthenticatedError, UnavailableError, without what is in the key.
    """
    if "endpoint" in info or "token" in info:
        taken = ("endpoint", "token", "quota_project", "expires_at_s")
        return {name: info[name] for name in taken if name in info}, 0.0
    try:
        found, _ = google.auth.load_credentials_from_dict(info, scopes=[SCOPE])
        found.refresh(google.auth.transport.requests.Request(session=_Impatient()))
    except google.auth.exceptions.TransportError as error:
        raise errors.UnavailableError("gs://: Google's token service does not answer") from error
    except (google.auth.exceptions.GoogleAuthError, ValueError, AttributeError, TypeError) as error:
        raise errors.UnauthenticatedError("gs://: Google does not take them as a key") from error
    return {"token": found.token}, float(calendar.timegm(found.expiry.timetuple())) if found.expiry else 0.0


def credentials(options: dict[str, Any] | None, endpoint: str | None) -> Any:
    """What a client of the store is opened with.

    Args:
      options: as `resolve` gives them; None: this machine's own.
      endpoint: another one than Google's, which is shown a token only if `options` have one.
    """
    if endpoint and not (options or {}).get("token"):
        return google.auth.credentials.AnonymousCredentials()
    if options is None:
        return default_credentials()
    token, project = options.get("token"), options.get("quota_project")
    return google.oauth2.credentials.Credentials(token, quota_project_id=project)  # type: ignore[no-untyped-call]


def default_credentials() -> Any:
    """Application default credentials. Raises UnauthenticatedError that says which file is wrong."""
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except (google.auth.exceptions.GoogleAuthError, ValueError, AttributeError, TypeError, OSError) as error:
        if named := os.environ.get(_KEY_FILE):
            raise errors.UnauthenticatedError(
                f"gs://: {_KEY_FILE}={named}: not usable as credentials: {error}"
            ) from error
        raise errors.UnauthenticatedError(f"gs://: no Google credentials: {WHAT_TO_DO}") from error
    return credentials


def _source() -> str:
    named = os.environ.get(_KEY_FILE)
    return f"the credentials of {_KEY_FILE}={named}" if named else "the application default credentials"


class _Impatient(requests.Session):
    """google-auth waits two minutes for a token; whoever has mistyped something is told sooner."""

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        options["timeout"] = _ASK_S
        return super().request(*arguments, **options)
