import pytest

from intonaco.errors import ProfileError
from intonaco.serving.profile import (
    ServingProfile,
    is_loopback,
    make_profile,
    parse_size,
    read_key,
    read_profile,
)
from tests.support.documents import ROOT

KEY = "sixteen-characters-and-more"


@pytest.mark.parametrize("name", ["profile.yaml", "profile.toml"])
def test_a_file_is_read_and_flags_lie_over_it(tmp_path, name):
    text = "port: 1\nmax_queue: 20\n" if name.endswith("yaml") else "port = 1\nmax_queue = 20\n"
    (tmp_path / name).write_text(text)
    profile = read_profile(tmp_path / name, {"port": 2})
    assert (profile.port, profile.max_queue) == (2, 20)


def test_no_file_gives_the_defaults():
    assert read_profile(None, {}) == ServingProfile()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prot": 1}, "prot is no field; known are model, "),
        ({"port": 70_000}, "port: Input should be less than or equal to 65535, got 70000"),
        ({"max_steps": 0}, "max_steps: "),
        ({"sizes": ["0x64"]}, "sizes: '0x64' is no size; write WIDTHxHEIGHT, such as 192x192"),
        ({"max_pictures": 50}, "max_pictures must be at most max_queue 32, got 50"),
        ({"host": "0.0.0.0"}, "host '0.0.0.0' can be reached from elsewhere, so api_key_file"),
        ({"step_caches": []}, "step_caches: "),
    ],
)
def test_a_field_that_breaks_a_rule_is_named(fields, told):
    with pytest.raises(ProfileError) as caught:
        make_profile(fields)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["- a\n", "a: [", "\x00", "port: 1\n" * 200_000])
def test_a_file_that_is_no_profile_is_refused(tmp_path, text):
    file = tmp_path / "profile.yaml"
    file.write_text(text)
    with pytest.raises(ProfileError, match=r"profile\.yaml"):
        read_profile(file, {})


def test_an_empty_file_gives_the_defaults(tmp_path):
    file = tmp_path / "profile.yaml"
    file.write_text("# nothing yet\n")
    assert read_profile(file, {}) == ServingProfile()


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_only_loopback_addresses_are_loopback(host, is_it):
    assert is_loopback(host) is is_it


@pytest.mark.parametrize("text", ["192", "192X192", "0x5", "-1x5", "192x192 ", "123456x1"])
def test_what_is_no_size_is_none(text):
    assert parse_size(text) is None


def test_the_key_is_read_without_its_line_end(tmp_path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert read_key(ServingProfile(api_key_file=file)) == KEY


@pytest.mark.parametrize("text", ["short", "a key with many spaces in it", ""])
def test_a_key_that_is_easily_guessed_is_refused(tmp_path, text):
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(ProfileError, match="must hold one key of 16 or more"):
        read_key(ServingProfile(api_key_file=file))


def test_every_field_is_described_and_on_the_serving_page():
    page = (ROOT / "docs/serving.md").read_text()
    fields = ServingProfile.model_fields
    assert [name for name, field in fields.items() if not field.description] == []
    assert [name for name in fields if f"`{name}`" not in page] == []
