//! A disk so small that a test can fill it, and on which room can be made.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// How large it is in all; most of it is taken at first.
const MEGABYTES: usize = 64;

/// A file system in memory of a size of its own; it goes away with this.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts one with so much room, which takes root: see [`as_root`].
    pub fn with_room_for(megabytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let size = format!("size={MEGABYTES}m");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        let mount = mount.expect("mount can be run");
        assert!(mount.status.success(), "mount failed: {}", String::from_utf8_lossy(&mount.stderr));
        let disk = Self { folder };
        let ballast = vec![0; MEGABYTES.saturating_sub(megabytes) << 20];
        std::fs::write(disk.ballast(), ballast).expect("most of it can be taken");
        disk
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes room.
    pub fn make_room(&self) {
        std::fs::remove_file(self.ballast()).expect("room can be made, once");
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.folder.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that still has a file open there must not keep the folder from going away.
        let _gone_already = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

/// Whether this is root. If it is not, the named test is run again as the root of a namespace of its own, where anybody
/// may mount, and the caller has nothing left to do.
pub fn as_root(test: &str) -> bool {
    let id = Command::new("id").arg("-u").output().expect("id can be run");
    if String::from_utf8_lossy(&id.stdout).trim() == "0" {
        return true;
    }
    let mut again = Command::new("unshare");
    again.args(["--user", "--map-root-user", "--mount", "--"]);
    again.arg(std::env::current_exe().expect("a test knows its program")).args(["--exact", test, "--nocapture"]);
    assert!(again.status().expect("unshare can be run").success(), "the test failed in its own namespace");
    false
}
