"""Buckets of a store whose region has a name: it must be named when one is made, by itself only."""
import pytest

from tests.conftest import Store
from tests.support.boto import boto
from tests.support.daemon import Daemon
from tests.support.s3raw import error_shape

pytestmark = pytest.mark.daemon
DOCUMENT = "<CreateBucketConfiguration><LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>"


@pytest.fixture(scope="module")
def irish():
    with Daemon(drives=1, options=["--region", "eu-west-1"]).start() as daemon:
        raw = Store(daemon.host, daemon.port, daemon.access_key, daemon.secret_key, daemon).raw
        raw.region = "eu-west-1"
        yield raw


@pytest.mark.parametrize("name, body", [("own-name", DOCUMENT.format("eu-west-1")), ("first-name", DOCUMENT.format("EU"))])
def test_its_own_names(irish, name, body):
    assert irish.request("PUT", f"/{name}", body=body.encode()).status == 200
    assert irish.request("GET", f"/{name}", query=[("location", "")]).xml.text == "eu-west-1"
    assert irish.request("HEAD", f"/{name}").headers["x-amz-bucket-region"] == "eu-west-1"
    answer = irish.request("PUT", f"/{name}", body=body.encode())
    assert (answer.status, error_shape(answer)) == (409, "BucketAlreadyOwnedByYou"), answer


@pytest.mark.parametrize("body, said", [("", "unspecified"), (DOCUMENT.format("us-east-1"), "us-east-1"),
                                        ("<CreateBucketConfiguration/>", "unspecified"), (DOCUMENT.format("eu-west-2"), "eu-west-2")])
def test_none_or_another(irish, body, said):
    answer = irish.request("PUT", "/elsewhere", body=body.encode())
    assert (answer.status, error_shape(answer)) == (400, "IllegalLocationConstraintException"), answer
    assert answer.xml.findtext("Message").startswith(f"The {said} location constraint is incompatible"), answer
    assert irish.request("HEAD", "/elsewhere").status == 404


def test_no_name(irish):
    answer = irish.request("PUT", "/elsewhere", body=DOCUMENT.format("").encode())
    assert (answer.status, error_shape(answer)) == (400, "InvalidLocationConstraint"), answer
    assert irish.request("HEAD", "/elsewhere").status == 404


def test_a_request_for_the_wrong_region_is_told_the_right_one(irish):
    answer = irish.request("GET", "/", signer=irish.signer(region="us-east-1"))
    assert (answer.status, answer.code) == (400, "AuthorizationHeaderMalformed") and answer.xml.findtext("Region") == "eu-west-1", answer
    irish.request("PUT", "/other-name", body=DOCUMENT.format("eu-west-1").encode())
    answer = irish.request("HEAD", "/other-name/k", signer=irish.signer(region="us-east-1"))
    assert (answer.status, answer.headers.get("x-amz-bucket-region")) == (400, "eu-west-1"), answer


def test_boto3_finds_the_region_by_itself(irish):
    """A client that was set up for another region signs again for the one that it is told, even by an answer without a document."""
    irish.request("PUT", "/third-name", body=DOCUMENT.format("eu-west-1").encode())
    irish.request("PUT", "/third-name/k", body=b"text")
    s3 = boto("s3", endpoint_url=f"http://{irish.host}:{irish.port}", region_name="us-east-1", aws_access_key_id=irish.access_key,
              aws_secret_access_key=irish.secret_key)
    assert s3.head_object(Bucket="third-name", Key="k")["ContentLength"] == 4
    assert s3.get_object(Bucket="third-name", Key="k")["Body"].read() == b"text"
