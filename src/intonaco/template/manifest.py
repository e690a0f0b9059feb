"""The manifest of a template: what it is a state of, its files, and where each may be cut.

Bounded, strict JSON; unknown fields are refused. Reads and checks text, opens no other file.
Written last, so a folder without a manifest is no template. Fields: docs/pack-format.md.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from intonaco.errors import ManifestError
from intonaco.template.coded import (
    MAX_BLOCKS,
    MAX_ROWS,
    MAX_STEPS,
    MAX_WIDTH,
)
from intonaco.template.pack_format import MAX_FILE_BYTES

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1
MAX_MANIFEST_BYTES = 8 << 20
MAX_CUTS = 4096
MAX_SIDE_TOKENS = 4096
MAX_UNIT_VALUES = 1 << 27
"""Keys or values of one step and block, N x d: 512 MiB as float32."""
HASH_DIGITS_IN_NAME = 16
FILE_NAME = re.compile(r"[a-z0-9-]{1,60}\.([0-9a-f]{16})\.(png|itn|json)")

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ByteCount = Annotated[int, Field(ge=0, le=MAX_FILE_BYTES)]
BlockIndices = Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_BLOCKS)]


class Strict(BaseModel):
    """Frozen, no unknown fields, no conversion between kinds of values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


ModelType = TypeVar("ModelType", bound=Strict)


class FileRecord(Strict):
    """One file: its name, which carries the start of its SHA-256, and its size."""

    name: str
    num_bytes: Annotated[int, Field(ge=1, le=MAX_FILE_BYTES)]
    sha256: Digest

    @model_validator(mode="after")
    def _name_carries_the_hash(self) -> Self:
        match = FILE_NAME.fullmatch(self.name)
        if match is None or match[1] != self.sha256[:HASH_DIGITS_IN_NAME]:
            raise ValueError(
                f"name {self.name!r:.80} must be small letters, the first {HASH_DIGITS_IN_NAME} "
                f"digits of its sha256 ({self.sha256[:HASH_DIGITS_IN_NAME]}) and png, itn or json"
            )
        return self


class LadderRecord(FileRecord):
    """A progressive file and where it may be cut.

    Attributes:
        start_error: predicted weighted squared error with nothing of this file there.
        ends: prefix lengths that end with a whole chunk, rising to the file's own length.
        errors: what is left of the error at each of them.
        floor_bytes: the end below which no edit should be attempted; 0 = none of it is needed.
    """

    start_error: NonNegative
    ends: Annotated[tuple[ByteCount, ...], Field(min_length=1, max_length=MAX_CUTS)]
    errors: Annotated[tuple[NonNegative, ...], Field(max_length=MAX_CUTS)]
    floor_bytes: ByteCount

    @model_validator(mode="after")
    def _cuts_are_in_order(self) -> Self:
        if len(self.errors) != len(self.ends):
            raise ValueError(f"{len(self.ends)} ends need as many errors, got {len(self.errors)}")
        if any(lower >= upper for lower, upper in pairwise((0, *self.ends))):
            raise ValueError("ends must rise from above 0")
        if self.ends[-1] != self.num_bytes:
            raise ValueError(
                f"the last end must be num_bytes {self.num_bytes}, got {self.ends[-1]}"
            )
        if any(lower < upper for lower, upper in pairwise((self.start_error, *self.errors))):
            raise ValueError("errors must not rise along the file, nor above start_error")
        if self.floor_bytes not in (0, *self.ends):
            raise ValueError(f"floor_bytes must be 0 or one of ends, got {self.floor_bytes}")
        return self

    def cuts_from_floor(self) -> list[tuple[int, float]]:
        """Return (prefix length, error left) from the floor upwards, without cuts that gain nothing.

        A file that holds nothing has one: (0, error left).
        """
        cuts = [(0, self.start_error), *zip(self.ends, self.errors, strict=True)]
        found = [cut for cut in cuts if cut[0] == self.floor_bytes]
        for end, error in cuts:
            if end > self.floor_bytes and error < found[-1][1]:
                found.append((end, error))
        return found

    def longest_cut(self, num_bytes: int) -> int:
        """Return the longest cut of at most `num_bytes`, 0 if none is so short."""
        return max((end for end in self.ends if end <= num_bytes), default=0)


class TokenMask(Strict):
    """Which tokens of the picture an edit may change.

    Attributes:
        rows, columns: of the grid of tokens.
        edited: one bit per token in raster order, 1 = may change, first token = highest bit of the
            first byte, as hexadecimal digits; the last byte is filled with zeros.
    """

    rows: Annotated[int, Field(ge=1, le=MAX_SIDE_TOKENS)]
    columns: Annotated[int, Field(ge=1, le=MAX_SIDE_TOKENS)]
    edited: Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$", max_length=MAX_ROWS)]

    @model_validator(mode="after")
    def _bits_fill_the_grid(self) -> Self:
        num_tokens = self.rows * self.columns
        if len(self.edited) != 2 * ((num_tokens + 7) // 8):
            raise ValueError(f"edited must have one bit for each of {num_tokens} tokens")
        if int(self.edited, 16) & ((1 << (-num_tokens % 8)) - 1):
            raise ValueError("edited must be filled with zero bits")
        return self

    @classmethod
    def of(cls, is_edited: Sequence[bool], *, columns: int) -> "TokenMask":
        """Return the mask of tokens in raster order."""
        bits = "".join("1" if edited else "0" for edited in is_edited)
        num_bytes = (len(bits) + 7) // 8
        digits = int(bits.ljust(8 * num_bytes, "0"), 2).to_bytes(num_bytes, "big").hex()
        return cls(rows=len(bits) // columns, columns=columns, edited=digits)

    def is_edited(self) -> list[bool]:
        """Return one truth value per token, in raster order."""
        num_tokens = self.rows * self.columns
        bits = bin(int("1" + self.edited, 16))[3:]
        return [bit == "1" for bit in bits[:num_tokens]]


class StateSizes(Strict):
    """S, the number of blocks, N and d of the state; which blocks travel together."""

    num_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    num_rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)]
    block_groups: Annotated[tuple[BlockIndices, ...], Field(min_length=1, max_length=MAX_BLOCKS)]

    @model_validator(mode="after")
    def _groups_follow_the_chain(self) -> Self:
        chain = [block for group in self.block_groups for block in group]
        if len(chain) > MAX_BLOCKS or chain != list(range(len(chain))):
            raise ValueError("block_groups must list the blocks 0, 1, 2, ... once and in order")
        # Files are short beside what they decode to, so only the sizes can bound a reader's memory.
        if self.num_rows * self.width > MAX_UNIT_VALUES:
            raise ValueError(
                f"num_rows x width must be at most {MAX_UNIT_VALUES}, got "
                f"{self.num_rows * self.width}"
            )
        return self

    @property
    def num_blocks(self) -> int:
        return sum(len(group) for group in self.block_groups)

    @property
    def float16_bytes(self) -> int:
        """Size of the state as plain float16 keys and values."""
        return 2 * 2 * self.num_steps * self.num_blocks * self.num_rows * self.width


class TemplateManifest(Strict):
    """What stands in `manifest.json`.

    Attributes:
        template_id: digest of `identity`.
        identity: what the state belongs to; an edit that differs in any field is refused.
        title: shown to people.
        importance: what profiling found, for people; None where it was not kept.
        bases: one file per block group. coefficients: [step][block group].
        made_by: names and versions of what built it.
    """

    schema_version: Literal[1]
    template_id: Digest
    identity: dict[str, JsonValue]
    title: Annotated[str, Field(max_length=200)]
    codec: Annotated[str, Field(pattern=r"^[a-z0-9.-]{1,40}$")]
    sizes: StateSizes
    tokens: TokenMask
    picture: FileRecord
    mask: FileRecord
    latents: FileRecord
    importance: FileRecord | None
    bases: tuple[LadderRecord, ...]
    coefficients: tuple[tuple[LadderRecord, ...], ...]
    made_by: dict[str, str]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        num_groups = len(self.sizes.block_groups)
        if len(self.bases) != num_groups:
            raise ValueError(f"bases must hold one file for each of {num_groups} block groups")
        if [len(row) for row in self.coefficients] != [num_groups] * self.sizes.num_steps:
            raise ValueError(
                f"coefficients must hold {self.sizes.num_steps} x {num_groups} files "
                "(steps x block groups)"
            )
        num_kept = self.tokens.is_edited().count(False)
        if num_kept != self.sizes.num_rows:
            raise ValueError(
                f"num_rows must be the {num_kept} tokens that may not change, got "
                f"{self.sizes.num_rows}"
            )
        return self

    def files(self) -> tuple[FileRecord, ...]:
        """Return every file but the manifest itself."""
        ladders = [record for row in self.coefficients for record in row]
        extra = () if self.importance is None else (self.importance,)
        return (self.picture, self.mask, self.latents, *extra, *self.bases, *ladders)

    @property
    def state_bytes(self) -> int:
        """Size of the coded state at full quality: basis and coefficient files."""
        rows = (self.bases, *self.coefficients)
        return sum(record.num_bytes for row in rows for record in row)

    def to_json(self) -> bytes:
        """Return the manifest in its one canonical form."""
        return canonical_json(self)


def canonical_json(model: BaseModel) -> bytes:
    """Return UTF-8 JSON with sorted keys, no spaces and a line feed at its end."""
    plain = model.model_dump(mode="json")
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def read_manifest(content: bytes, *, name: str) -> TemplateManifest:
    """Return the manifest in `content`. Raises ManifestError, which calls it `name`."""
    return parse_strict(TemplateManifest, content, name=name, max_bytes=MAX_MANIFEST_BYTES)


def parse_strict(model: type[ModelType], content: bytes, *, name: str, max_bytes: int) -> ModelType:
    """Return `content` as `model`. Raises ManifestError naming the field and the rule."""
    if len(content) > max_bytes:
        raise ManifestError(
            f"{name} must have at most {max_bytes} bytes, got {len(content)}; build it again"
        )
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ManifestError(
            f"{name}: {field:.100}: {first['msg']:.200}; fetch it again or build the template again"
        ) from None


def file_record(name_start: str, content: bytes, suffix: str) -> FileRecord:
    """Return the record of a file with this content; its name ends in its hash and `suffix`."""
    digest = hashlib.sha256(content).hexdigest()
    name = f"{name_start}.{digest[:HASH_DIGITS_IN_NAME]}.{suffix}"
    return FileRecord(name=name, num_bytes=len(content), sha256=digest)
