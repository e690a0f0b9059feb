"""One private edit on a device: the template's state streams in while the model runs.

open   the template's manifest, picture, mask and latents come; device times are measured once
edit   the stream begins with the edit, so the first shards travel while the prompt is encoded;
       each shard runs with what is there at its deadline; without the network, the rest is dense
after  receipt: which template, how much of its state, degraded or dense from which step
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intonaco.device.link import TemplateLink
from intonaco.device.records import StreamRecord
from intonaco.device.source import StreamedSource
from intonaco.device.timing import DeviceTimes, measure
from intonaco.device.upload import upload_to
from intonaco.errors import StoreError, StoreLostError, UnsupportedError
from intonaco.families.base import EditableFamily
from intonaco.model import Model, PictureSource
from intonaco.pipelines.generate import ProgressCallback, StepEvent
from intonaco.pipelines.picture import Picture
from intonaco.pipelines.receipt import EditRecord, TemplateRecord
from intonaco.streaming.protocol import Begin, Progress, Summary
from intonaco.streaming.settings import StreamSettings
from intonaco.template.identity import TemplateIdentity
from intonaco.template.loading import TemplateParts, open_parts

# Reconstruction measures itself alone, on numbers that are read quicker than a template's. Beside the
# model it did half of that; of 0.4, 0.6 and 1, 0.6 gave the first edit most (docs/log.md, 2026-11-30).
FIRST_DECODE_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEdit:
    """A picture and how its template's state came."""

    picture: Picture
    stream: StreamRecord


class TemplateSession:
    """A template of a store together with the model that edits it; serves one edit at a time."""

    def __init__(
        self, model: Model, link: TemplateLink, *, settings: StreamSettings | None = None
    ) -> None:
        """Check that the template belongs to `model`, and time the device.

        Raises TemplateError where the template cannot be used, UnsupportedError for a model without
        template state.
        """
        self.model = model
        self.link = link
        self.settings = settings or StreamSettings()
        self.parts: TemplateParts = open_parts(link.manifest, link.read_file)
        # What starts up beside it would be measured, too.
        link.reconstruction.wait_ready()
        self._upload = upload_to(model.family.device, link.reconstruction.memory)
        times = measure(_family(model), link.manifest, self.parts, self._upload)
        self.times: DeviceTimes = replace(
            times, decode_bytes_per_s=_expected(link.reconstruction.bytes_per_s)
        )

    @property
    def identity(self) -> TemplateIdentity:
        return self.parts.identity

    @property
    def progress(self) -> Progress | None:
        """Where the stream of the edit that runs stands."""
        return self.link.progress

    def edit(
        self,
        mask: PictureSource | NDArray[np.bool_] | None = None,
        *,
        prompt: str | None = None,
        references: Sequence[PictureSource] = (),
        seed: int | None = None,
        is_private: bool = False,
        progress: ProgressCallback | None = None,
        watch: Callable[[StreamedSource], None] | None = None,
    ) -> StreamedEdit:
        """Redraw the template inside `mask` (None: all that it leaves to edits).

        Other arguments and errors are those of `Model.edit`. `watch` is given the running source.
        Nothing of the arguments reaches the network's process.
        """
        began_at = time.monotonic()
        source = self._begin(began_at + self.times.encode_s)
        try:
            with source:
                if watch is not None:
                    watch(source)
                picture = self.model.edit(
                    self.parts.picture,
                    self.parts.mask_HW if mask is None else mask,
                    prompt=prompt,
                    references=references,
                    seed=seed,
                    is_private=is_private,
                    template_state=self.parts.with_state(source, num_bytes=0),
                    progress=_ending(source, progress),
                )
                seconds = time.monotonic() - began_at
        finally:
            # Taken from an edit that failed, too, or the next one would get it.
            summary = self._summary()
        self._learn(source)
        record = _record(source, summary, seconds)
        return StreamedEdit(picture=_with_record(picture, record), stream=record)

    def _begin(self, start_at: float) -> StreamedSource:
        """Let the stream begin; return the source that it fills."""
        message = Begin(
            run_s=self.times.run_s,
            reconstruct_s=self.times.reconstruct_s,
            dense_step_s=self.times.dense_step_s,
            decode_bytes_per_s=self.times.decode_bytes_per_s,
            start_at=start_at,
            settings=self.settings,
        )
        # A link that is gone already is met again at the first shard, which then runs dense.
        with contextlib.suppress(StoreLostError):
            self.link.begin(message)
        return StreamedSource(
            self.link,
            run_s=self.times.run_s,
            reconstruct_s=self.times.reconstruct_s,
            start_at=start_at,
            late=self.settings.late,
            upload=self._upload,
        )

    def _summary(self) -> Summary:
        """Return what the network's process says; an edit is no worse for having lost it."""
        try:
            return self.link.summary()
        except StoreError as error:
            return Summary(
                num_bytes=0, bytes_per_s=0.0, sent=(), num_connections=0, troubles=(str(error),)
            )

    def _learn(self, source: StreamedSource) -> None:
        self.times = replace(
            self.times,
            run_s=tuple(source.times.run_s),
            reconstruct_s=tuple(source.times.reconstruct_s),
            decode_bytes_per_s=source.times.decode_bytes_per_s or self.times.decode_bytes_per_s,
        )


def _expected(bytes_per_s: float | None) -> float | None:
    """Return at which rate a first edit is decoded, from what reconstruction measured of itself."""
    return None if bytes_per_s is None else FIRST_DECODE_SHARE * bytes_per_s


def _ending(source: StreamedSource, progress: ProgressCallback | None) -> ProgressCallback:
    """Return a callback that ends the last shard with the last step, before the picture is decoded."""

    def report(event: StepEvent) -> bool | None:
        if event.index + 1 == event.num_steps:
            source.finish()
        return None if progress is None else progress(event)

    return report


def _family(model: Model) -> EditableFamily:
    if not hasattr(model.family, "encode_picture"):
        raise UnsupportedError(f"{model.name} cannot edit; load a model of family flux2")
    return model.family  # type: ignore[return-value]  # what was just looked at


def _record(source: StreamedSource, summary: Summary, seconds: float) -> StreamRecord:
    return StreamRecord(
        shards=tuple(source.records),
        dense_from_step=source.dense_from_step,
        state_bytes=source.num_bytes,
        received_bytes=summary.num_bytes,
        bytes_per_s=summary.bytes_per_s,
        sent=summary.sent,
        num_connections=summary.num_connections,
        troubles=(*source.troubles, *summary.troubles),
        seconds=seconds,
    )


def _with_record(picture: Picture, record: StreamRecord) -> Picture:
    """Return `picture` with what became of the stream in its receipt."""
    edit = picture.receipt.edit
    if not isinstance(edit, EditRecord) or not isinstance(edit.template, TemplateRecord):
        return picture
    template = edit.template.model_copy(
        update={
            "state": record.state,
            "num_bytes": record.state_bytes,
            "dense_from_step": record.dense_from_step,
        }
    )
    receipt = picture.receipt.model_copy(
        update={"edit": edit.model_copy(update={"template": template})}
    )
    return replace(picture, receipt=receipt)
