"""Makes a bundle for an OCI runtime, which runs an image like a container of the DaemonSet.

    python oci.py --image raytrace.oci.tar --manifest daemonset.yaml --container record
        --bundle FOLDER --host /var/lib/raytrace=/tmp/x
        [--without SYS_PTRACE] [--without-mount /sys/fs/cgroup]

Capabilities, mounts, user and arguments come from the manifest. Namespaces, masked paths and
devices are those that containerd sets. The node's name is `node-7`.
"""

import argparse
import json
import os
import subprocess
import tarfile

import yaml

# What containerd masks and makes read-only in each unprivileged container.
MASKED = ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/sys/firmware", "/proc/scsi"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


def unpack(image, root):
    """Unpacks all layers of an image in OCI layout into `root`. Returns its configuration."""
    with tarfile.open(image) as layout:
        read = lambda path: layout.extractfile(f"./{path}").read()  # noqa: E731
        blob = lambda one: f"blobs/sha256/{one['digest'].removeprefix('sha256:')}"  # noqa: E731
        manifest = json.loads(read(blob(json.loads(read("index.json"))["manifests"][0])))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=layout.extractfile("./" + blob(layer))) as files:
                files.extractall(root, filter="fully_trusted")
        return json.loads(read(blob(manifest["config"])))["config"]


def mounts(container, volumes, arguments):
    fixed = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
        {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]},
    ]
    host = dict(one.split("=", 1) for one in arguments.host)
    own = []
    for mount in container.get("volumeMounts", []):
        if mount["mountPath"] in arguments.without_mount:
            continue
        volume = volumes[mount["name"]]
        path = volume.get("hostPath", {}).get("path", mount["mountPath"])
        mode = "ro" if mount.get("readOnly") else "rw"
        own.append({"destination": mount["mountPath"], "type": "bind", "source": host.get(path, path), "options": ["rbind", "rprivate", mode]})
    # A mount of the pod replaces one of the runtime's own.
    taken = {one["destination"] for one in own}
    return [one for one in fixed if one["destination"] not in taken] + own


def calls(names):
    """Returns the system calls that `SystemCallFilter=` allows. systemd resolves the groups."""
    found = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        said = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
        lines = [line.strip() for line in said.splitlines()[1:]]
        found |= calls([line for line in lines if line and not line.startswith("#")])
    return found


def filter_of(unit):
    """Returns the system call filter of a unit, in the format of an OCI runtime."""
    with open(unit) as file:
        words = next(line for line in file if line.startswith("SystemCallFilter=")).strip().split("=", 1)[1].split()
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64" if os.uname().machine == "x86_64" else "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": sorted(calls(words)), "action": "SCMP_ACT_ALLOW"}],
    }


def bundle(arguments):
    root = os.path.join(arguments.bundle, "rootfs")
    os.makedirs(root)
    image = unpack(arguments.image, root)
    with open(arguments.manifest) as file:
        documents = list(yaml.safe_load_all(file))
    pod = documents[0]["spec"]["template"]["spec"]
    container = next(one for one in pod["containers"] if one["name"] == arguments.container)
    volumes = {one["name"]: one for one in pod["volumes"]}
    security = container["securityContext"]
    added = [name for name in security["capabilities"].get("add", []) if name not in arguments.without]
    capabilities = [f"CAP_{name}" for name in added]
    if security["runAsUser"] != 0:
        # A user who is not root gets the capabilities of the program file, which has none.
        capabilities = []
    limit = container["resources"]["limits"]["memory"]
    namespaces = ["mount", "ipc", "uts", "network", "cgroup"] + ([] if pod.get("hostPID") else ["pid"])
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
            "args": image["Entrypoint"] + (arguments.args or [str(one) for one in container["args"]]),
            "env": image["Env"] + [f"{one['name']}=node-7" for one in container.get("env", [])],
            "cwd": image["WorkingDir"],
            "noNewPrivileges": not security["allowPrivilegeEscalation"],
            "capabilities": {name: capabilities for name in ("bounding", "effective", "permitted")},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}],
        },
        "root": {"path": "rootfs", "readonly": security["readOnlyRootFilesystem"]},
        "hostname": "raytrace",
        "mounts": mounts(container, volumes, arguments),
        "linux": {
            "namespaces": [{"type": name} for name in namespaces],
            "cgroupsPath": f"/raytrace-oci-{os.getpid()}",
            "resources": {
                "memory": {"limit": int(limit.removesuffix("Mi")) << 20},
                "devices": [{"allow": False, "access": "rwm"}],
            },
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    }
    if arguments.filter_of:
        config["linux"]["seccomp"] = filter_of(arguments.filter_of)
    with open(os.path.join(arguments.bundle, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--container", required=True)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--host", nargs="*", default=[], help="folders that stand for those of the host")
    parser.add_argument("--without", nargs="*", default=[], help="capabilities that it does not get")
    parser.add_argument("--without-mount", nargs="*", default=[])
    parser.add_argument("--filter-of", help="a unit of systemd's whose filter of system calls holds")
    parser.add_argument("--args", nargs="*", default=None, help="instead of the manifest's")
    bundle(parser.parse_args())


if __name__ == "__main__":
    main()
