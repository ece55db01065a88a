"""Checks manifests with their kustomization's patches against Kubernetes' own schemas.

    python manifests.py FOLDER

It also checks that the kustomization names files that exist.
"""

import os
import sys

import kubernetes_validate
import yaml

# 1.30 is the oldest version that has `appArmorProfile`.
VERSIONS = ["1.30", "1.32", "1.34"]
# Kinds whose schemas belong to an operator, not to Kubernetes.
FOREIGN = {"PodMonitor"}


# By field: the key that identifies the elements of a list in a patch, if it is not `name`.
KEYS = {"volumeMounts": "mountPath"}


def patched(whole, patch, name=""):
    """Applies a strategic merge patch, as far as these patches need it."""
    if isinstance(whole, dict) and isinstance(patch, dict):
        return {key: patched(whole.get(key), patch[key], key) if key in patch else whole[key] for key in {**whole, **patch}}
    if isinstance(whole, list) and patch and isinstance(patch[0], dict):
        key = KEYS.get(name, "name")
        named = {one[key]: one for one in whole}
        for one in patch:
            named[one[key]] = patched(named.get(one[key]), one)
        return list(named.values())
    return patch


def read(path):
    with open(path) as file:
        return list(yaml.safe_load_all(file))


def documents(folder):
    """Returns what a folder's kustomization applies, and the documents beside it."""
    [kustomization] = read(os.path.join(folder, "kustomization.yaml"))
    patches = [one["path"] for one in kustomization.get("patches", [])]
    found = []
    for resource in kustomization["resources"]:
        path = os.path.join(folder, resource)
        found += documents(path) if os.path.isdir(path) else read(path)
    beside = sorted(set(os.listdir(folder)) - set(kustomization["resources"]) - set(patches) - {"kustomization.yaml"})
    for name in beside:
        found += read(os.path.join(folder, name))
    identity = lambda one: (one["kind"], one["metadata"]["name"])  # noqa: E731
    for name in patches:
        for patch in read(os.path.join(folder, name)):
            places = [place for place, one in enumerate(found) if identity(one) == identity(patch)]
            if len(places) != 1:
                raise SystemExit(f"{name} patches {len(places)} objects")
            found[places[0]] = patched(found[places[0]], patch)
    return found


def main():
    checked = 0
    for document in documents(sys.argv[1]):
        if document["kind"] == "RayCluster":
            # Its pod templates are types of Kubernetes.
            spec = document["spec"]
            templates = [one["template"] for one in spec["workerGroupSpecs"]] + [spec["headGroupSpec"]["template"]]
            of_kubernetes = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **one} for one in templates]
        elif document["kind"] in FOREIGN:
            of_kubernetes = []
        else:
            of_kubernetes = [document]
        for one in of_kubernetes:
            for version in VERSIONS:
                kubernetes_validate.validate(one, version, strict=True)
                checked += 1
        if document["kind"] == "DaemonSet":
            print(yaml.safe_dump(document["spec"]["template"]["spec"]["containers"][-1]["args"], default_flow_style=True, width=1000).strip())
    print(f"{checked} checks")


if __name__ == "__main__":
    main()
