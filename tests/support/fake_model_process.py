"""A model process without a model: its pictures are digests, its faults are asked for by the prompt.

With `--films` it draws films, which are no MP4 files but digests too.

Run as a module by `tests.support.fake_server`; never by the package. Words of a prompt:

    raise, memory   an exception in step 1          die    SIGKILL of itself in step 1
    endless         steps until it is cancelled     hang   a step that never ends, with a child process
    deaf            steps that go on after a cancel
"""

import argparse
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from intonaco.errors import ArtifactDamagedError, GenerationCancelled
from intonaco.families.source import shipped_folder
from intonaco.pipelines.receipt import Environment, Receipt
from intonaco.serving.framing import Frame
from intonaco.serving.messages import (
    Draw,
    Drawn,
    FilmFacts,
    ModelFacts,
    PictureHeader,
    RawPicture,
    Stepped,
)
from intonaco.serving.model_process import ReportStep, Say, main
from intonaco.serving.profile import ServingProfile

STEP_S = 0.004


class FakeEngine:
    """Draws without drawing. `start` is what goes wrong at the start, `marker` a file for "once"."""

    def __init__(self, start: str, marker: Path | None, *, draws_films: bool = False) -> None:
        self._start = start
        self._marker = marker
        self._draws_films = draws_films

    def load(self, profile: ServingProfile, say: Say) -> ModelFacts:
        say("loading")
        is_first = self._marker is None or not self._marker.exists()
        if self._marker is not None:
            self._marker.touch()
        if self._start != "fine" and is_first:
            fail_at_start(self._start)
        smoke = "0" * 64 if is_first or self._start != "drift" else "1" * 64
        return make_film_facts(smoke=smoke) if self._draws_films else make_facts(smoke=smoke)

    def draw(self, order: Draw, inputs: tuple[RawPicture, ...], report: ReportStep) -> Frame:
        words = order.prompt.split()
        is_endless = "endless" in words or "deaf" in words
        for index in itertools.count() if is_endless else range(order.num_steps):
            if index == 1:
                fail_in_step(words)
            threading.Event().wait(STEP_S)
            previews = (
                (fake_picture(order, f"step {index}"),) if index in order.preview_steps else ()
            )
            step = Stepped(
                draw_id=order.draw_id,
                index=index,
                num_steps=order.num_steps,
                elapsed_s=0.0,
                pictures=tuple(picture.header for picture in previews),
            )
            if not report(step, previews) and "deaf" not in words:
                raise GenerationCancelled(f"cancelled after step {index + 1}")
        picture = fake_picture(
            order, "".join(hashlib.sha256(one.pixels).hexdigest() for one in inputs)
        )
        film = fake_film(order) if order.task == "film" else b""
        drawn = Drawn(
            draw_id=order.draw_id,
            receipt=fake_receipt(order, picture),
            warnings=(),
            draw_ms=1.0,
            pictures=(picture.header,),
            film_bytes=len(film),
        )
        return Frame(message=drawn, pictures=(picture,), film=film)


def fail_at_start(how: str) -> None:
    """Do what stands in the way of a start."""
    match how:
        case "artifact":
            raise ArtifactDamagedError("program.pt2 is cut short; compile it again")
        case "memory":
            raise MemoryError("cannot allocate the weights")
        case "disk":
            raise OSError(28, "No space left on device")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            threading.Event().wait()
        case _:
            return


def fail_in_step(words: list[str]) -> None:
    """Do what the prompt asks for."""
    if "raise" in words:
        raise RuntimeError("a product of this step is not finite")
    if "memory" in words:
        raise MemoryError("out of memory in a step")
    if "die" in words:
        os.kill(os.getpid(), signal.SIGKILL)
    if "hang" in words:
        subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
        threading.Event().wait()


def fake_picture(order: Draw, salt: str = "") -> RawPicture:
    """Return pixels that depend on seed, index, prompt, size and `salt`, and on nothing else."""
    header = PictureHeader(mode="RGB", width=order.width, height=order.height)
    text = json.dumps([order.seed, order.image_index, order.prompt, salt])
    pixels = hashlib.shake_128(text.encode()).digest(header.num_bytes)
    return RawPicture(header=header, pixels=pixels)


def fake_film(order: Draw) -> bytes:
    """Return 1000 bytes a frame that depend on seed, prompt, size and length."""
    text = json.dumps([order.seed, order.prompt, order.width, order.height, order.num_frames])
    return hashlib.shake_128(text.encode()).digest(1000 * order.num_frames)


def fake_receipt(order: Draw, picture: RawPicture) -> str:
    """Return a receipt that can be read."""
    return Receipt(
        kind="generate",
        model_name="fake",
        model_digest="f" * 64,
        family="fake",
        dtype="float32",
        device="cpu",
        is_private=order.is_private,
        prompt=None if order.is_private else order.prompt,
        seed=order.seed,
        image_index=order.image_index,
        width=order.width,
        height=order.height,
        num_steps=order.num_steps,
        num_frames=order.num_frames,
        sigmas=(),
        step_ms=(),
        picture_sha256=hashlib.sha256(picture.pixels).hexdigest(),
        environment=Environment(versions={}, cpu_capability="none", num_threads=1),
    ).to_json()


def make_facts(*, smoke: str = "0" * 64) -> ModelFacts:
    """Return facts like those of the shipped model."""
    return ModelFacts(
        model_name="fake",
        model_digest="f" * 64,
        family="fake",
        dtype="float32",
        device="cpu",
        backend="eager",
        default_width=64,
        default_height=64,
        default_num_steps=4,
        token_pixels=16,
        min_side_pixels=64,
        max_pixels=1024 * 1024,
        max_prompt_tokens=40,
        tokenizer_folder=str(shipped_folder() / "tokenizer"),
        can_edit=True,
        is_distilled=True,
        num_threads=1,
        smoke_sha256=smoke,
        smoke_num_cached=1,
        load_s=0.0,
        smoke_s=0.0,
    )


def make_film_facts(*, smoke: str = "0" * 64) -> ModelFacts:
    """Return facts like those of a Wan checkpoint."""
    film = FilmFacts(
        default_num_frames=17, frames_per_latent=4, frames_per_s=16, max_pixels=64 * 64 * 81
    )
    update = {"film": film, "is_distilled": False, "can_edit": False, "can_take_references": False}
    return make_facts(smoke=smoke).model_copy(update=update)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", default="fine")
    parser.add_argument("--marker", type=Path, default=None)
    parser.add_argument("--films", action="store_true")
    options, _ = parser.parse_known_args()
    sys.exit(main(FakeEngine(options.start, options.marker, draws_films=options.films)))
