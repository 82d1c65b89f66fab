//! Certificates for tests of TLS: an authority that is made up, and what it issues.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An authority that nobody trusts unless told to.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
}

/// A server's certificate and its key, as files.
#[derive(Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes one, with a key of its own.
    #[expect(clippy::new_without_default, reason = "it runs a program, and no two are equal")]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("punctual-tls-").tempdir().expect("a folder can be made");
        let authority = Self { folder };
        authority.openssl(
            &["req", "-x509", "-days", "2", "-subj", "/CN=a test's authority", "-nodes", "-newkey", "ec"],
            &["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "ca.key", "-out", "ca.pem"],
        );
        authority
    }

    /// Its own certificate, by which whoever trusts it knows what it issued.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a server with these names, such as `DNS:localhost,IP:127.0.0.1`.
    pub fn issue(&self, names: &str) -> Certificate {
        let extensions = self.folder.path().join("names.txt");
        std::fs::write(&extensions, format!("subjectAltName={names}\n")).expect("a file can be written");
        self.openssl(
            &["req", "-subj", "/CN=a test's server", "-nodes", "-newkey", "ec"],
            &["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "server.key", "-out", "server.csr"],
        );
        self.openssl(
            &["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"],
            &["-CAcreateserial", "-days", "2", "-extfile", "names.txt", "-out", "server.pem"],
        );
        let file = |name: &str| self.folder.path().join(name);
        Certificate { certificate: file("server.pem"), key: file("server.key") }
    }

    fn openssl(&self, words: &[&str], more: &[&str]) {
        let done = Command::new("openssl").current_dir(self.folder.path()).args(words).args(more).output();
        let done = done.expect("openssl is not installed: run `cargo xtask deps`");
        assert!(done.status.success(), "openssl {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Certificate {
    /// Copies both into a server's folder, the key for its user alone, as the server demands.
    pub(super) fn install(&self, folder: &Path, owner: Option<(u32, u32)>) {
        use std::os::unix::fs::{PermissionsExt, chown};
        for (from, name) in [(&self.certificate, "server.pem"), (&self.key, "server.key")] {
            let to = folder.join(name);
            std::fs::copy(from, &to).expect("a certificate can be copied");
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600))
                .expect("it can be kept to the server");
            if let Some((uid, gid)) = owner {
                chown(&to, Some(uid), Some(gid)).expect("it can be given to the server's user");
            }
        }
    }
}
