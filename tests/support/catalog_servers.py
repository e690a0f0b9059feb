"""Servers of a catalog as processes of their own: ours, a real nginx, an S3-compatible one."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.templates import small_packed

DEADLINE_S = 60.0
NGINX = "/usr/sbin/nginx"
NGINX_CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
{user}
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen {address}:{port} {listen}; root {root}; {more} }}
}}
"""


def small_catalog(root: Path, *, seed: int = 0) -> Path:
    """Write a catalog with one small template; return the template's folder."""
    from intonaco.template.catalog import Catalog

    packed = small_packed(seed=seed)
    return Catalog(root).add(packed.manifest, packed.contents).folder


@contextlib.contextmanager
def own_server(root: Path, *, port: int = 0) -> Iterator[str]:
    """Serve `root` by `intonaco template serve`; yield its URL."""
    words = ["template", "serve", str(root), "--port", str(port), "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "intonaco", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def nginx_server(
    root: Path, scratch: Path, *, address: str = "127.0.0.1", listen: str = "", more: str = ""
) -> Iterator[str]:
    """Serve `root` by nginx; yield its URL. Skips where there is no nginx.

    `listen` and `more` go into its configuration: words of its listen line, lines of its server.
    """
    binary = shutil.which("nginx") or (NGINX if Path(NGINX).is_file() else None)
    if binary is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    port = free_port()
    configuration = scratch / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(
        NGINX_CONFIGURATION.format(
            folder=scratch,
            port=port,
            root=root,
            user=user,
            address=address,
            listen=listen,
            more=more,
        )
    )
    command = [binary, "-c", str(configuration), "-p", str(scratch), "-e", str(scratch / "log")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port, process)
            yield f"http://{address}:{port}"
        finally:
            process.terminate()
            process.wait(timeout=DEADLINE_S)


@contextlib.contextmanager
def object_server(root: Path) -> Iterator[str]:
    """Put `root` into a bucket of an S3-compatible server; yield the bucket's URL."""
    pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[s3,server]'")
    import httpx

    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port, process)
            url = f"http://127.0.0.1:{port}/catalog"
            with httpx.Client(timeout=DEADLINE_S) as client:
                client.put(url, headers={"x-amz-acl": "public-read"}).raise_for_status()
                for path in sorted(root.rglob("*")):
                    if path.is_file() and not path.name.startswith("."):
                        name = path.relative_to(root)
                        sent = client.put(f"{url}/{name}", content=path.read_bytes())
                        sent.raise_for_status()
            yield url
        finally:
            process.terminate()
            process.wait(timeout=DEADLINE_S)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return once somebody listens on `port`; fail if the process ends before."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    raise AssertionError(f"nobody listens on port {port} after {DEADLINE_S} s")
