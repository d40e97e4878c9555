"""How a node shows another that it holds the same token, without sending it. Pure."""

from __future__ import annotations

import hashlib
import hmac

NONCE_BYTES = 32
NO_PROOF = bytes(32)


def proof(token: str, nonce: bytes, node_id: str) -> bytes:
    """What WELCOME answers to HELLO's `nonce`; NO_PROOF where there is no token."""
    if not token:
        return NO_PROOF
    return hmac.new(token.encode(), b"tfquiver data port\0" + nonce + node_id.encode(), hashlib.sha256).digest()


def is_proven(token: str, nonce: bytes, node_id: str, shown: bytes) -> bool:
    return bool(token) and hmac.compare_digest(shown, proof(token, nonce, node_id))
