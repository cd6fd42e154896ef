//! Decides whether a file lies on a network file system, where a WAL cannot be shared safely.

use std::path::{Path, PathBuf};

/// File systems that other machines may write to behind our back.
const NETWORK: &[&str] = &[
    "9p",
    "afs",
    "ceph",
    "cifs",
    "davfs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb2",
    "smb3",
    "smbfs",
];

/// The kind of network file system a file lies on, as far as this machine tells.
///
/// Linux tells by its list of mounts. Elsewhere nothing is known, and nothing is refused.
pub(super) fn network_kind(path: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let kind = kind_of(&mounts, &folder.canonicalize().ok()?)?;
    NETWORK.contains(&kind).then(|| kind.to_owned())
}

/// The kind of the mount that a folder lies on: the longest one wins, the newest of equal ones.
fn kind_of<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        // 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/root rw
        let (place, device) = line.split_once(" - ")?;
        let point = unescaped(place.split(' ').nth(4)?);
        folder
            .starts_with(&point)
            .then_some((point.components().count(), device.split(' ').next()?))
    };
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// Blanks and the like stand in the list as three octal digits.
fn unescaped(point: &str) -> PathBuf {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(point.to_owned(), |point, (code, text)| point.replace(code, text)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /srv rw - nfs4 server:/srv rw
31 30 254:1 / /srv/me/fast\\040disk rw shared:7 - ext4 /dev/vdb rw
32 22 0:27 / /mnt/share rw - ext4 /dev/vdc rw
33 22 0:28 / /mnt/share rw - cifs //server/share rw
";

    #[test]
    fn the_nearest_mount_decides() {
        let kind = |folder: &str| kind_of(MOUNTS, Path::new(folder));
        assert_eq!(kind("/var/lib"), Some("ext4"));
        assert_eq!(kind("/srv/me/book"), Some("nfs4"));
        assert_eq!(kind("/srvice"), Some("ext4"));
        assert_eq!(kind("/srv/me/fast disk/book"), Some("ext4"));
        assert_eq!(kind("/mnt/share/x"), Some("cifs"));
        assert_eq!(network_kind(Path::new("/proc/self/x")), None);
    }
}
