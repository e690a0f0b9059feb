"""A device in a process of its own: opens a template, edits when it is told to, says how it went.

    python -m tests.support.edit_device URL [MODEL]

Each line of its input is one edit, a JSON object of `Order`'s fields. It answers "ready" once the
template is open and the machine is timed, waits for an empty line, edits, and answers one JSON object.
Told to, it stops after every step, says "step", and waits for an empty line to go on.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One edit.

    Attributes:
        emulated_mbps: over a link that our own shaper emulates.
        run_s: planned run time of every shard, in place of what was measured: with much of it, each
            shard may wait for its floor, and a dense run never looks quicker.
        stops_after_steps: as above.
    """

    prompt: str
    output: str
    emulated_mbps: float | None = None
    round_trip_s: float = 0.0
    run_s: float | None = None
    stops_after_steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditDevice:
    """The other end of such a process."""

    process: "subprocess.Popen[str]"

    def prepare(self, order: Order) -> None:
        """Return once the template is open for `order`."""
        self._say(json.dumps(asdict(order)))
        self._expect("ready\n")

    def go_on(self) -> None:
        """Begin the edit, or the next step of it."""
        self._say("")

    def await_step(self) -> None:
        """Return once a step has ended."""
        self._expect("step\n")

    def result(self) -> dict[str, object]:
        """Return what the edit came to."""
        return json.loads(self._hear())

    def edit(self, order: Order) -> dict[str, object]:
        self.prepare(order)
        self.go_on()
        return self.result()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _expect(self, word: str) -> None:
        answer = self._hear()
        if answer != word:
            raise RuntimeError(f"the device said {answer!r} instead of {word!r}")

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def device_command(url: str, model: Path | None) -> list[str]:
    words = [sys.executable, "-m", "tests.support.edit_device", url]
    return words if model is None else [*words, str(model)]


def main(url: str, model_folder: str | None, orders: IO[str]) -> None:
    import intonaco

    model = intonaco.load(Path(model_folder)) if model_folder else intonaco.load()
    while line := orders.readline():
        _say(json.dumps(_edit(model, url, Order(**json.loads(line)), orders)))


def _edit(model, url: str, order: Order, orders: IO[str]) -> dict[str, object]:
    from intonaco.device.edit import TemplateSession
    from intonaco.device.link import LinkSettings, TemplateLink
    from intonaco.streaming.protocol import EmulatedLink

    emulated = None
    if order.emulated_mbps is not None:
        emulated = EmulatedLink(mbps=(order.emulated_mbps,), round_trip_s=order.round_trip_s)

    def stop(event: object) -> None:
        _say("step")
        orders.readline()

    with TemplateLink(url, LinkSettings(emulated=emulated)) as link:
        session = TemplateSession(model, link)
        if order.run_s is not None:
            run_s = (order.run_s,) * len(session.times.run_s)
            session.times = replace(session.times, run_s=run_s, dense_step_s=1e6)
        _say("ready")
        orders.readline()
        edited = session.edit(
            prompt=order.prompt, progress=stop if order.stops_after_steps else None
        )
    edited.picture.save(order.output)
    stream = edited.stream
    return {
        "flag": stream.flag,
        "num_cut": sum(shard.is_cut for shard in stream.shards),
        "seconds": stream.seconds,
        "stall_s": stream.stall_s,
        "received_bytes": stream.received_bytes,
        "state_bytes": stream.state_bytes,
        "bytes_per_s": stream.bytes_per_s,
        "num_connections": stream.num_connections,
        "troubles": list(stream.troubles),
    }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None, sys.stdin)
