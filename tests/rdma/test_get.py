"""GETs into windows, on real verbs, by the client that was written from the page."""
import pytest

from .conftest import SIZES

SCHEMES = ("window2", "window1", "region")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SIZES)
def test_whole(site, scheme, name):
    data = site.objects[f"/samples/{name}"]
    with site.session(rights=[scheme]) as session:
        assert session.rights == scheme
        got = session.get(f"/samples/{name}", len(data) + 4096)
        assert (got.status, got.transport) == (200, "rdma") and got.data == data
