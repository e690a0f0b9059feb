"""The controller's table of a template on a store: its manifest's cuts, paired into levels."""

from collections.abc import Sequence

from intonaco.streaming.pairing import Rung, pair_ladders
from intonaco.streaming.tables import ShardLevels, ShardTable
from intonaco.template.manifest import LadderRecord, TemplateManifest

# The strongest compression at which edits of the shipped model stay well above 30 dB; a file may be
# cut lower, but there its state is worth little. Measured by benchmarks/streaming_quality.py.
FLOOR_RATIO = 300.0
# As far as files may be cut. In the first steps this little costs an edit at its floor nothing that
# was measurable: benchmarks/streaming_steps.py.
FIRST_STEPS_FLOOR_RATIO = 400.0


def table_of(
    manifest: TemplateManifest,
    *,
    floor_ratio: float = FLOOR_RATIO,
    first_steps_floor_ratio: float = FIRST_STEPS_FLOOR_RATIO,
) -> ShardTable:
    """Return what may be fetched of a template, shard by shard.

    The floor of an edit is float16 bytes / `floor_ratio`, in its first steps less, or the lowest
    cuts where they are longer.
    """
    num_steps = manifest.sizes.num_steps
    bases = [_rungs(record) for record in manifest.bases]
    table = ShardTable(
        shards=tuple(
            ShardLevels(
                step=step,
                group=group,
                levels=pair_ladders(_rungs(record), bases[group], basis_share=1 / num_steps),
            )
            for step, row in enumerate(manifest.coefficients)
            for group, record in enumerate(row)
        )
    )
    whole = manifest.sizes.float16_bytes
    return table.with_floor(whole / floor_ratio, first_steps_bytes=whole / first_steps_floor_ratio)


def _rungs(record: LadderRecord) -> Sequence[Rung]:
    return [Rung(num_bytes=end, error=error) for end, error in record.cuts_from_floor()]
