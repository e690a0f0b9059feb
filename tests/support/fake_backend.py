"""A backend that compiles in no time: it writes a few bytes, so the store can be tested alone."""

from intonaco.backends.base import Availability


class FakeBackend:
    """Stands behind the same protocol; `fields` change its fingerprint."""

    name = "eager"  # The worker process makes backends by name, and eager compiles nothing.
    is_compiled = True

    def __init__(self, *, has_compiler: bool = True, **fields: str) -> None:
        self.has_compiler = has_compiler
        self.fields = {"backend": "fake", "torch": "1", "compiler": "c 1", **fields}
        if not has_compiler:
            self.fields["compiler"] = ""

    def probe(self) -> Availability:
        return Availability(is_available=True)

    def probe_compiler(self) -> Availability:
        if self.has_compiler:
            return Availability(is_available=True)
        return Availability(is_available=False, reason="no compiler", remedy="install one")

    def fingerprint(self) -> dict[str, str]:
        return self.fields

    def supports(self, spec) -> tuple[str, ...]:
        return ()

    def supports_precision(self, precision) -> tuple[str, ...]:
        return ()
