"""Says why a server was not trusted, and what would work. Checks nothing itself: OpenSSL did."""

import ssl

# OpenSSL's names for why a certificate is not accepted (X509_V_ERR_...).
HAS_EXPIRED, IS_NOT_YET_VALID, WRONG_HOST, WRONG_ADDRESS = 10, 9, 62, 64


def why_distrusted(error: ssl.SSLError, host: str) -> str:
    """Return why TLS with this server cannot be, and what would work."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server speaks no TLS that this machine understands ({error.reason or error}); check "
            "the port, or use http:// if it has no TLS"
        )
    if error.verify_code in {WRONG_HOST, WRONG_ADDRESS}:
        return (
            f"the server's certificate is not for {host}; use the name that it was made for, or a "
            "certificate for this one"
        )
    if error.verify_code in {HAS_EXPIRED, IS_NOT_YET_VALID}:
        return (
            f"the server's certificate does not count today ({error.verify_message}); renew it, or "
            "set this machine's clock"
        )
    return (
        f"nobody whom this machine trusts vouches for the server ({error.verify_message}); set "
        "SSL_CERT_FILE to a file with its authority's certificate"
    )
