"""The controller's table of a template on a store: its manifest's cuts, paired into levels."""

from collections.abc import Sequence

from intonaco.streaming.tables import Rung, ShardLevels, ShardTable, pair_ladders
from intonaco.template.manifest import LadderRecord, TemplateManifest


def table_of(manifest: TemplateManifest) -> ShardTable:
    """Return what may be fetched of a template, shard by shard, from the floor of each file up."""
    num_steps = manifest.sizes.num_steps
    bases = [_rungs(record) for record in manifest.bases]
    return ShardTable(
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


def _rungs(record: LadderRecord) -> Sequence[Rung]:
    return [Rung(num_bytes=end, error=error) for end, error in record.cuts_from_floor()]
