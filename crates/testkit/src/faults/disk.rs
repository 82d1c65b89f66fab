//! A disk so small that a test can fill it, and that can be made larger.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A file system in memory of a size of one's own; it goes away with this.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts one, which takes root: see [`as_root`].
    pub fn new(kilobytes: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        mount(&["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "tmpfs"], folder.path());
        Self { folder }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes it larger.
    pub fn grow(&self, kilobytes: u32) {
        mount(&["-o", &format!("remount,size={kilobytes}k")], self.folder.path());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that still has a file open there must not keep the folder from going away.
        let _gone_already = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

fn mount(words: &[&str], folder: &Path) {
    let done = Command::new("mount").args(words).arg(folder).output().expect("mount can be run");
    assert!(done.status.success(), "mount failed: {}", String::from_utf8_lossy(&done.stderr));
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
