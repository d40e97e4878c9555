"""What botocore's errors mean: which ones another attempt may not meet, and what to do about the others."""

from __future__ import annotations

import botocore.exceptions as boto

from tfquiver import errors
from tfquiver.stores.attempts import Busy, Transient, Unreachable

_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
    boto.NoAuthTokenError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
    boto.SSOError,
    boto.RefreshWithMFAUnsupportedError,
)
_UNREACHABLE = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
)
_ON_THE_WAY = (
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.IncompleteReadError,
    boto.ChecksumError,
    boto.FlexibleChecksumError,
    boto.AwsChunkedWrapperError,
)
_WRONG_KEY = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
    "InvalidSecurity",
    "RequestTimeTooSkewed",
    "AuthFailure",
}
_WRONG_PLACE = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"}
_FINAL = {"InvalidBucketName", "InvalidURI", "InvalidRequest", "InvalidArgument", "MethodNotAllowed", "KeyTooLongError"}
_BUSY = {"SlowDown", "503", "429", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"}
WHAT_TO_DO = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or AWS_PROFILE, or for a public bucket "
    "FSSPEC_S3_ANON=true"
)


def classify(uri: str, error: BaseException) -> Exception | None:
    """What to raise for an error of an S3 call; None: it is not botocore's, or says nothing that is known here."""
    if isinstance(error, _CREDENTIALS):
        return errors.UnauthenticatedError(f"{uri}: no usable S3 credentials: {error}; {WHAT_TO_DO}")
    if isinstance(error, boto.SSLError):
        return errors.UnavailableError(f"{uri}: {error}; check AWS_ENDPOINT_URL and AWS_CA_BUNDLE")
    if isinstance(error, _UNREACHABLE):
        return Unreachable(str(error))
    if isinstance(error, _ON_THE_WAY):
        return Transient(f"{type(error).__name__}: {error}")
    refusal = error if isinstance(error, boto.ClientError) else error.__cause__
    if isinstance(refusal, boto.ClientError):
        return _of_client(uri, refusal)
    if isinstance(error, boto.BotoCoreError):
        return errors.InvalidArgumentError(f"{uri}: {error}; check the AWS_* variables and ~/.aws/config")
    return None


def _of_client(uri: str, error: boto.ClientError) -> Exception | None:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code in _WRONG_KEY or code == "400":  # a HEAD has no room for more: as a rule a token that has expired
        return errors.UnauthenticatedError(f"{uri}: the store does not take these credentials: {error}; {WHAT_TO_DO}")
    if code in ("AccessDenied", "403"):
        return errors.PermissionError_(
            f"{uri}: the store refused: {error}; check the bucket's name, and that these credentials may list and "
            "read it"
        )
    if code in _WRONG_PLACE:
        return errors.InvalidArgumentError(
            f"{uri}: the bucket is in another region or at another endpoint: {error}; set AWS_DEFAULT_REGION or "
            "AWS_ENDPOINT_URL"
        )
    if code in _BUSY:
        return Busy(f"{type(error).__name__}: {error}")
    if code in _FINAL:
        return errors.InvalidArgumentError(f"{uri}: {error}")
    return None
