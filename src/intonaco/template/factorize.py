"""One unit, all its steps at once: mean, basis, coefficients, temporal profiles.

With row scales p and step scales s (square roots of weights, `frames.py`), and X_t the (N, d) matrix
of step t:

    Y_t = diag(p * s_t) (X_t - mean)         what an edit notices
    B   = right singular vectors of all Y_t, stacked    one basis for all steps
    A_t = Y_t B^T
    A_t = sum_q time[q, t] C_q               time: eigenvectors of the steps' covariance

B has orthonormal rows and `time` nearly so: errors of C are errors of Y. One basis for all steps costs
its bytes once; the profiles take out what steps have in common, which is nearly everything (neighbouring
steps of the shipped model correlate by 0.95 and more).

Source: `papers/sakura.txt`, weighted low-rank factorization; sharing over steps is our own.
Shape letters: S steps, N rows, d width, R components, Q temporal profiles.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import RequestError
from intonaco.template.frames import PROFILE_PEAK, Frame, row_codes, step_codes
from intonaco.template.strands import group_range, group_sizes, num_profiles

MAX_COMPONENTS = 512

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """One unit, factorized and not yet cut.

    Attributes:
        frame: scales and profiles as they are stored; all else is exact under them.
        mean_d: weighted mean of all rows and steps.
        mean_weight: what a squared error of the mean costs.
        basis_Rd: orthonormal rows, by falling energy.
        coefficients_QRN: C, transposed as it is coded.
        lost: energy of Y beyond R components and Q profiles.
    """

    frame: Frame
    mean_d: Floats
    mean_weight: float
    basis_Rd: Floats
    coefficients_QRN: Floats
    lost: float


def factorize(
    states_SNd: NDArray[np.floating],
    *,
    row_weights_N: Floats,
    step_weights_S: Floats,
    shares_coefficients: bool = True,
) -> Factors:
    """Factorize one unit under the given weights, all above 0.

    Without `shares_coefficients` each profile is one step, of at most 8: only the basis is shared.
    """
    states = states_SNd.astype(np.float64)
    num_steps, _, width = states.shape
    # Row scales are at most 1: the steps' scale takes over what that leaves out.
    largest = float(row_weights_N.max())
    rows = row_codes(np.sqrt(row_weights_N / largest))
    steps = step_codes(np.sqrt(step_weights_S * largest))
    no_profiles = np.zeros((num_profiles(num_steps), num_steps), np.int8)
    frame = Frame(row_codes_N=rows, step_codes_S=steps, profiles_QS=no_profiles)
    weights_SN = np.outer(frame.step_scales, frame.row_scales) ** 2
    mean_d = np.einsum("sn,snd->d", weights_SN, states) / weights_SN.sum()
    seen_SNd = np.sqrt(weights_SN)[:, :, None] * (states - mean_d)
    basis_Rd, lost = _basis(seen_SNd.reshape(-1, width))
    mixed_SNR = seen_SNd @ basis_Rd.T
    profiles_QS = _profiles(mixed_SNR) if shares_coefficients else _one_per_step(num_steps)
    time_QS = profiles_QS.astype(np.float64) / PROFILE_PEAK
    # Least squares: what rounding of the profiles changed, the coefficients take up.
    coefficients_QRN = np.einsum("sq,snr->qrn", np.linalg.pinv(time_QS), mixed_SNR)
    beyond_SNR = mixed_SNR - np.einsum("qs,qrn->snr", time_QS, coefficients_QRN)
    return Factors(
        frame=Frame(row_codes_N=rows, step_codes_S=steps, profiles_QS=profiles_QS),
        mean_d=mean_d,
        mean_weight=float(weights_SN.sum()),
        basis_Rd=basis_Rd,
        coefficients_QRN=coefficients_QRN,
        lost=lost + float((beyond_SNR**2).sum()),
    )


def _basis(rows: Floats) -> tuple[Floats, float]:
    """Return the basis (R, d) of `rows` and the energy that it leaves out.

    Each vector's entry of largest magnitude is positive, so that equal states give equal files.
    """
    energy, vectors = np.linalg.eigh(rows.T @ rows)
    order = np.argsort(energy)[::-1]
    # A reader takes every component group for whole: the last one is filled with vectors of no energy.
    whole, _ = group_range(len(group_sizes(min(MAX_COMPONENTS, len(rows)))))
    kept = order[: min(whole, rows.shape[1])]
    basis = vectors[:, kept].T
    peaks = basis[np.arange(len(basis)), np.abs(basis).argmax(axis=1)]
    lost = float(np.maximum(energy, 0).sum() - np.maximum(energy[kept], 0).sum())
    return basis * np.where(peaks < 0, -1.0, 1.0)[:, None], max(lost, 0.0)


def _one_per_step(num_steps: int) -> NDArray[np.int8]:
    if num_steps > num_profiles(num_steps):
        raise RequestError(
            f"shares_coefficients must be True for more than {num_profiles(num_steps)} steps, got "
            f"False and {num_steps} steps"
        )
    return (PROFILE_PEAK * np.eye(num_steps)).astype(np.int8)


def _profiles(mixed_SNR: Floats) -> NDArray[np.int8]:
    """Return the temporal profiles (Q, S) in 127ths, by falling energy."""
    num_steps = len(mixed_SNR)
    flat = mixed_SNR.reshape(num_steps, -1)
    _, vectors = np.linalg.eigh(flat @ flat.T)
    profiles = vectors[:, ::-1].T[: num_profiles(num_steps)]
    peaks = profiles[np.arange(len(profiles)), np.abs(profiles).argmax(axis=1)]
    upright = profiles * np.where(peaks < 0, -1.0, 1.0)[:, None]
    return np.round(upright * PROFILE_PEAK).astype(np.int8)
