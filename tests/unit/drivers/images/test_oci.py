"""Images of container registries: references, choice of a manifest, secrets, and refusals."""

import hashlib
import json
from urllib.parse import unquote

import pytest

from drivers.agent import image
from drivers.core.errors import BadImage, HardwareError, InvalidDriverInfo, Refused, Unreachable
from drivers.images import cache, instance, registries
from tests.support import registry as support
from tests.support.registry import descriptor, digest, index, manifest
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import OPTIONS, target

DISK = bytes(510) + b"\x55\xaa" + bytes(1 << 18)
OTHER_DISK = DISK + bytes(512)
SECRET, LOGIN = "us3r:pa55", support.basic("us3r", "pa55")
SHA256 = "a" * 64


@pytest.fixture
def registry():
    with support.serving() as registry:
        yield registry


@pytest.fixture
def node(registry, tmp_path):
    """Factory of targets with an image of the registry. changed: group__name=value."""

    def make(version="", changed=None, properties=None, source=None, **info):
        options = {group: dict(values) for group, values in OPTIONS.items()}
        options["oci"]["permit_fallback_to_http_transport"] = True
        options["deploy"] |= {"http_url": "http://conductor", "http_root": str(tmp_path / "root")}
        options["pxe"] |= {"instance_master_path": str(tmp_path / "masters")}
        options["conductor"] |= {"fetch_min_free_space": 0}
        for name, value in (changed or {}).items():
            group, _, key = name.partition("__")
            options[group][key] = value
        source = source or f"oci://{registry.host}/library/disks{version}"
        return target(
            interfaces={"deploy": "direct"},
            instance_info={"image_source": source, **info},
            properties=properties or {},
            options=options,
        )

    return make


def prepared(node):
    """Return the facts that the step `prepare` records, and the agent's parameters after it."""
    image.validate(node)
    facts = image.facts(node)
    examination = image.examine(image.described(node, facts))
    recorded = {image.FACTS: facts, image.EXAMINED: examination}
    prepared_node = target(
        instance_info=node.instance_info, options=node.options, driver_internal_info=recorded
    )
    return facts, image.image_info(prepared_node)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("oci://h/a", ("h", "a", "latest")),
        ("oci://h:5000/a/b-c/d__e:v1.2", ("h:5000", "a/b-c/d__e", "v1.2")),
        (f"oci://h/a@sha256:{SHA256}", ("h", "a", f"sha256:{SHA256}")),
        (f"oci://h/a:tag@sha256:{SHA256}", ("h", "a", f"sha256:{SHA256}")),
        ("oci://[::1]:5000/a", ("[::1]:5000", "a", "latest")),
    ],
)
def test_references_are_parsed(reference, parts):
    parsed = registries.parsed(reference, "image_source")
    assert parts == (parsed.host, parsed.name, parsed.version)


@pytest.mark.parametrize(
    "reference",
    [
        "oci://", "oci://h", "oci://h/", "oci://h/A", "oci://h/../a", "oci://h/a//b", "oci://h/a:",
        "oci://user:pass@h/a", "oci://h/a@sha256:abc", "oci://h/a?x", "oci://h/a#x", "oci://h/a b",
        "oci://h:x/a", f"oci://h/a@sha512:{SHA256}", "oci:h/a", "OCI://h/a", "oci://h/a\n",
    ],
)  # fmt: skip
def test_malformed_references_are_refused(node, reference):
    with pytest.raises(InvalidDriverInfo, match=r"instance_info/image_source: .*oci://HOST"):
        image.validate(node(source=reference))


@pytest.mark.parametrize("version", ["", ":latest", "@{digest}", ":old@{digest}"])
def test_the_agent_gets_the_conductors_copy_and_the_digest(registry, node, tmp_path, version):
    text = registry.push(DISK)
    _, info = prepared(node(version.format(digest=digest(text))))
    (url,) = info["urls"]
    served = tmp_path / "root" / unquote(url.removeprefix("http://conductor/"))
    assert DISK == served.read_bytes()
    assert ("sha256", hashlib.sha256(DISK).hexdigest()) == (
        info["os_hash_algo"], info["os_hash_value"],
    )  # fmt: skip
    assert registry.host not in json.dumps(info["urls"])


def descriptors(*rows):
    """Return an index; rows: architecture, disk type, content."""
    return index(
        *(
            descriptor(
                manifest(content), support.MANIFEST,
                **({"platform": {"os": "linux", "architecture": architecture}} if architecture else {}),
                **({"annotations": {"disktype": disk_type}} if disk_type else {}),
            )
            for architecture, disk_type, content in rows
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "properties", "info"),
    [
        ([("amd64", None, DISK), ("arm64", None, OTHER_DISK)], {"cpu_arch": "x86_64"}, {}),
        ([("x86_64", None, DISK), ("aarch64", None, OTHER_DISK)], {"cpu_arch": "x86_64"}, {}),
        ([("arm64", "raw", DISK), ("arm64", "qcow2", OTHER_DISK)], {"cpu_arch": "aarch64"}, {}),
        ([(None, "applehv", DISK), (None, "hyperv", OTHER_DISK)], {}, {}),
        ([(None, "qcow2", OTHER_DISK), (None, "raw", DISK)], {}, {"image_disk_format": "raw"}),
        ([(None, None, DISK), ("unknown", None, OTHER_DISK)], {}, {}),
    ],
)
def test_an_index_leads_to_the_image_that_fits(registry, node, rows, properties, info):
    for content in (DISK, OTHER_DISK):
        registry.push(content, tag=digest(content))
    registry.documents["latest"] = descriptors(*rows)
    facts = image.facts(node(properties=properties, **info))
    assert hashlib.sha256(DISK).hexdigest() == facts["image_os_hash_value"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("arm64", None, DISK)], "no image for x86_64"),
        ([], "no image for x86_64"),
        ([("amd64", None, DISK), ("amd64", None, OTHER_DISK)], "2 images that fit.*sha256:"),
    ],
)
def test_an_index_that_leads_to_no_image_or_several_is_refused(registry, node, rows, reason):
    registry.documents["latest"] = descriptors(*rows)
    with pytest.raises(BadImage, match=reason):
        image.facts(node(properties={"cpu_arch": "x86_64"}))


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        (manifest(DISK, DISK), BadImage, "2 layers"),
        (manifest(), BadImage, "0 layers"),
        (manifest(DISK, layers=[{"digest": "md5:1", "size": 3}]), BadImage, "no SHA-256 digest"),
        (manifest(DISK, layers=[{"digest": f"sha256:{SHA256}"}]), BadImage, "no size"),
        (manifest(DISK, layers=None), BadImage, "no layers"),
        (manifest(DISK, mediaType="text/html"), BadImage, "not the manifest"),
        (b"[]", HardwareError, "not a JSON object"),
        (b"<html>", HardwareError, "did not send a JSON document"),
        (index("x", 3), BadImage, "no image for this machine"),
        (b"{" * 300_000, HardwareError, "more than 200000 values"),
    ],
)
def test_what_is_no_disk_is_refused(registry, node, text, error, reason):
    registry.documents["latest"] = text
    with pytest.raises(error, match=reason):
        image.facts(node())


def test_a_manifest_with_another_digest_is_refused(registry, node):
    registry.push(DISK)
    registry.documents[f"sha256:{SHA256}"] = manifest(DISK)
    with pytest.raises(BadImage, match="another manifest than"):
        image.facts(node(f"@sha256:{SHA256}"))


def test_content_with_another_digest_is_refused(registry, node):
    registry.push(DISK)
    registry.blobs[digest(DISK)] = DISK[:-1] + b"x"
    with pytest.raises(BadImage, match="another content than its digest"):
        prepared(node())


@pytest.mark.parametrize("content", [DISK + b"x", DISK[:-512]])
def test_content_of_another_size_is_refused(registry, node, content):
    registry.push(DISK)
    registry.blobs[digest(DISK)] = content
    with pytest.raises(BadImage, match="bytes by its manifest, but the registry sends"):
        prepared(node())


@pytest.mark.parametrize("secret", [SECRET, LOGIN.removeprefix("Basic ")])
@pytest.mark.parametrize("by_token", [False, True], ids=["basic", "bearer"])
def test_a_secret_is_used_and_goes_to_no_other_server(registry, node, secret, by_token):
    received = []

    class Storage(Handler):
        def do_GET(self):
            received.append(self.headers.get("Authorization"))
            self.answer(200, DISK)

    registry.push(DISK)
    realm = f'Bearer realm="{registry.url}/token",service="registry"'
    registry.challenge = realm if by_token else 'Basic realm="registry"'
    registry.accepted = "Bearer t0k3n" if by_token else LOGIN
    with serving(Storage) as storage:
        registry.redirect = storage.url
        facts, info = prepared(node(image_pull_secret=secret))
    assert {None} == set(received)
    tokens = [(path, login) for path, login in registry.request_log if path.startswith("/token")]
    assert by_token == bool(tokens)
    for path, login in tokens:
        assert LOGIN == login
        assert ["repository:library/disks:pull"] == support.token_scope(path)
    assert "pa55" not in json.dumps([facts, info])


@pytest.mark.parametrize(
    "auths", [{"{host}": {"auth": SECRET}}, {"https://{host}": {"auth": LOGIN[6:]}}]
)
def test_a_secret_of_the_settings_is_sent_to_its_registry(registry, node, tmp_path, auths):
    registry.push(DISK)
    registry.challenge, registry.accepted = "Basic realm=x", LOGIN
    path = tmp_path / "auth.json"
    path.write_text(
        json.dumps({"auths": {key.format(host=registry.host): v for key, v in auths.items()}})
    )
    assert image.facts(node(changed={"oci__authentication_config": str(path)}))
    path.write_text(json.dumps({"auths": {"other:5000": {"auth": SECRET}}}))
    with pytest.raises(Refused):
        image.facts(node(changed={"oci__authentication_config": str(path)}))


def test_the_secret_of_an_image_is_not_sent_for_other_images(registry, node):
    ramdisk = registry.push(b"a ramdisk")
    registry.challenge, registry.accepted = "Basic realm=x", LOGIN
    reference = f"oci://{registry.host}/library/disks@{digest(ramdisk)}"
    booted = node(":disk", image_pull_secret=SECRET, kernel=reference, ramdisk=reference)
    with pytest.raises(Refused):
        cache.get(booted, reference)
    assert {None} == {login for _, login in registry.request_log}


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        ('Bearer realm="ftp://x/token"', "the registry demands"),
        ("Bearer", "the registry demands"),
        ("Negotiate", "the registry demands"),
        ("", "the registry demands"),
        ("Basic realm=x", "answered 401 .* set instance_info/image_pull_secret"),
    ],
)
def test_challenges_that_cannot_be_met_are_told(registry, node, challenge, reason):
    registry.push(DISK)
    registry.challenge, registry.accepted = challenge or " ", "never"
    with pytest.raises(Refused, match=reason):
        image.facts(node(image_pull_secret="us3r:wrong"))


@pytest.mark.parametrize("secret", ["no colon", "bm8gY29sb24="])
def test_a_malformed_secret_is_told_without_it(registry, node, secret):
    registry.push(DISK)
    with pytest.raises(InvalidDriverInfo, match="image_pull_secret is neither") as refused:
        image.facts(node(image_pull_secret=secret))
    assert secret not in str(refused.value)


@pytest.mark.parametrize("text", [None, "", "[]", '{"auths": []}', '{"auths": {"{host}": 3}}'])
def test_a_wrong_file_of_secrets_is_named(registry, node, tmp_path, text):
    path = tmp_path / "auth.json"
    if text is not None:
        path.write_text(text.replace("{host}", registry.host))
    with pytest.raises(InvalidDriverInfo, match=r"\[oci\]authentication_config: .*auth.json is no"):
        image.facts(node(changed={"oci__authentication_config": str(path)}))


@pytest.mark.parametrize(
    ("failures", "error", "reason"),
    [
        ([404], BadImage, "there is no such image"),
        ([403], Refused, "image_pull_secret"),
        ([429], Unreachable, "429"),
        ([503], Unreachable, "503"),
    ],
)
def test_errors_of_the_registry_have_their_kinds(registry, node, failures, error, reason):
    registry.push(DISK)
    registry.failures = failures
    with pytest.raises(error, match=reason):
        image.facts(node())


def test_http_is_used_only_where_settings_permit_it(registry, node):
    registry.push(DISK)
    with pytest.raises(Unreachable, match="cannot be"):
        image.facts(node(changed={"oci__permit_fallback_to_http_transport": False}))
    assert [] == registry.request_log


def test_a_registry_in_a_denied_network_is_refused(registry, node):
    denied = {"conductor__fetch_denied_networks": ("127.0.0.0/8",)}
    with pytest.raises(InvalidDriverInfo, match="fetch_denied_networks"):
        image.validate(node(changed=denied))
    with pytest.raises(InvalidDriverInfo, match="fetch_denied_networks"):
        image.facts(node(changed=denied))
    assert [] == registry.request_log


def test_a_kernel_and_a_ramdisk_come_from_a_registry(registry, node):
    kernel, ramdisk = registry.push(b"a kernel", "kernel"), registry.push(b"a ramdisk", "ramdisk")
    base = f"oci://{registry.host}/library/disks"
    booted = node(kernel=f"{base}:kernel", ramdisk=f"{base}@{digest(ramdisk)}")
    pair = instance.kernel_and_ramdisk(booted)
    assert [b"a kernel", b"a ramdisk"] == [
        cache.get(booted, url).path.read_bytes() for url in (pair.kernel, pair.ramdisk)
    ]
    assert kernel != ramdisk


def test_a_kernel_with_another_digest_is_refused(registry, node):
    registry.push(b"a kernel", "kernel")
    registry.blobs[digest(b"a kernel")] = b"A KERNEL"
    reference = f"oci://{registry.host}/library/disks:kernel"
    with pytest.raises(BadImage, match="another content than its digest"):
        cache.get(node(kernel=reference, ramdisk=reference), reference)
