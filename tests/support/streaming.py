"""A template of FLUX.2-klein's size on a phone, as the paper gives them, for tests of streaming."""

from intonaco.streaming.link import LinkModel
from intonaco.streaming.quality_curve import (
    QualityCurve,
    StateSize,
    basis_share_of,
    kv_bytes,
    table_from_curve,
)
from intonaco.streaming.settings import EditPlan
from intonaco.streaming.traces import Trace

NUM_STEPS, NUM_GROUPS = 4, 5
NUM_SHARDS = NUM_STEPS * NUM_GROUPS
SHARD_RUN_S = 2.26 / NUM_SHARDS
ENCODE_S = 0.15
# 1024 image tokens and 256 others: the size at which the paper's 1.46 GiB comes out.
KLEIN_BYTES = kv_bytes(num_rows=1280, num_blocks=25, num_steps=4, width=3072)
# Not measured: any falling curve serves the tests.
CURVE = QualityCurve(ratios=(4.0, 15.0, 50.0, 150.0), psnr_db=(70.0, 60.0, 50.0, 35.0))


def klein_plan(
    *,
    dense_step_s: float | None = 3.25,
    num_levels: int = 30,
    floor_ratio: float = 150.0,
    first_steps_floor_ratio: float | None = None,
    decode_bytes_per_s: float | None = None,
    basis_share: float | None = None,
) -> EditPlan:
    size = StateSize(
        fp16_bytes=KLEIN_BYTES,
        num_steps=NUM_STEPS,
        groups=(5,) * NUM_GROUPS,
        basis_share=basis_share or basis_share_of(num_rows=1178, width=3072, num_steps=NUM_STEPS),
    )
    table = table_from_curve(
        CURVE,
        size,
        floor_ratio=floor_ratio,
        num_levels=num_levels,
        first_steps_floor_ratio=first_steps_floor_ratio,
    )
    return EditPlan(
        table=table,
        run_s=[SHARD_RUN_S] * NUM_SHARDS,
        reconstruct_s=[0.02] * NUM_SHARDS,
        dense_step_s=dense_step_s,
        decode_bytes_per_s=decode_bytes_per_s,
    )


def steady_link(mbps: float, **settings) -> LinkModel:
    return LinkModel(trace=Trace(name="steady", mbps=(mbps,) * 60), **settings)
