"""docs/s3-compatibility.md is what the source says now, and the tool that writes it leaves no parameter out in silence."""
import pytest

from tools import compatibility


def test_the_page_is_current():
    assert compatibility.PAGE.read_text() == compatibility.page(), "run `make docs`"


def test_the_tables_were_read():
    assert {"PutObject", "GetBucketAcl", "ListObjectsV2"} <= compatibility.routed()
    assert {"CreateUser", "GetCallerIdentity", "ListAccessKeys"} <= compatibility.actions()
    assert "x-amz-server-side-encryption" in compatibility.refused_prefixes()


def test_every_operation_is_on_the_page():
    page = compatibility.page()
    for service in compatibility.MODELS:
        for name in compatibility.model(service)["operations"]:
            assert name in page, name


def test_a_parameter_that_nobody_decided_about():
    fates = compatibility.Fates()
    assert fates.of("PutObject", "x-amz-server-side-encryption-context") == (compatibility.REFUSED, compatibility.NOT_IMPLEMENTED)
    assert fates.of("GetObject", "Range") == (compatibility.YES, "")
    with pytest.raises(SystemExit, match="x-amz-new-thing"):
        fates.of("PutObject", "x-amz-new-thing")
