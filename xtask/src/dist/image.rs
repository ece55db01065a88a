//! Makes the container image: Debian's glibc and time zones, and the program.
//!
//! It has OCI's layout, and neither a shell nor a package manager. NVML comes with the mounts of
//! NVIDIA's runtime, which the variables set here request.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Architecture, Parts, VERSION, make_empty, sha256, tree};
use crate::{layout, process::run_quietly};

/// Debian's packages in the image.
const PACKAGES: [&str; 4] = ["base-files", "libc6", "libgcc-s1", "tzdata"];
/// Parts of these packages that are not needed.
const LEFT_OUT: [&str; 4] = [
    "usr/share/doc",
    "usr/share/lintian",
    "usr/share/bug",
    "etc/update-motd.d",
];
/// The group that may read recordings, and the user of `publish`.
const USERS: &str = "root:x:0:0:root:/root:/nologin\nraytrace:x:65532:65532:raytrace:/:/nologin\n";
const GROUPS: &str = "root:x:0:\nraytrace:x:65532:\n";

/// Makes the image as a tar file that `skopeo`, `podman load` and `ctr images import` read.
pub(super) fn make(parts: &Parts<'_>) -> Result<()> {
    let architecture = parts.architecture;
    let work = layout::target().join(format!("dist-image-{}", architecture.debian));
    make_empty(&work)?;
    let root = work.join("root");
    unpack(architecture, &work, &root)?;
    tree::copy(parts.program, &root.join("usr/bin/raytrace"), 0o755)?;
    fs::write(root.join("etc/passwd"), USERS)?;
    fs::write(root.join("etc/group"), GROUPS)?;
    for folder in [
        "proc",
        "sys",
        "dev",
        "tmp",
        "var/lib/raytrace",
        "recordings",
        "state",
    ] {
        fs::create_dir_all(root.join(folder))?;
    }
    let image = work.join("oci");
    lay_out(architecture, &work, &root, &image)?;
    let file = parts
        .folder
        .join(format!("raytrace-{VERSION}-{}.oci.tar", architecture.name));
    tar(&image, &file)?;
    println!("{}", file.display());
    Ok(())
}

/// Downloads Debian's packages for the architecture with a separate apt state, and unpacks them.
fn unpack(architecture: Architecture, work: &Path, root: &Path) -> Result<()> {
    let state = work.join("apt");
    fs::create_dir_all(state.join("lists/partial"))?;
    fs::create_dir_all(state.join("cache/archives/partial"))?;
    fs::write(state.join("status"), "")?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        let set = |key: &str, value: &str| format!("--option={key}={value}");
        apt.current_dir(&state)
            .args(["--quiet", &set("APT::Architecture", architecture.debian)])
            .arg(set("APT::Architectures::", architecture.debian))
            .arg(set("Dir::State", &state.to_string_lossy()))
            .arg(set(
                "Dir::State::status",
                &state.join("status").to_string_lossy(),
            ))
            .arg(set("Dir::Cache", &state.join("cache").to_string_lossy()))
            // Run as root, apt downloads as root too, because the folder is root's.
            .arg(set("APT::Sandbox::User", "root"));
        apt
    };
    run_quietly(apt().arg("update"))?;
    run_quietly(apt().arg("download").args(PACKAGES))?;
    // Directories of a merged /usr. The packages of Debian 12 have /lib beside it.
    fs::create_dir_all(root.join("usr/lib"))?;
    fs::create_dir_all(root.join("usr/lib64"))?;
    for name in ["lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name))?;
    }
    for entry in fs::read_dir(&state)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            // tar follows the links of a merged /usr. dpkg-deb would replace them.
            let unpack = "dpkg-deb --fsys-tarfile \"$1\" | tar --extract --keep-directory-symlink --directory \"$2\"";
            let mut shell = Command::new("sh");
            run_quietly(shell.args(["-c", unpack, "sh"]).arg(&path).arg(root))?;
        }
    }
    for folder in LEFT_OUT {
        let folder = root.join(folder);
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

/// Writes one layer, its configuration and manifest, each under its digest.
fn lay_out(architecture: Architecture, work: &Path, root: &Path, image: &Path) -> Result<()> {
    let blobs = image.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer = work.join("layer.tar");
    tar(root, &layer)?;
    let diff = sha256(&fs::read(&layer)?);
    run_quietly(
        Command::new("gzip")
            .args(["--no-name", "--force"])
            .arg(&layer),
    )?;
    let layer = blob(
        &blobs,
        &fs::read(work.join("layer.tar.gz"))?,
        "application/vnd.oci.image.layer.v1.tar+gzip",
    )?;
    let config = json!({
        "architecture": architecture.debian,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/raytrace"],
            "Cmd": ["record", "--directory", "/var/lib/raytrace"],
            "Env": ["PATH=/usr/bin", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"],
            "WorkingDir": "/var/lib/raytrace",
            "Labels": {
                "org.opencontainers.image.title": "raytrace",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
    });
    let config = blob(
        &blobs,
        &serde_json::to_vec(&config)?,
        "application/vnd.oci.image.config.v1+json",
    )?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest = blob(
        &blobs,
        &serde_json::to_vec(&manifest)?,
        "application/vnd.oci.image.manifest.v1+json",
    )?;
    manifest["platform"] = json!({"architecture": architecture.debian, "os": "linux"});
    // `podman load` and `ctr images import` take the image's name from the second annotation.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        "io.containerd.image.name": format!("localhost/raytrace:{VERSION}"),
    });
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(image.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(
        image.join("oci-layout"),
        r#"{"imageLayoutVersion": "1.0.0"}"#,
    )?;
    Ok(())
}

/// Writes a blob under its digest, and returns its descriptor.
fn blob(blobs: &Path, bytes: &[u8], kind: &str) -> Result<Value> {
    let digest = sha256(bytes);
    let path: PathBuf = blobs.join(&digest);
    fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}

fn tar(folder: &Path, file: &Path) -> Result<()> {
    run_quietly(
        Command::new("tar")
            .args([
                "--create",
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
            ])
            .arg("--file")
            .arg(file)
            .arg("--directory")
            .arg(folder)
            .arg("."),
    )
}
