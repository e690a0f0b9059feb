"""Ranges of objects by what fsspec knows: s3:// by s3fs, and others by packages of their own.

One blocking function for `CallStore`. Who may read is a matter of the machine's own settings (for s3
its credentials, `AWS_ENDPOINT_URL` for another server than Amazon's); nothing of it is asked for here.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from intonaco.errors import StoreAnswerError, StoreError, StoreLostError

S3_SCHEMES = frozenset({"s3", "s3a"})
S3_SETTINGS = {
    # Amazon's own words name the system, Python and every package; the store needs none of them.
    "config_kwargs": {
        "user_agent": "intonaco",
        "connect_timeout": 5,
        "read_timeout": 10,
        "retries": {"total_max_attempts": 1},
    }
}
CREDENTIALS = "credentials"


def object_reader(url: str, scheme: str) -> Callable[[str, int, int], tuple[bytes, str]]:
    """Return the function that reads ranges below `url`; opens no connection.

    Raises StoreError where no package for such URLs is installed. The function raises
    FileNotFoundError, StoreAnswerError where this machine may not read, or StoreLostError.
    """
    try:
        # Without types of its own, hence by name.
        find: Any = import_module("fsspec.core").url_to_fs
        found: tuple[Any, str] = find(url, **(S3_SETTINGS if scheme in S3_SCHEMES else {}))
    except (ImportError, ValueError) as error:
        raise StoreError(
            f"store {url} cannot be used here ({error}); http(s)://, file:// and folders always "
            "work, s3:// needs pip install 'intonaco[s3]'"
        ) from None
    files, root = found

    def read_range(name: str, start: int, stop: int) -> tuple[bytes, str]:
        path = f"{root.rstrip('/')}/{name}"
        try:
            return bytes(files.cat_file(path, start=start, end=stop)), ""
        except FileNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001  each package has errors of its own
            raise _told(error, f"{url}/{name}") from None

    return read_range


def _told(error: Exception, place: str) -> StoreError:
    """Return what a package's error means for an edit."""
    if isinstance(error, PermissionError) or CREDENTIALS in str(error).lower():
        return StoreAnswerError(
            f"{place} may not be read by this machine ({error}); check its credentials (for s3 "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
        )
    return StoreLostError(f"{place} cannot be read now ({error}); try again")
