"""Templates and requests that template state is judged on, and the ones it is profiled with.

No picture here is one that the model was trained on; profiling and evaluation share no request.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.families.request import GenerateRequest
from models.captions import caption
from models.figure import CENTER, draw_doll, reference_picture
from models.world import REFERENCE_ATTRIBUTES, Doll, doll_of, wear

TEMPLATE_SEED = 820_000_000
OTHER_SEED = 830_000_000
SIZE = 192
TOKEN = 16
NUM_PROFILING = 5
NUM_STEPS = 8
# Rows of tokens from the top, columns around the doll, by what is edited and percent of the tokens.
MASKS = {
    ("head", 10): (0, 4, 4),
    ("clothes", 10): (5, 4, 4),
    ("head", 25): (0, 6, 6),
    ("clothes", 25): (5, 6, 6),
    ("head", 40): (0, 10, 6),
    ("clothes", 40): (1, 10, 6),
}
CASES = (
    ("head", 10),
    ("clothes", 25),
    ("head", 40),
    ("clothes", 10),
    ("head", 25),
    ("clothes", 40),
    ("clothes", 25),
    ("head", 10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One template and what is asked of it.

    Attributes:
        task: "head" or "clothes": what edits change, by words or by a reference.
        percent: of the tokens, masked.
    """

    index: int
    task: str
    percent: int
    doll: Doll
    mask_HW: NDArray[np.bool_]

    @property
    def picture(self) -> Image:
        return draw_doll(self.doll)

    @property
    def seed(self) -> int:
        return 7000 + self.index

    def own_request(self) -> GenerateRequest:
        return self._request(caption(self.doll))

    def profiling(self) -> list[GenerateRequest]:
        """Return three requests by words and two by reference."""
        return [self._edit(j, by_reference=j >= 3) for j in range(NUM_PROFILING)]

    def evaluation(self, count: int) -> list[GenerateRequest]:
        """Return requests of which every second one is by reference."""
        return [self._edit(100 + j, by_reference=j % 2 == 1) for j in range(count)]

    def _edit(self, number: int, *, by_reference: bool) -> GenerateRequest:
        other = doll_of(OTHER_SEED + 1000 * self.index + number)
        target = wear(self.doll, other, REFERENCE_ATTRIBUTES[self.task])
        prompt = caption(target, reference=self.task if by_reference else None)
        references = (reference_picture(other, self.task),) if by_reference else ()
        return self._request(prompt, references)

    def _request(self, prompt: str, references: tuple[Image, ...] = ()) -> GenerateRequest:
        return GenerateRequest(
            prompt=prompt,
            seed=self.seed,
            width=SIZE,
            height=SIZE,
            num_steps=NUM_STEPS,
            references=references,
        )


def cases(count: int) -> list[Case]:
    found: list[Case] = []
    for index in range(count):
        task, percent = CASES[index % len(CASES)]
        doll = doll_of(TEMPLATE_SEED + index)
        found.append(
            Case(
                index=index,
                task=task,
                percent=percent,
                doll=doll,
                mask_HW=_mask(doll.place, *MASKS[task, percent]),
            )
        )
    return found


def _mask(place: str, top: int, rows: int, columns: int) -> NDArray[np.bool_]:
    mask = np.zeros((SIZE, SIZE), np.bool_)
    left = CENTER[place] - columns * TOKEN // 2
    mask[top * TOKEN : (top + rows) * TOKEN, left : left + columns * TOKEN] = True
    return mask
