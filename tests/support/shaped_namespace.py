"""Two network namespaces joined by a cable whose rate the kernel holds: a real link on one machine.

The cable is a pair of virtual Ethernet cards; `tbf`, the kernel's token bucket, paces what the server
sends, and a queue without room loses everything. Delay needs `netem`, which some kernels lack. Needs
root. Nothing is left behind: each namespace lives as long as a process that ends with this one.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Side = Literal["server", "device"]
SERVER_ADDRESS = "10.77.0.1"
ADDRESSES: dict[Side, str] = {"server": SERVER_ADDRESS, "device": "10.77.0.2"}
CARDS: dict[Side, str] = {"server": "to-device", "device": "to-server"}
PROGRAMS = ("ip", "nsenter", "tc", "unshare")
DEADLINE_S = 20.0
# Half a packet more than one: a token bucket smaller than a packet would lose it.
SMALLEST_BURST_BYTES = 2200
QUEUE_S = 0.1


class NamespaceUnavailableError(Exception):
    """This machine cannot make such a link; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedNamespace:
    """Both ends of the cable. `holders` are the processes that keep the namespaces alive."""

    holders: dict[Side, int]
    has_netem: bool

    def command(self, side: Side, *words: str) -> list[str]:
        """Return the command that runs `words` in the namespace of `side`."""
        return ["nsenter", f"--net=/proc/{self.holders[side]}/ns/net", *words]

    def shape(self, mbps: float, *, delay_ms: float = 0.0) -> None:
        """Carry `mbps` from server to device from now on, each packet `delay_ms` later."""
        burst_bytes = max(SMALLEST_BURST_BYTES, int(mbps * 1e6 / 8 * 0.002))
        queue_bytes = max(4 * SMALLEST_BURST_BYTES, int(mbps * 1e6 / 8 * QUEUE_S))
        self._queue("server", f"tbf rate {mbps}mbit burst {burst_bytes} limit {queue_bytes}")
        if delay_ms and not self.has_netem:
            raise NamespaceUnavailableError("this kernel has no netem: no delay can be added")
        self._queue("device", f"netem delay {delay_ms}ms" if delay_ms else "pfifo limit 1000")

    def lose_all(self) -> None:
        """Lose every packet in both directions until `shape` is called again."""
        for side in self.holders:
            self._queue(side, "pfifo limit 0")

    def received_bytes(self) -> int:
        """Return how many bytes the device's card has received since it exists."""
        table = Path(f"/proc/{self.holders['device']}/net/dev").read_text()
        row = next(line for line in table.splitlines() if CARDS["device"] in line)
        return int(row.split(":")[1].split()[0])

    def _queue(self, side: Side, words: str) -> None:
        command = f"tc qdisc replace dev {CARDS[side]} root {words}"
        _run(self.command(side, *command.split()))


@contextlib.contextmanager
def shaped_namespace() -> Iterator[ShapedNamespace]:
    """Make the link; raises NamespaceUnavailableError where this machine cannot."""
    if os.geteuid() != 0:
        raise NamespaceUnavailableError("network namespaces are made by root alone")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NamespaceUnavailableError(f"{', '.join(missing)} is not installed here (iproute2)")
    with _holder() as server, _holder() as device:
        link = ShapedNamespace(
            holders={"server": server, "device": device}, has_netem=_knows_netem(server)
        )
        _join(link)
        link.shape(1000.0)
        yield link


@contextlib.contextmanager
def _holder() -> Iterator[int]:
    """Keep a namespace alive by a process that ends when its input does; yield its id."""
    command = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                raise NamespaceUnavailableError("this machine lets nobody make network namespaces")
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(timeout=DEADLINE_S)


def _join(link: ShapedNamespace) -> None:
    peer = f"peer name {CARDS['device']} netns {link.holders['device']}"
    try:
        _run(link.command("server", *f"ip link add {CARDS['server']} type veth {peer}".split()))
        for side, card in CARDS.items():
            _run(link.command(side, *f"ip addr add {ADDRESSES[side]}/24 dev {card}".split()))
            _run(link.command(side, *f"ip link set {card} up".split()))
        link.shape(1000.0)
    except subprocess.CalledProcessError as error:
        raise NamespaceUnavailableError(
            f"this kernel lacks virtual cards or token buckets: {error.stderr.strip()}"
        ) from None


def _knows_netem(holder: int) -> bool:
    command = ["nsenter", f"--net=/proc/{holder}/ns/net", "tc", "qdisc", "replace", "dev", "lo"]
    tried = subprocess.run(
        [*command, "root", "netem", "delay", "1ms"],
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    return tried.returncode == 0


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
