"""Boots Debian with systemd and the deb package in QEMU, and stages kills.

    python boot.py --deb FILE --kernel VMLINUZ --folder FOLDER [--each UNIT]

It kills children of a raylet, and the recorder. It prints one JSON object: the reports of all
recordings, and what systemd says about the raytrace unit. Without KVM this takes some minutes.

With `--each`, it runs the recorder once for each directive of that unit, with only this directive
set, and stages a kill each time. It prints for each directive the certainty of the verdict, or what
went wrong.
"""

import argparse
import base64
import gzip
import json
import os
import re
import shutil
import subprocess

# Runs in the virtual machine after boot. Its output goes to the second serial port.
STAGE = r"""#!/bin/sh
exec >/dev/ttyS1 2>&1
say() { echo "=== $1"; }
main() { systemctl show --property MainPID --value raytrace; }
wait_for() { for _ in $(seq 600); do if eval "$1"; then return 0; fi; sleep 0.5; done; say "failed $1"; }
wait_for 'systemctl is-active --quiet raytrace'
ln -s /bin/bash /run/raylet
mkdir -p /tmp/ray/session_x/logs
cat >/run/fake.sh <<'END'
for label in one two; do
    while [ ! -e /run/$label ]; do sleep 0.2; done
    bash -c 'sleep 3; kill -9 $$'
    touch /run/$label.done
done
sleep infinity
END
/run/raylet /run/fake.sh --raylet_socket_name=/tmp/ray/session_x/sockets/raylet --session-dir=/tmp/ray/session_x >/dev/null 2>&1 &
sleep 5
touch /run/one; wait_for '[ -e /run/one.done ]'; sleep 3
before=$(main)
say before; echo "$before"
say score; cat /proc/$before/oom_score_adj
kill -9 "$before"
wait_for '[ "$(main)" != "$before" ] && [ "$(main)" != 0 ] && systemctl is-active --quiet raytrace'
sleep 5
touch /run/two; wait_for '[ -e /run/two.done ]'; sleep 3
say show; systemctl show raytrace --property NRestarts,ActiveState,Type,WatchdogUSec,StatusErrno,NotifyAccess
say publish; systemctl start raytrace-publish; sleep 8; systemctl is-active raytrace-publish; cat /var/log/raytrace/deaths.jsonl | gzip | base64 -w0; echo
systemctl stop raytrace
say stopped; systemctl show raytrace --property Result,ExecMainStatus,ActiveState
say files; ls -ln /var/lib/raytrace
for file in /var/lib/raytrace/*.raytrace; do say report; raytrace report "$file" --format json | gzip | base64 -w0; echo; done
say journal; journalctl --unit raytrace --no-pager --output cat | tail -n 40
say end
systemctl poweroff --force --force
"""
# Runs instead of STAGE with `--each`: starts one unit after the other.
EACH = r"""#!/bin/sh
exec >/dev/ttyS1 2>&1
wait_for() { for _ in $(seq 240); do if eval "$1"; then return 0; fi; sleep 0.5; done; return 1; }
ln -s /bin/bash /run/raylet
mkdir -p /tmp/ray/session_x/logs
echo 'while :; do if [ -e /run/go ]; then rm /run/go; bash -c "sleep 2; kill -9 \$\$"; touch /run/done; fi; sleep 0.2; done' >/run/fake.sh
/run/raylet /run/fake.sh --raylet_socket_name=/tmp/ray/session_x/sockets/raylet --session-dir=/tmp/ray/session_x >/dev/null 2>&1 &
for unit in /etc/systemd/system/each-*.service; do
    unit=$(basename $unit .service)
    echo "=== $unit"
    rm -rf /var/lib/each /run/done
    systemctl start $unit || { echo failed; systemctl status $unit --no-pager | tail -5; continue; }
    sleep 2
    touch /run/go; wait_for '[ -e /run/done ]' || echo "no kill"; sleep 2
    systemctl stop $unit
    raytrace report /var/lib/each/x.raytrace --format json | gzip | base64 -w0; echo
done
echo "=== end"
systemctl poweroff --force --force
"""
# Directives that each of these units has in addition.
BASE = """[Service]
Type=notify
ExecStart=/usr/bin/raytrace record -o /var/lib/each/x.raytrace
StateDirectory=each
WorkingDirectory=/var/lib/each
"""
# Directives that are not tried. They say how systemd runs the recorder, or name a folder that
# differs here.
NOT_TRIED = {"Type", "ExecStart", "StateDirectory", "StateDirectoryMode", "WorkingDirectory"}
# Directives that have no effect without another one.
TOGETHER = {"DeviceAllow": "DevicePolicy", "SystemCallErrorNumber": "SystemCallFilter"}
UNIT = """[Unit]
After=raytrace.service multi-user.target
[Service]
ExecStart=/stage.sh
StandardOutput=null
[Install]
WantedBy=multi-user.target
"""
INIT = "#!/bin/sh\nmount -t devtmpfs dev /dev\nexec /lib/systemd/systemd\n"


def run(*command, **options):
    subprocess.run(command, check=True, **options)


def directives(unit):
    """Returns the lines of a unit's [Service] section, by directive."""
    with open(unit) as file:
        service = file.read().split("[Service]")[1].split("[Install]")[0]
    found = {}
    for line in service.splitlines():
        key = line.split("=", 1)[0]
        if "=" in line and not line.startswith("#") and key not in NOT_TRIED:
            found.setdefault(TOGETHER.get(key, key), []).append(line)
    return found


def root(folder, deb, each):
    """Makes an initial RAM disk with Debian, systemd and the package. Returns its path."""
    tree = os.path.join(folder, "root")
    run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", tree, stdout=subprocess.DEVNULL)
    for part in ("usr/share/doc", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists", "usr/share/man"):
        shutil.rmtree(os.path.join(tree, part), ignore_errors=True)
    shutil.copy(deb, os.path.join(tree, "raytrace.deb"))
    run("chroot", tree, "dpkg", "--install", "/raytrace.deb", stdout=subprocess.DEVNULL)
    os.remove(os.path.join(tree, "raytrace.deb"))
    units = [(f"etc/systemd/system/each-{key}.service", BASE + "\n".join(lines) + "\n", 0o644) for key, lines in each.items()]
    stage = EACH if each else STAGE
    for path, text, mode in (("stage.sh", stage, 0o755), ("etc/systemd/system/stage.service", UNIT, 0o644), ("init", INIT, 0o755), *units):
        path = os.path.join(tree, path)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
    enabled = ["stage.service"] if each else ["raytrace.service", "stage.service"]
    run("chroot", tree, "systemctl", "enable", *enabled, stderr=subprocess.DEVNULL)
    run("chroot", tree, "systemctl", "mask", "getty@.service", "serial-getty@.service", "systemd-udevd.service", stderr=subprocess.DEVNULL)
    disk = os.path.join(folder, "initrd")
    with open(disk, "wb") as file:
        find = subprocess.Popen(["find", ".", "-xdev"], cwd=tree, stdout=subprocess.PIPE)
        run("cpio", "--create", "--format=newc", "--quiet", cwd=tree, stdin=find.stdout, stdout=file)
    return disk


def boot(folder, kernel, disk, seconds):
    out, console = os.path.join(folder, "out"), os.path.join(folder, "console")
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-m", "2500", "-no-reboot", "-nic", "none"]
    command += ["-cpu", "qemu64,-cx16", "-display", "none", "-monitor", "none", "-kernel", kernel, "-initrd", disk]
    command += ["-append", "console=ttyS0 loglevel=4 panic=-1 rdinit=/init systemd.show_status=0"]
    command += ["-serial", f"file:{console}", "-serial", f"file:{out}"]
    subprocess.run(command, check=True, timeout=seconds, stdin=subprocess.DEVNULL)
    with open(out) as file:
        return file.read().replace("\r", "")


def unpacked(text):
    return gzip.decompress(base64.b64decode(text)).decode()


def certainty(part):
    """Returns the certainty of the kill's verdict in a report, or what was printed instead."""
    try:
        report = json.loads(unpacked(part.splitlines()[-1]))
    except (ValueError, IndexError, OSError):
        return part[-300:]
    killed = [death for death in report["deaths"] if death["signal"] == 9]
    return killed[0]["verdict"]["certainty"] if killed else "no kill was recorded"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deb", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--each")
    arguments = parser.parse_args()
    each = directives(arguments.each) if arguments.each else {}
    disk = root(arguments.folder, arguments.deb, each)
    text = boot(arguments.folder, arguments.kernel, disk, arguments.seconds)
    parts = re.findall(r"^=== ([^\n]+)\n(.*?)(?=^=== |\Z)", text, flags=re.M | re.S)
    if each:
        said = {name.removeprefix("each-"): certainty(part.strip()) for name, part in parts if name.startswith("each-")}
        return print(json.dumps({key: said.get(key, "not run") for key in each}))
    said = {"reports": []}
    for name, part in parts:
        if name == "report":
            said["reports"].append(json.loads(unpacked(part.strip())))
        elif name == "publish":
            state, lines = (part.strip().split("\n") + [""])[:2]
            said["publish"] = {"state": state, "lines": [json.loads(line) for line in unpacked(lines).splitlines()] if lines else []}
        elif "=" in part and name in ("show", "stopped"):
            said[name] = dict(line.split("=", 1) for line in part.strip().splitlines())
        else:
            said[name] = part.strip()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
