"""The TLS context of a client of devices and brokers, which checks certificates alike on every Python."""

import ssl


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Trusts the certificates in `ca_file`, else those of the system. Raises OSError or ValueError for a bad file.

    From Python 3.13 on the default also asks for what the authorities of laboratories and devices leave out, such as
    key identifiers (`VERIFY_X509_STRICT`), and trusts a certificate of the file that another one has signed.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
