"""Does an edit over a link that the kernel shapes go as over the link that our shaper emulates?

    python -m benchmarks.streaming_namespace [--mbps 1 4 16] [--repeats 5]

Server and device live in two network namespaces joined by virtual Ethernet (root, Linux). For each
rate, edits of the shipped model over the kernel's token bucket and over `LinkShaper` take turns, both
from the same server, each opening the template anew. Delay is added where the kernel has netem
(`--delay-ms`); the emulated round trip is then the same. The device plans 100 ms a shard, so that no
dense run ends an edit before the link matters; its own run times are shorter.
`seconds`, `received_kb`, `mbps_seen`: medians over repeats of an edit's time, bytes received, and the
rate that the device believed in at the end. `psnr`: over the mask against the edit with all of the
template's state, median. Last line: one JSON object.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

import intonaco
from benchmarks._streaming_templates import Prepared, prepare
from intonaco.quality.metrics import psnr
from tests.support.edit_device import EditDevice, Order, device_command
from tests.support.shaped_namespace import (
    SERVER_ADDRESS,
    NamespaceUnavailableError,
    ShapedNamespace,
    shaped_namespace,
)

SIDE = 192
RUN_S = 0.1
HIGHEST_DB = 90.0
UNSHAPED_MBPS = 2000.0
KINDS = ("kernel", "emulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    link: ShapedNamespace
    device: EditDevice
    prepared: Prepared
    exact: Image.Image
    output: Path
    delay_ms: float

    def edit(self, kind: str, mbps: float) -> dict[str, float]:
        """Edit once over a link of `mbps`, made by the kernel or by us."""
        is_emulated = kind == "emulated"
        order = Order(
            prompt=self.prepared.prompt,
            output=str(self.output),
            emulated_mbps=mbps if is_emulated else None,
            round_trip_s=self.delay_ms / 1000,
            run_s=RUN_S,
        )
        self.link.shape(UNSHAPED_MBPS)
        self.device.prepare(order)
        if not is_emulated:
            self.link.shape(mbps, delay_ms=self.delay_ms)
        self.device.go_on()
        result: dict[str, Any] = self.device.result()
        return {
            "seconds": float(result["seconds"]),
            "received_kb": result["received_bytes"] / 1000,
            "mbps_seen": result["bytes_per_s"] * 8e-6,
            "psnr": self._psnr(),
            "dense": float(result["flag"].startswith("dense")),
        }

    def _psnr(self) -> float:
        with Image.open(self.output) as drawn:
            return min(HIGHEST_DB, psnr(drawn, self.exact, mask_HW=self.prepared.mask_HW))


@contextlib.contextmanager
def opened(link: ShapedNamespace, delay_ms: float) -> Generator[Bench]:
    """Build a template, serve it at one end of `link`, start a device at the other."""
    with tempfile.TemporaryDirectory() as scratch:
        model = intonaco.load()
        prepared = prepare(model, SIDE, Path(scratch) / "catalog")
        exact = model.edit(
            prepared.picture,
            prepared.mask_HW,
            prompt=prepared.prompt,
            template_state=prepared.exact,
        )
        serve = (
            f"-m intonaco template serve {scratch}/catalog --host {SERVER_ADDRESS} --port 0 --json"
        )
        server = link.command("server", sys.executable, *serve.split())
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as serving:
            assert serving.stdout is not None
            url = json.loads(serving.stdout.readline())["url"]
            command = device_command(f"{url}/{prepared.packed.folder.name}", None)
            with subprocess.Popen(
                link.command("device", *command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                yield Bench(
                    link=link,
                    device=EditDevice(process=process),
                    prepared=prepared,
                    exact=exact.image,
                    output=Path(scratch) / "edited.png",
                    delay_ms=delay_ms,
                )
                assert process.stdin is not None
                process.stdin.close()
            serving.terminate()


def measure(bench: Bench, rates: list[float], repeats: int) -> dict[str, dict[str, float]]:
    """Return the medians by kind and rate; the first edit, of either kind, is not counted."""
    bench.edit("emulated", UNSHAPED_MBPS)
    found: dict[str, dict[str, float]] = {}
    for mbps in rates:
        edits: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        for _ in range(repeats):
            for kind in KINDS:
                edits[kind].append(bench.edit(kind, mbps))
        for kind in KINDS:
            row = {
                name: statistics.median(edit[name] for edit in edits[kind])
                for name in edits[kind][0]
            }
            found[f"{kind}_{mbps:g}"] = {name: round(value, 3) for name, value in row.items()}
            print(f"{kind:9} {mbps:6g} Mbit/s  {found[f'{kind}_{mbps:g}']}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mbps", type=float, nargs="+", default=[1.0, 4.0, 16.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    try:
        with shaped_namespace() as link, opened(link, arguments.delay_ms) as bench:
            found = measure(bench, arguments.mbps, arguments.repeats)
    except NamespaceUnavailableError as error:
        print(f"not measured: {error}")
        print(json.dumps({"measured": False}))
        return
    print(json.dumps({"measured": True, **found}))


if __name__ == "__main__":
    main()
