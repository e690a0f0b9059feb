"""Servers with TLS on loopback, and the authority that vouches for them; made anew for each test run."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.support.catalog_servers import DEADLINE_S, await_port, free_port, nginx_server


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files in PEM: an authority, a certificate with its key that it signed."""

    authority: Path
    chain: Path
    key: Path


def make_certificates(folder: Path, *names: str) -> Certificates:
    """Write a certificate for `names`, and its authority, to `folder`."""
    authority = trustme.CA()
    issued = authority.issue_cert(*names)
    made = Certificates(
        authority=folder / "authority.pem", chain=folder / "chain.pem", key=folder / "key.pem"
    )
    authority.cert_pem.write_to_path(made.authority)
    issued.private_key_pem.write_to_path(made.key)
    for part in issued.cert_chain_pems:
        part.write_to_path(made.chain, append=True)
    return made


@contextlib.contextmanager
def tls_server(root: Path, certificates: Certificates) -> Iterator[str]:
    """Serve `root` as `intonaco template serve` does, behind TLS; yield its URL."""
    port = free_port()
    words = [str(root), str(certificates.chain), str(certificates.key), str(port)]
    with subprocess.Popen([sys.executable, "-m", "tests.support.tls", *words]) as process:
        try:
            await_port(port, process)
            yield f"https://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=DEADLINE_S)


@contextlib.contextmanager
def tls_nginx(root: Path, certificates: Certificates, scratch: Path) -> Iterator[str]:
    """Serve `root` by nginx behind TLS; yield its URL. Skips where there is no nginx."""
    tls = f"ssl_certificate {certificates.chain}; ssl_certificate_key {certificates.key};"
    with nginx_server(root, scratch, listen="ssl", more=tls) as url:
        yield url.replace("http://", "https://")


def _serve(root: str, chain: str, key: str, port: str) -> None:
    import uvicorn

    from intonaco.streaming.serve import make_application

    uvicorn.run(
        make_application(Path(root)),
        host="127.0.0.1",
        port=int(port),
        http="h11",
        lifespan="off",
        log_level="error",
        ssl_certfile=chain,
        ssl_keyfile=key,
    )


if __name__ == "__main__":
    _serve(*sys.argv[1:])
