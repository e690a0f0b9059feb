"""The device's end of reconstruction: one or more processes that make keys and values, and their memory.

They decode in parallel, each its own share of the units; whoever asks for a shard gets views of
shared memory, no copies.
"""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

import torch
from torch import Tensor

from intonaco.backends.machine import num_cores
from intonaco.device.reconstruction_protocol import (
    TASK,
    Answer,
    Follow,
    Made,
    Make,
    Prepare,
    Ready,
    Rest,
    Task,
    decode_answer,
)
from intonaco.device.slots import SlotLayout, Slots
from intonaco.errors import StreamingError
from intonaco.streaming.failures import Failed
from intonaco.streaming.shared_files import make_shared_file, map_shared
from intonaco.template.manifest import TemplateManifest

MODULE = "intonaco.device.reconstruction_process"
# The first start on a machine compiles the kernels.
READY_S = 120.0
ANSWER_MARGIN_S = 5.0
STOP_S = 2.0
MOST_WORKERS = 4
# Decoding uses one thread per process; a numerical library's own threads would fight for the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

BlockState = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFiles:
    """The memory that the network's process fills: its descriptor and what lies at its start."""

    descriptor: int
    num_manifest_bytes: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Keys and values of a shard's blocks, and from which prefixes they were made.

    Attributes:
        seconds: what the shard could not do without.
        bytes_per_s: decoding speed of all processes together, None if nothing was decoded.
    """

    blocks: dict[int, BlockState]
    coefficient_bytes: int
    basis_bytes: int
    seconds: float
    bytes_per_s: float | None
    trouble: str


def default_num_workers() -> int:
    """Return how many processes decode: one core is the model's."""
    return max(1, min(MOST_WORKERS, num_cores() - 1))


class Reconstruction:
    """Processes that decode one template. Not for several threads at once."""

    def __init__(
        self, manifest: TemplateManifest, files: SharedFiles, *, num_workers: int | None = None
    ) -> None:
        """Start them; they get ready by themselves. Raises SaveError without memory for the slots."""
        self._manifest = manifest
        self._files = files
        self._num_workers = num_workers or default_num_workers()
        self._layout = SlotLayout(sizes=manifest.sizes)
        self._descriptor = make_shared_file()
        self._workers: list[_Worker] = []
        try:
            self._memory = map_shared(self._descriptor, self._layout.num_bytes, is_writer=True)
            self._slots = Slots(self._layout)
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def process_ids(self) -> tuple[int, ...]:
        return tuple(worker.process_id for worker in self._workers)

    @property
    def bytes_per_s(self) -> float | None:
        """At which all processes together are expected to decode, measured as they started.

        None before `wait_ready`. The slowest counts: each decodes its share of all bytes.
        """
        rates = [worker.bytes_per_s for worker in self._workers]
        return min((rate for rate in rates if rate is not None), default=None)

    @property
    def memory(self) -> Tensor:
        """All slots as bytes; stays mapped as long as it is referred to."""
        return torch.frombuffer(self._memory, dtype=torch.uint8)

    def wait_ready(self) -> None:
        """Wait until all are up; those that have ended are started again first. Raises StreamingError."""
        if not all(worker.is_running() for worker in self._workers):
            self._end_workers()
            self._start()
        for worker in self._workers:
            worker.wait_ready()

    def begin(self) -> None:
        """An edit begins: decode what arrives."""
        self.wait_ready()
        for worker in self._workers:
            worker.send(Follow())

    def rest(self) -> None:
        """The edit is over. A process that has ended is found by the next edit."""
        for worker in self._workers:
            worker.send(Rest())

    def make(
        self,
        shard: int,
        *,
        coefficient_bytes: int,
        basis_bytes: int,
        coefficient_floor_bytes: int = 0,
        basis_floor_bytes: int = 0,
        turn_at: float,
    ) -> Shard:
        """Return `shard`, made by `turn_at` from at most these prefixes, from their floors at least.

        Valid until the next shard of its group is kept. Raises StreamingError or PackError where it cannot be
        made, or a process has ended.
        """
        task = Make(
            shard=shard,
            slot=self._slots.free,
            coefficient_bytes=coefficient_bytes,
            basis_bytes=basis_bytes,
            coefficient_floor_bytes=coefficient_floor_bytes,
            basis_floor_bytes=basis_floor_bytes,
            turn_at=turn_at,
        )
        for worker in self._workers:
            worker.send(task)
        late_at = max(turn_at, time.monotonic()) + ANSWER_MARGIN_S
        # All are heard before any error is raised: an answer left over would be the next one's.
        answers = [worker.answer(late_at - time.monotonic()) for worker in self._workers]
        made = [_made(answer, shard) for answer in answers]
        return Shard(
            blocks=self._blocks(shard, self._slots.free),
            coefficient_bytes=min(one.coefficient_bytes for one in made),
            basis_bytes=min(one.basis_bytes for one in made),
            seconds=max(one.seconds for one in made),
            bytes_per_s=_bytes_per_s(made),
            trouble=next((one.trouble for one in made if one.trouble), ""),
        )

    def keep(self, group: int) -> None:
        """The shard that was made last has begun: its slot stays until the group's next one begins."""
        self._slots.keep(group)

    def close(self) -> None:
        """End the processes; may be called again. Shards that were made stay readable."""
        self._end_workers()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _start(self) -> None:
        for number in range(self._num_workers):
            task = Prepare(
                num_manifest_bytes=self._files.num_manifest_bytes,
                num_bytes=self._files.num_bytes,
                worker=number,
                num_workers=self._num_workers,
            )
            self._workers.append(_Worker(self._files.descriptor, self._descriptor, task))

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def _blocks(self, shard: int, slot: int) -> dict[int, BlockState]:
        group = shard % len(self._manifest.sizes.block_groups)
        units = torch.from_numpy(self._layout.shard(self._memory, slot, group))
        blocks = self._manifest.sizes.block_groups[group]
        return {block: (units[index, 0], units[index, 1]) for index, block in enumerate(blocks)}


class _Worker:
    """One process and its connection."""

    def __init__(self, files: int, slots: int, prepare: Prepare) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = (theirs.fileno(), files, slots)
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                # An interrupt of the terminal is for this process, which ends that one; until it has
                # started, it could not even leave it aside.
                process_group=0,
                env={**os.environ, **ONE_THREAD},
            )
        self._connection = Connection(ours.detach())
        self._is_ready = False
        self.bytes_per_s: float | None = None
        self.send(prepare)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> None:
        if not self._is_ready:
            answer = self.answer(READY_S)
            if isinstance(answer, Failed):
                # Started anew, it may do better.
                self._end()
                raise answer.as_error(StreamingError)
            if isinstance(answer, Ready):
                self._is_ready, self.bytes_per_s = True, answer.bytes_per_s

    def send(self, task: Task) -> None:
        try:
            self._connection.send_bytes(TASK.dump_json(task))
        except OSError:
            # Its end is told by `answer`, which whoever needs it asks for.
            return

    def answer(self, within_s: float) -> Answer:
        """Return its answer; what goes wrong is an answer, too."""
        try:
            if wait([self._connection], timeout=max(0.0, within_s)):
                return decode_answer(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._end()
            return _failed("the reconstruction process has ended; edit again")
        # A late answer must not be taken for the next one.
        self._end()
        return _failed(f"the reconstruction process does not answer within {within_s:.0f} s")

    def _end(self) -> None:
        """End the process for certain, so that `is_running` tells it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._end()


def _failed(message: str) -> Failed:
    return Failed.of(StreamingError(message))


def _made(answer: Answer, shard: int) -> Made:
    if isinstance(answer, Made) and answer.shard == shard:
        return answer
    if isinstance(answer, Failed):
        raise answer.as_error(StreamingError)
    raise StreamingError(f"reconstruction answered {answer.kind}, asked for shard {shard}")


def _bytes_per_s(made: list[Made]) -> float | None:
    """Every process reads all bytes and decodes its share of them: the slowest counts."""
    speeds = [one.decoded_bytes / one.decode_s for one in made if one.decode_s > 0]
    return min(speeds) if len(speeds) == len(made) else None
