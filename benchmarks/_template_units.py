"""Units of machine-made numbers as files, for template_reading: they fall off as real states do."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from intonaco.template.factorize import Factors
from intonaco.template.frames import Frame
from intonaco.template.ladder import UnitToCode, build_ladder
from intonaco.template.ladder_file import LadderHeader, write_ladder
from intonaco.template.pack_writer import ladder_header
from intonaco.template.unit_numbers import UnitSizes

# Rows, width, components, steps.
SIZES = {"shipped": (102, 256, 96, 8), "klein": (1178, 3072, 128, 4)}
UNIT_RATIOS = {"shipped": 15, "klein": 15}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """One unit's ladder as a file."""

    sizes: UnitSizes
    content: bytes


@cache
def unit_file(name: str) -> UnitFile:
    """Return a unit of machine-made numbers, coded down to its size's ratio."""
    rows, width, components, steps = SIZES[name]
    sizes = UnitSizes(num_steps=steps, num_rows=rows, width=width)
    unit = UnitToCode(block=0, kind=0, factors=machine_made(sizes, components))
    finest = -11 + int(np.log2(np.sqrt((unit.factors.coefficients_QRN**2).sum() / (rows * width))))
    ladder = build_ladder(
        [unit], finest_exponent=finest, max_bytes=2 * steps * rows * width / UNIT_RATIOS[name]
    )
    return UnitFile(sizes=sizes, content=write_ladder(unit_header(sizes), ladder).content)


def machine_made(sizes: UnitSizes, components: int) -> Factors:
    """Return factors whose energy falls with the component's and the profile's number."""
    random = np.random.default_rng(0)
    profiles = sizes.num_profiles
    falls_R = (1.0 + np.arange(components)) ** -0.75
    falls_Q = 0.3 ** np.arange(profiles)
    coefficients = random.laplace(size=(profiles, components, sizes.num_rows))
    basis_dR, _ = np.linalg.qr(random.laplace(size=(sizes.width, components)))
    return Factors(
        frame=Frame(
            row_codes_N=np.zeros(sizes.num_rows, np.uint8),
            step_codes_S=np.zeros(sizes.num_steps, np.int8),
            profiles_QS=(127 * np.eye(profiles, sizes.num_steps)).astype(np.int8),
        ),
        mean_d=random.normal(size=sizes.width),
        mean_weight=float(sizes.num_rows),
        basis_Rd=np.ascontiguousarray(basis_dR.T),
        coefficients_QRN=8 * coefficients * falls_R[:, None] * falls_Q[:, None, None],
        lost=0.0,
    )


def unit_header(sizes: UnitSizes) -> LadderHeader:
    return ladder_header(
        template_id="0" * 64,
        codec="shared-planes-1",
        num_rows=sizes.num_rows,
        width=sizes.width,
        blocks=(0,),
        step=None,
    )
