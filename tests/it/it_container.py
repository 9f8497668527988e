#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Containerfile and etc/kubernetes/mayfly.yaml are consistent with the programs and each other. With
MAYFLY_CONTAINER=yes, as root, where buildah works: the image is built on a debootstrap root, and serves with a
read-only root file system. That takes minutes, and Debian's packages."""
import json
import os
import re
import shutil
import subprocess
import tempfile

import mayfly
from mayfly import Inapplicable, Skip

mayfly.use_python_of_debian()

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CTL = os.path.join(mayfly.BUILD, "ctl", "mayflyctl")


def read(*path):
    return mayfly.read(os.path.join(TREE, *path))


def instructions():
    """Of the last stage: each instruction with what follows it."""
    last = read("Containerfile").split("\nFROM ")[-1].replace("\\\n", "")
    return dict(re.findall(r"^([A-Z]+) (.*)$", last, re.M))


def settings(args):
    """The options that mayflyd parses from these arguments, by name."""
    done = subprocess.run([mayfly.PROGRAM, *args, "--print-config"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    assert done.returncode == 0, done
    return dict(re.findall(r"^([a-z0-9-]+) = ([^ \n]*)", done.stdout.decode(), re.M))


def check_command_of_ctl(words):
    """Does mayflyctl know the command? It must not find a server."""
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        done = subprocess.run([CTL, *words, "-s", os.path.join(folder, "none")], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 3, done


def test_the_recipe():
    text = read("Containerfile")
    # Images come from where the builder's machine says: no host is named.
    assert re.findall(r"^ARG (.*)$", text, re.M) == ["BASE=debian:12-slim"]
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${BASE}"}
    last = instructions()
    user = re.fullmatch(r"(\d+):(\d+)", last["USER"])
    assert user and user.group(1) != "0", "a number, so that a cluster sees that it is not root"
    assert json.loads(last["ENTRYPOINT"]) == ["/usr/local/bin/mayflyd"]
    shown = settings(json.loads(last["CMD"]))
    assert shown["listen"] == "0.0.0.0" and shown["port"] == last["EXPOSE"]
    health = json.loads(last["HEALTHCHECK"].split("CMD ")[1])
    assert health[0] == "/usr/local/bin/mayflyctl" and health[-1] == "ping"
    check_command_of_ctl([health[-1]])


# ---- Kubernetes ----------------------------------------------------------------------------------

def manifest():
    try:
        import yaml
    except ImportError:
        raise Skip("python3-yaml is not installed") from None
    documents = list(yaml.safe_load_all(read("etc", "kubernetes", "mayfly.yaml")))
    return {d["kind"]: d for d in documents}


def test_the_example_for_kubernetes():
    all_of = manifest()
    assert set(all_of) == {"Service", "PodDisruptionBudget", "StatefulSet"}
    spec = all_of["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    (c,) = pod["containers"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == all_of["Service"]["spec"]["selector"]
    assert all_of["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert spec["serviceName"] == all_of["Service"]["metadata"]["name"]
    # The options, and the ports that they open.
    shown = settings(c["args"])
    ports = {p["name"]: p["containerPort"] for p in c["ports"]}
    assert str(ports["memcached"]) == shown["port"]
    assert shown["metrics"] == "0.0.0.0:%d" % ports["metrics"]
    assert all_of["Service"]["spec"]["ports"][0]["port"] == ports["memcached"]
    manual = read("man", "mayflyd.8.in")
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert c[probe]["httpGet"] == {"path": path, "port": "metrics"}
        assert ".It Pa %s\n" % path in manual
    assert c["resources"]["limits"]["memory"] == "1Gi" and int(shown["memory-limit"]) <= 768
    # What it may write is the folder of the control socket.
    mounts = [m["mountPath"] for m in c["volumeMounts"]]
    assert os.path.dirname(shown["control"]) in mounts
    limits = c["securityContext"]
    assert limits["readOnlyRootFilesystem"] and not limits["allowPrivilegeEscalation"]
    assert limits["capabilities"] == {"drop": ["ALL"]}
    user, group = instructions()["USER"].split(":")
    assert pod["securityContext"]["runAsNonRoot"]
    assert (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"])) == (user, group)
    # The end: it has time for what it waits for.
    stop = c["lifecycle"]["preStop"]["exec"]["command"][-1]
    waits = sum(int(n) for n in re.findall(r"sleep (\d+)", stop))
    assert waits + 10 <= pod["terminationGracePeriodSeconds"]
    check_command_of_ctl(re.search(r"mayflyctl ([^;]*);", stop).group(1).split())


def check_model(models, what, name, path):
    """Each field is one that the model has, with a value of its type."""
    if name in ("str", "int", "bool", "float"):
        kinds = {"str": str, "int": int, "bool": bool, "float": (int, float)}
        assert isinstance(what, kinds[name]), (path, what)
    elif name.startswith("list["):
        assert isinstance(what, list), (path, what)
        for i, one in enumerate(what):
            check_model(models, one, name[5:-1], "%s[%d]" % (path, i))
    elif name.startswith("dict("):
        for key, one in what.items():
            check_model(models, one, name[5:-1].split(", ")[1], path + "." + key)
    elif name != "object":
        model = getattr(models, name)
        fields = {wire: model.openapi_types[field] for field, wire in model.attribute_map.items()}
        assert isinstance(what, dict), (path, what)
        for key, one in what.items():
            assert key in fields, "%s.%s is no field of %s" % (path, key, name)
            check_model(models, one, fields[key], path + "." + key)


def test_the_example_fits_the_schema():
    """That of Kubernetes' client for Python."""
    try:
        from kubernetes.client import ApiClient, models
    except ImportError:
        raise Inapplicable("python3-kubernetes is not installed") from None
    for kind, document in manifest().items():
        check_model(models, document, "V1" + kind, kind)

        class Response:
            data = json.dumps(document)
        # Fields that must be there, and values that must be one of a few.
        ApiClient().deserialize(Response, "V1" + kind)


# ---- built and run -------------------------------------------------------------------------------

SERVE = """
set -e
mount --bind -o ro "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
: >"$root/dev/null"
mount --bind /dev/null "$root/dev/null"
ip link set lo up
run() { chroot --userspec="$user" "$root" "$@"; }
chroot --userspec="$user" "$root" $entry &
pid=$!
tries=0
until run $health; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || exit 1
    sleep 0.2
done
run /bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/11211
    printf "set a 0 0 1\\r\\nx\\r\\nget a\\r\\nquit\\r\\n" >&3; cat <&3'
run /bin/sh -c 'touch /file 2>/dev/null' && exit 2
kill -TERM $pid
wait $pid
echo "ended with $?"
"""


def run(*command, **kw):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **kw)
    assert done.returncode == 0, (command, done.stdout.decode(errors="replace")[-3000:])
    return done.stdout.decode(errors="replace").strip()


class Images:
    """A storage of images for this test alone, and copies of the tree and of a Debian."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="mayfly-image.")
        return self

    def buildah(self, *words):
        return run("buildah", "--root", os.path.join(self.folder, "images"), "--runroot",
                   os.path.join(self.folder, "run"), "--storage-driver", "vfs", *words)

    def make_base(self):
        root = os.path.join(self.folder, "base")
        run("debootstrap", "--variant=minbase", *os.environ.get("MAYFLY_DEBOOTSTRAP", "bookworm").split()[:1], root,
            *os.environ.get("MAYFLY_DEBOOTSTRAP", "").split()[1:])
        container = self.buildah("from", "scratch")
        self.buildah("copy", "-q", container, root, "/")
        self.buildah("commit", "-q", container, "base")
        self.buildah("rm", container)

    def copy_tree(self):
        self.tree = os.path.join(self.folder, "tree")
        shutil.copytree(TREE, self.tree, symlinks=True, ignore=shutil.ignore_patterns(".git", "build", "*.o", "*.log"))

    def __exit__(self, *_):
        subprocess.run(["buildah", "--root", os.path.join(self.folder, "images"), "--runroot",
                        os.path.join(self.folder, "run"), "--storage-driver", "vfs", "rm", "-a"],
                       stdout=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def test_it_is_built_and_serves():
    mayfly.skip_if(os.environ.get("MAYFLY_CONTAINER") != "yes", "takes minutes; MAYFLY_CONTAINER=yes runs it")
    mayfly.skip_if(os.geteuid() != 0, "not root")
    for program in ("buildah", "debootstrap", "unshare", "ip"):
        mayfly.skip_if(shutil.which(program) is None, program + " is not installed")
    with Images() as images:
        images.make_base()
        images.copy_tree()
        images.buildah("bud", "--isolation", "chroot", "--format", "docker", "--build-arg", "BASE=localhost/base",
                       "-f", os.path.join(images.tree, "Containerfile"), "-t", "mayfly", images.tree)
        container = images.buildah("from", "--pull-never", "localhost/mayfly")
        about = json.loads(images.buildah("inspect", "--type", "container", container))["Docker"]["config"]
        root = images.buildah("mount", container)
        said = run("unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", SERVE, env={
            **os.environ, "root": root, "user": about["User"], "entry": " ".join(about["Entrypoint"] + about["Cmd"]),
            "health": " ".join(about["Healthcheck"]["Test"][1:])})
        assert "STORED\r\nVALUE a 0 1\r\nx\r\nEND" in said and "ended with 0" in said, said


mayfly.main(globals())
