"""HTTP clients of the judge share one set of certificates, as those of the servers do."""

from tests.servers.conftest import _certificates_are_read_once  # noqa: F401
