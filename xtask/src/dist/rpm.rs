//! Makes the rpm package with `rpmbuild`.

use std::{fs, process::Command};

use anyhow::Result;

use super::{Parts, VERSION, make_empty};
use crate::{layout, process::run_quietly};

/// Makes the package. On distributions with rpm, zsh reads completions from another folder than on
/// Debian.
pub(super) fn make(parts: &Parts<'_>) -> Result<()> {
    let name = parts.architecture.name;
    let folder = layout::target().join(format!("dist-rpm-{name}"));
    make_empty(&folder)?;
    let tree = parts.tree.display();
    let spec = format!(
        "Name: raytrace\nVersion: {VERSION}\nRelease: 1\nSummary: Flight recorder for memory deaths on Ray clusters\n\
         License: MIT OR Apache-2.0\nAutoReqProv: no\nRequires: glibc >= 2.28\nRequires(pre): shadow-utils\n\
         %global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n%global _build_id_links none\n\
         %description\n\
         Records and proves who ended each process of a Ray cluster, and what grew until it had to die.\n\
         %install\ncp --archive {tree}/usr %{{buildroot}}/\nmkdir -p %{{buildroot}}/var/lib/raytrace\n\
         cd %{{buildroot}}/usr/share/zsh && mv vendor-completions site-functions\n\
         %pre\ngetent group raytrace >/dev/null || groupadd --system raytrace\n\
         %post\n[ ! -d /run/systemd/system ] || systemctl daemon-reload\n\
         %preun\nif [ $1 -eq 0 ] && [ -d /run/systemd/system ]; then systemctl disable --now raytrace-publish.service raytrace.service; fi\n\
         %postun\nif [ $1 -ge 1 ] && [ -d /run/systemd/system ]; then systemctl try-restart raytrace.service raytrace-publish.service; fi\n\
         %files\n/usr/bin/raytrace\n/usr/lib/systemd/system/raytrace*.service\n/usr/lib/sysusers.d/raytrace.conf\n\
         /usr/share/bash-completion/completions/raytrace\n/usr/share/fish/vendor_completions.d/raytrace.fish\n\
         /usr/share/zsh/site-functions/_raytrace\n/usr/share/man/man1/raytrace*.1.gz\n%doc /usr/share/doc/raytrace\n\
         %dir %attr(0750, root, raytrace) /var/lib/raytrace\n"
    );
    let path = folder.join("raytrace.spec");
    fs::write(&path, spec)?;
    run_quietly(
        Command::new("rpmbuild")
            .args(["-bb", "--quiet", "--target", name])
            .args(["--define", &format!("_topdir {}", folder.display())])
            .args(["--define", &format!("_rpmdir {}", folder.display())])
            .arg(&path),
    )?;
    let file = format!("raytrace-{VERSION}-1.{name}.rpm");
    let to = parts.folder.join(&file);
    fs::copy(folder.join(name).join(&file), &to)?;
    println!("{}", to.display());
    Ok(())
}
