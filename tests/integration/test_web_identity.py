"""AssumeRoleWithWebIdentity: an issuer of OpenID Connect on this machine, whose tokens assume roles without a signature."""
import base64
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import botocore
import pytest

from tests.integration.test_sts import ACCOUNT, World, arn, client_of, document, fails, post, statement, trust
from tests.integration.test_switches import cli
from tests.support.boto import boto
from tests.support.daemon import REGION, Daemon


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Issuer:
    """Serves a discovery document and keys, and makes tokens; behaviour can be changed while it runs."""

    def __init__(self, folder):
        self.pem = folder / "key.pem"
        assert not self.pem.exists()  # an issuer has a folder of its own: it signs with the key that it publishes
        subprocess.run(["openssl", "genrsa", "-out", self.pem, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.pem, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
        self.keys = {"keys": [{"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": b64(bytes.fromhex(modulus.split("=")[1].strip())), "e": "AQAB"}]}
        self.asked = []
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked.append(self.path)
                status, body = issuer.answer(self.path)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", body)
                    body = ""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/realm"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path):
        if path == "/realm/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": self.url + "/keys"})
        base, _, rest = path[1:].partition("/")
        if rest == "keys" and base == "realm":
            return 200, json.dumps(self.keys)
        wrong = f"http://127.0.0.1:{self.server.server_port}/{base}"
        document = {"redirect": (302, self.url + "/.well-known/openid-configuration"), "liar": (200, {"issuer": self.url, "jwks_uri": self.url + "/keys"}),
                    "elsewhere": (200, {"issuer": wrong, "jwks_uri": "https://127.0.0.1/keys"}), "huge": (200, {"issuer": wrong, "a": "x" * 300_000})}
        status, body = document.get(base, (404, ""))
        return status, body if isinstance(body, str) else json.dumps(body)

    def token(self, header=None, **claims):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "repo:team/a", "aud": "store", "iat": now, "exp": now + 600, **claims}
        text = b64({"alg": "RS256", "kid": "one", **(header or {})}) + "." + b64({k: v for k, v in claims.items() if v is not None})
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.pem], input=text.encode(), check=True, capture_output=True).stdout
        return text + "." + b64(signature)

    @property
    def name(self):
        return self.url.partition("://")[2]

    @property
    def arn(self):
        return f"arn:aws:iam::{ACCOUNT}:oidc-provider/{self.name}"


WRONG = ("redirect", "liar", "elsewhere", "huge", "absent")


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def world(issuer, tmp_path_factory):
    options = [f"--oidc-issuer={issuer.url.replace('/realm', '/' + wrong)}" for wrong in WRONG]
    with Daemon(drives=1, options=["--oidc-issuer", issuer.url, "--oidc-issuer", issuer.url.replace("http:", "https:"), "--oidc-audience", "store", *options]).start() as running:
        client_of(running, "iam").list_users()
        made = World(running)
        who = trust({"Federated": issuer.arn}, "sts:AssumeRoleWithWebIdentity",
                    Condition={"StringLike": {f"{issuer.name}:sub": "repo:team/*"}, "StringEquals": {f"{issuer.name}:aud": "store"}})
        made.role("ci", statement(action="s3:*"), who=who)
        yield made


def web(world, token, role="ci", **more):
    sts = boto("sts", endpoint_url=world.daemon.endpoint, region_name=REGION,
                         config=botocore.config.Config(signature_version=botocore.UNSIGNED, retries={"total_max_attempts": 1}))
    return sts.assume_role_with_web_identity(RoleArn=arn(role), RoleSessionName="ci-1", WebIdentityToken=token, **more)


def test_a_web_identity_assumes_a_role(world, issuer):
    before = len([path for path in issuer.asked if path == "/realm/keys"])
    answer = web(world, issuer.token(), DurationSeconds=900)
    assert answer["SubjectFromWebIdentityToken"] == "repo:team/a" and answer["Audience"] == "store" and answer["Provider"] == issuer.arn
    s3 = world.client(answer["Credentials"])
    assert s3.get_object(Bucket="data", Key="a")["Body"].read() == b"hello"
    limited = world.client(web(world, issuer.token(), Policy=document(statement(action="s3:GetObject")))["Credentials"])
    fails(lambda: limited.put_object(Bucket="data", Key="b", Body=b""), 403, "AccessDenied")
    assert len([path for path in issuer.asked if path == "/realm/keys"]) <= before + 1  # asked once for all of them


def test_other_subjects_and_roles_are_denied(world, issuer):
    fails(lambda: web(world, issuer.token(sub="repo:other/a")), 403, "AccessDenied")
    fails(lambda: web(world, issuer.token(), role="reader"), 403, "AccessDenied")
    fails(lambda: web(world, issuer.token(), role="nobody"), 403, "AccessDenied")
    fails(lambda: client_of(world.daemon, "sts", world.alice).assume_role(RoleArn=arn("ci"), RoleSessionName="no"), 403, "AccessDenied")


def test_wrong_tokens(world, issuer):
    now, good = int(time.time()), issuer.token()
    header, claims, signature = good.split(".")
    for token in (issuer.token(aud="other"), issuer.token(sub=None), issuer.token(iss="https://evil.example.com"), issuer.token(nbf=now + 3600),
                  issuer.token(iss=issuer.url + "/"), f"{header}.{claims}", f"{b64({'alg': 'none', 'kid': 'one'})}.{claims}.AAAA", issuer.token({"alg": "HS256"}),
                  issuer.token({"kid": "two"}), f"{header}.{b64({'sub': 'repo:team/admin'})}.{signature}", "xxxx", good[:-4]):
        fails(lambda: web(world, token), 400, "InvalidIdentityToken")
    fails(lambda: web(world, issuer.token(exp=now - 1)), 400, "ExpiredTokenException")


def test_an_unknown_key_asks_no_more_than_now_and_then(world, issuer):
    fails(lambda: web(world, issuer.token({"kid": "new"})), 400, "InvalidIdentityToken")  # asked, where that was long ago
    before = len(issuer.asked)
    for number in range(5):
        fails(lambda: web(world, issuer.token({"kid": f"new-{number}"})), 400, "InvalidIdentityToken")
    assert len(issuer.asked) == before


@pytest.mark.parametrize("wrong", WRONG)
def test_issuers_that_cannot_be_believed(world, issuer, wrong):
    fails(lambda: web(world, issuer.token(iss=issuer.url.replace("/realm", "/" + wrong))), 400, "IDPCommunicationError")


def test_nothing_else_goes_without_a_signature(world):
    for action, code in (("GetCallerIdentity", "MissingAuthenticationToken"), ("AssumeRole", "MissingAuthenticationToken"), ("ListUsers", "MissingAuthenticationToken")):
        body = urllib.parse.urlencode({"Action": action, "Version": "2011-06-15"}).encode()
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(world.daemon.endpoint + "/", data=body)
        assert f"<Code>{code}</Code>" in error.value.read().decode()


def test_tools_take_the_token_from_a_file(world, issuer, tmp_path):
    """As SDKs do in a cluster: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are all that there is."""
    (tmp_path / "token").write_text(issuer.token())
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": arn("ci"), "AWS_ENDPOINT_URL": world.daemon.endpoint,
                   "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:1,{world.daemon.endpoint}", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION, "HOME": str(tmp_path)}
    build = os.environ.get("MILLRACE_BUILD", "build/release")
    done = subprocess.run([f"{build}/millrace", "cat", "--endpoint", world.daemon.endpoint, "s3://data/a"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "hello"), done.stderr


# ---- providers as entities of IAM ------------------------------------------------------------------

THUMBPRINT = "6938FD4D98BAB03FAADB97B34396831E3780AEA1"


def test_providers_are_kept(world):
    iam, url = world.iam, "https://Id.example.org/Team"
    made = iam.create_open_id_connect_provider(Url=url, ClientIDList=["b", "a", "b"], ThumbprintList=[THUMBPRINT], Tags=[{"Key": "k", "Value": "1"}, {"Key": "K", "Value": "2"}])
    name = made["OpenIDConnectProviderArn"]
    assert name == f"arn:aws:iam::{ACCOUNT}:oidc-provider/Id.example.org/Team" and len(made["Tags"]) == 2
    fails(lambda: iam.create_open_id_connect_provider(Url=url), 409, "EntityAlreadyExists")
    other = iam.create_open_id_connect_provider(Url=url + "/")["OpenIDConnectProviderArn"]
    assert {each["Arn"] for each in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]} == {name, other}
    assert iam.get_account_summary()["SummaryMap"]["Providers"] == 2
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=other)
    fails(lambda: iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=other), 404, "NoSuchEntity")
    iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="c")
    iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="b")
    iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="A")
    iam.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=name, ThumbprintList=["B" * 40, "c" * 40])
    iam.tag_open_id_connect_provider(OpenIDConnectProviderArn=name, Tags=[{"Key": "k", "Value": "3"}])
    iam.untag_open_id_connect_provider(OpenIDConnectProviderArn=name, TagKeys=["K"])
    shown = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=name)
    assert (shown["Url"], shown["ClientIDList"], shown["ThumbprintList"]) == ("Id.example.org/Team", ["a", "c"], ["b" * 40, "c" * 40])
    assert shown["Tags"] == [{"Key": "k", "Value": "3"}] == iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=name)["Tags"]
    for where, status, code in ((name.lower(), 404, "NoSuchEntity"), (name.replace(ACCOUNT, "123456789012"), 403, "AccessDenied"),
                                (f"arn:aws:iam::{ACCOUNT}:role/reader", 400, "ValidationError"), ("arn:aws:iam::aws:oidc", 400, "ValidationError")):
        fails(lambda: iam.get_open_id_connect_provider(OpenIDConnectProviderArn=where), status, code)
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=name)


def test_wrong_providers_are_refused(world):
    iam = boto("iam", endpoint_url=world.daemon.endpoint, region_name=REGION, config=botocore.config.Config(parameter_validation=False),
                         aws_access_key_id=world.daemon.access_key, aws_secret_access_key=world.daemon.secret_key)
    for url, code in (("example.com", "ValidationError"), ("http://example.com", "InvalidInput"), ("https://a:b@example.com", "InvalidInput"), ("https://example.com?a=b", "InvalidInput"),
                      ("https://example.com:8443", "InvalidInput"), ("https://", "ValidationError"), ("https://a_b.com", "InvalidInput"), ("https://" + "a" * 248, "ValidationError")):
        fails(lambda: iam.create_open_id_connect_provider(Url=url), 400, code)
    good = {"Url": "https://example.com"}
    fails(lambda: iam.create_open_id_connect_provider(**good, ClientIDList=[f"c{n}" for n in range(101)]), 409, "LimitExceeded")
    fails(lambda: iam.create_open_id_connect_provider(**good, ClientIDList=["c" * 256]), 400, "ValidationError")
    fails(lambda: iam.create_open_id_connect_provider(**good, ThumbprintList=["a" * 39]), 400, "InvalidInput")
    fails(lambda: iam.create_open_id_connect_provider(**good, ThumbprintList=[str(n) * 40 for n in range(6)]), 400, "InvalidInput")
    assert iam.list_open_id_connect_providers()["OpenIDConnectProviderList"] == []
    name = iam.create_open_id_connect_provider(**good, ClientIDList=[f"c{n}" for n in range(100)], ThumbprintList=[str(n) * 40 for n in range(5)])["OpenIDConnectProviderArn"]
    fails(lambda: iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="more"), 409, "LimitExceeded")
    fails(lambda: iam.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=name, ThumbprintList=[]), 400, "InvalidInput")
    assert iam.get_open_id_connect_provider(OpenIDConnectProviderArn=name)["ClientIDList"] == [f"c{n}" for n in range(100)]
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=name)


def test_clients_of_a_provider_count(world, issuer):
    """Its own provider takes the place of the settings', and what it says counts at once."""
    name = world.iam.create_open_id_connect_provider(Url=issuer.url)["OpenIDConnectProviderArn"]
    assert name == issuer.arn
    fails(lambda: web(world, issuer.token()), 400, "InvalidIdentityToken")
    world.iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="store")
    assert web(world, issuer.token())["Provider"] == name
    world.iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=name, ClientID="store")
    fails(lambda: web(world, issuer.token()), 400, "InvalidIdentityToken")
    world.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=name)
    web(world, issuer.token())
    assert world.iam.create_open_id_connect_provider(Url=issuer.url.replace("http:", "https:"), ClientIDList=["store"])["OpenIDConnectProviderArn"] == name
    fails(lambda: web(world, issuer.token()), 400, "InvalidIdentityToken")  # the ARN means the other one now
    world.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=name)


def test_nobody_is_asked_whom_the_operator_has_not_named(world, issuer, tmp_path):
    """A second server on this machine, which would answer: it is not asked."""
    asked = Issuer(tmp_path)
    for url in ("https://" + asked.name.partition(":")[0], "https://169.254.169.254"):
        name = world.iam.create_open_id_connect_provider(Url=url, ClientIDList=["store"])["OpenIDConnectProviderArn"]
        error = fails(lambda: web(world, issuer.token(iss=url)), 400, "IDPCommunicationError")
        assert "oidc_issuer" in error["Error"]["Message"]
        world.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=name)
        fails(lambda: web(world, issuer.token(iss=url)), 400, "InvalidIdentityToken")
    fails(lambda: world.iam.create_open_id_connect_provider(Url=asked.url), 400, "InvalidInput")
    fails(lambda: web(world, asked.token()), 400, "InvalidIdentityToken")
    assert asked.asked == []


def test_each_account_has_its_own_providers(world, issuer):
    made = dict(line.split("\t") for line in cli(world.daemon, "admin", "account", "create", "other").splitlines())
    iam = client_of(world.daemon, "iam", {"AccessKeyId": made["AccessKeyId"], "SecretAccessKey": made["SecretAccessKey"]})
    role = f"arn:aws:iam::{made['Account']}:role/job"
    theirs = issuer.arn.replace(ACCOUNT, made["Account"])
    iam.create_role(RoleName="job", AssumeRolePolicyDocument=trust({"Federated": [theirs, issuer.arn]}, "sts:AssumeRoleWithWebIdentity"))
    sts = boto("sts", endpoint_url=world.daemon.endpoint, region_name=REGION, config=botocore.config.Config(signature_version=botocore.UNSIGNED))
    ask = lambda **claims: sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="job-1", WebIdentityToken=issuer.token(**claims))  # noqa: E731
    fails(ask, 400, "InvalidIdentityToken")  # the settings' is the first account's
    iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=["theirs"])
    fails(ask, 400, "InvalidIdentityToken")  # and so are its audiences
    assert ask(aud="theirs")["Provider"] == theirs
    fails(lambda: web(world, issuer.token(aud="theirs")), 400, "InvalidIdentityToken")
    fails(lambda: iam.get_open_id_connect_provider(OpenIDConnectProviderArn=issuer.arn), 403, "AccessDenied")
