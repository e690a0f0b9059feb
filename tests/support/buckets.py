"""A private bucket on an S3-compatible server of its own, which checks who asks and by what signature."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalog_servers import DEADLINE_S, await_port, free_port

NAME = "templates"
POLICY = """{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}]}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Where it is, and the keys of the one user who may read it."""

    url: str
    endpoint: str
    key_id: str
    secret: str

    def environment(self, *, secret: str | None = None) -> dict[str, str]:
        """Return what a machine has to know to read it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": secret or self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextlib.contextmanager
def private_bucket(root: Path) -> Iterator[Bucket]:
    """Put `root` into a bucket that one user may read; every request is checked from then on."""
    pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[s3]' flask")
    import httpx

    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            await_port(port, process)
            key_id, secret = _fill(endpoint, root)
            httpx.post(f"{endpoint}/moto-api/reset-auth", content=b"0").raise_for_status()
            yield Bucket(url=f"s3://{NAME}", endpoint=endpoint, key_id=key_id, secret=secret)
        finally:
            process.terminate()
            process.wait(timeout=DEADLINE_S)


def _fill(endpoint: str, root: Path) -> tuple[str, str]:
    """Make the bucket, its files and its reader; return the reader's keys."""
    users, store = _client("iam", endpoint), _client("s3", endpoint)
    store.create_bucket(Bucket=NAME)
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            name = str(path.relative_to(root))
            store.put_object(Bucket=NAME, Key=name, Body=path.read_bytes())
    users.create_user(UserName="reader")
    users.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=POLICY)
    keys = users.create_access_key(UserName="reader")["AccessKey"]
    return keys["AccessKeyId"], keys["SecretAccessKey"]


def _client(service: str, endpoint: str) -> Any:
    import boto3

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="owner",
        aws_secret_access_key="owner",
    )
