"""A process that turns a template's bytes into keys and values, beside the network's and the model's.

Started as `python -m intonaco.device.reconstruction_process`, with three inherited descriptors: its
connection, the memory of files, the memory of slots. Decodes what has arrived as it arrives; when
asked for a shard, writes it by its turn with what is decoded by then. Ends when the device's process
closes its end. Imports no torch, and is never told a word of a request.
"""

import contextlib
import mmap
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from intonaco.device.decoding import Decoding
from intonaco.device.reconstruction_protocol import (
    ANSWER,
    Answer,
    Follow,
    Made,
    Make,
    Prepare,
    Ready,
    Rest,
    Task,
    decode_task,
)
from intonaco.device.slots import SlotLayout
from intonaco.errors import IntonacoError, PackError, StreamingError
from intonaco.streaming.failures import Failed
from intonaco.streaming.shared_files import Layout, map_shared
from intonaco.template.coded import KINDS
from intonaco.template.decode_speed import measure_decoding
from intonaco.template.fast_planes import plane_decoder_for, warm_up
from intonaco.template.manifest import TemplateManifest, read_manifest
from intonaco.template.pack_reader import PackReader, Unit
from intonaco.template.plane_decoder import MakeDecoder
from intonaco.template.unit_numbers import UnitSizes

# How long something that has arrived may lie before it is decoded.
LOOK_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What is made ready once per template. `units`: those that this process decodes."""

    manifest: TemplateManifest
    reader: PackReader
    decoding: Decoding
    slots: SlotLayout
    slot_memory: mmap.mmap
    units: frozenset[Unit]


class ReconstructionProcess:
    """Serves one template to one device."""

    def __init__(self, connection: Connection, files: int, slots: int) -> None:
        self._connection = connection
        self._files = files
        self._slots = slots
        self._template: Template | None = None
        self._next_shard: int | None = None
        self._follows = False
        self._trouble = ""
        self._write_s = 0.0
        self._reported_bytes = 0
        self._reported_s = 0.0

    def serve(self) -> None:
        """Do one task after the other until the other end is closed; decode ahead between them."""
        has_more = False
        while True:
            if not self._connection.poll(self._patience_s(has_more)):
                has_more = self._ahead()
                continue
            try:
                content = self._connection.recv_bytes()
            except (EOFError, OSError):
                return
            self._guarded(content)
            has_more = True

    def _patience_s(self, has_more: bool) -> float | None:
        if self._next_shard is None:
            return None
        return 0.0 if has_more else LOOK_S

    def _ahead(self) -> bool:
        """Decode a slice of what comes next; return whether there was any."""
        if self._next_shard is None:
            return False
        try:
            has_more = self._open().decoding.ahead(self._next_shard)
            if not has_more and not self._follows:
                self._next_shard = None
            return has_more
        except PackError as error:
            # Whoever needs these bytes meets the error again; nobody else shall.
            self._trouble, self._next_shard = str(error), None
            return False

    def _guarded(self, content: bytes) -> None:
        try:
            self._do(decode_task(content))
        except IntonacoError as error:
            self._send(Failed.of(error))
        except (OSError, ValueError, KeyError, IndexError, ArithmeticError, MemoryError) as error:
            # Whatever it is, the device must hear of it rather than wait.
            text = f"reconstruction failed: {type(error).__name__}: {error}"
            self._send(Failed.of(StreamingError(text)))

    def _do(self, task: Task) -> None:
        match task:
            case Prepare():
                decode = plane_decoder_for(task.num_bytes, is_resident=True)
                warm_up(decode)
                self._template = self._prepared(task, decode)
                self._send(Ready(bytes_per_s=_expected_bytes_per_s(self._template, decode)))
            case Follow():
                self._next_shard, self._follows, self._trouble = 0, True, ""
            case Rest():
                self._next_shard, self._follows = 0, False
            case Make():
                self._send(self._made(task))

    def _prepared(self, task: Prepare, decode: MakeDecoder) -> Template:
        files = map_shared(self._files, task.num_bytes, is_writer=False)
        manifest = read_manifest(files[: task.num_manifest_bytes], name="the template's manifest")
        layout = Layout.of(manifest, num_manifest_bytes=task.num_manifest_bytes)
        every = [(block, kind) for block in range(manifest.sizes.num_blocks) for kind in KINDS]
        units = frozenset(every[task.worker :: task.num_workers])
        reader = PackReader(manifest, decode=decode, units=units)
        slots = SlotLayout(sizes=manifest.sizes)
        return Template(
            manifest=manifest,
            reader=reader,
            decoding=Decoding(manifest, reader, files, layout),
            slots=slots,
            slot_memory=mmap.mmap(self._slots, slots.num_bytes),
            units=units,
        )

    def _made(self, task: Make) -> Made:
        """Decode the floors, then as much as its turn allows, then write the shard's units."""
        decoding = self._open().decoding
        lengths = {
            "coefficient_bytes": task.coefficient_bytes,
            "basis_bytes": task.basis_bytes,
        }
        began_at = time.monotonic()
        decoding.floors(
            task.shard,
            coefficient_bytes=min(task.coefficient_bytes, task.coefficient_floor_bytes),
            basis_bytes=min(task.basis_bytes, task.basis_floor_bytes),
        )
        floors_s = time.monotonic() - began_at
        trouble, self._trouble = self._trouble, ""
        try:
            while time.monotonic() + self._write_s < task.turn_at:
                if not decoding.more_of(task.shard, **lengths):
                    break
        except PackError as error:
            trouble = str(error)
        self._write(task.shard, task.slot)
        self._next_shard = task.shard + 1
        return self._report(task, floors_s + self._write_s, trouble)

    def _write(self, shard: int, slot: int) -> None:
        template = self._open()
        step, group = divmod(shard, len(template.manifest.sizes.block_groups))
        began_at = time.monotonic()
        place = template.slots.shard(template.slot_memory, slot, group)
        for index, block in enumerate(template.manifest.sizes.block_groups[group]):
            for kind in KINDS:
                if (block, kind) in template.units:
                    template.reader.write(step, block, kind, place[index, kind])
        self._write_s = time.monotonic() - began_at

    def _report(self, task: Make, seconds: float, trouble: str) -> Made:
        template = self._open()
        decoding = template.decoding
        step, group = divmod(task.shard, len(template.manifest.sizes.block_groups))
        made = Made(
            shard=task.shard,
            coefficient_bytes=decoding.num_decoded((step, group)),
            basis_bytes=decoding.num_decoded((None, group)),
            seconds=seconds,
            decoded_bytes=decoding.num_bytes - self._reported_bytes,
            decode_s=decoding.seconds - self._reported_s,
            trouble=trouble,
        )
        self._reported_bytes, self._reported_s = decoding.num_bytes, decoding.seconds
        return made

    def _open(self) -> Template:
        if self._template is None:
            raise StreamingError("reconstruction has no template; prepare it first")
        return self._template

    def _send(self, answer: Answer) -> None:
        # The other end may have left; the next look at the connection ends this process.
        with contextlib.suppress(OSError):
            self._connection.send_bytes(ANSWER.dump_json(answer))


def _expected_bytes_per_s(template: Template, decode: MakeDecoder) -> float | None:
    """Return the rate of `Ready`: from made-up numbers, as no byte of the template may be there yet."""
    if not template.units:
        return None
    sizes = template.manifest.sizes
    unit = UnitSizes(num_steps=sizes.num_steps, num_rows=sizes.num_rows, width=sizes.width)
    num_all = len(KINDS) * sizes.num_blocks
    return rate_of_files(measure_decoding(decode, unit), len(template.units), num_all=num_all)


def rate_of_files(unit_bytes_per_s: float, num_units: int, *, num_all: int) -> float:
    """Return at which rate files of `num_all` units are done with, of which `num_units` are decoded here."""
    return unit_bytes_per_s * num_all / num_units


def main(connection_descriptor: int, files: int, slots: int) -> None:
    """Serve until the device's process goes away."""
    # An interrupt is for the process of the device, which ends this one by closing its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.closing(Connection(connection_descriptor)) as connection:
        ReconstructionProcess(connection, files, slots).serve()
    os.close(files)
    os.close(slots)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
