"""A tiny model and a template of it in a catalog, for tests of whole streamed edits."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from intonaco.device.edit import StreamedEdit, TemplateSession
from intonaco.model import Model
from intonaco.streaming.settings import StreamSettings
from intonaco.template.build import BuildRequest, build_template
from intonaco.template.catalog import Template

# Longer than anything in a test takes, whatever the machine does meanwhile.
PATIENT_S = 60.0
# The tiny template's files are far smaller than a slice that is worth a request elsewhere.
SMALL_FILES = StreamSettings(smallest_slice_bytes=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Studio:
    """A model, a template of it in a catalog, and masks inside what the template leaves to edits."""

    model: Model
    catalog: Path
    template: Template
    mask_HW: np.ndarray
    half_mask_HW: np.ndarray

    @property
    def folder(self) -> str:
        return self.template.folder.name


def build_studio(model: Model, catalog: Path) -> Studio:
    """Build a template of 16 tokens, of which 6 may change, and put it into `catalog`."""
    mask_HW = np.zeros((64, 64), dtype=np.bool_)
    mask_HW[16:48, 16:64] = True
    half_HW = mask_HW.copy()
    half_HW[:, 48:] = False
    template = build_noise_template(model, catalog, mask_HW)
    return Studio(
        model=model, catalog=catalog, template=template, mask_HW=mask_HW, half_mask_HW=half_HW
    )


def build_noise_template(model: Model, catalog: Path, mask_HW: np.ndarray) -> Template:
    """Build a template of a picture of noise that edits may change inside `mask_HW`."""
    random = np.random.default_rng(0)
    picture = Image.fromarray(random.integers(0, 255, (*mask_HW.shape, 3), dtype=np.uint8))
    request = BuildRequest(
        picture=picture, mask_HW=mask_HW, prompt="a girl", seed=5, num_steps=4, num_profiling=1
    )
    return build_template(model.editable_family(), request, catalog, model_digest=model.digest)


def build_larger_template(model: Model, catalog: Path) -> Template:
    """Build a template of 144 tokens, of which 8 may change: enough bytes for a slow link."""
    mask_HW = np.zeros((192, 192), dtype=np.bool_)
    mask_HW[64:96, 64:128] = True
    return build_noise_template(model, catalog, mask_HW)


def complete(session: TemplateSession, **request) -> StreamedEdit:
    """Edit until nothing is left to fetch; return the edit that found all of it on the device."""
    num_shards = len(session.times.run_s)
    for _ in range(20):
        # Times that leave room for everything, whatever the machine does meanwhile.
        session.times = replace(
            session.times, run_s=(PATIENT_S,) * num_shards, encode_s=PATIENT_S, dense_step_s=1e6
        )
        edited = session.edit(**request)
        if edited.stream.received_bytes == 0:
            return edited
    raise AssertionError("20 edits, and the last one still fetched something")
