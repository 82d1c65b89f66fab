//! The one list of what the tests need besides Rust, and how each is found and installed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{browser, cmd, test};

#[derive(clap::Args)]
pub struct Args {
    /// Only these tools (comma separated), whether or not a present part needs them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Install nothing: only say what is there and what is missing
    #[arg(long)]
    check: bool,
}

/// A new tool is one entry here; the parts of `cargo xtask test` are named in `needed_by`.
const TOOLS: &[Tool] = &[
    Tool {
        name: "rustfmt",
        purpose: "checks the formatting",
        needed_by: &["tidy"],
        found_by: &[Probe::Runs(&["cargo", "fmt", "--version"])],
        install: Install::Rustup("rustfmt"),
    },
    Tool {
        name: "clippy",
        purpose: "checks the lints",
        needed_by: &["tidy"],
        found_by: &[Probe::Runs(&["cargo", "clippy", "--version"])],
        install: Install::Rustup("clippy"),
    },
    Tool {
        name: "cargo-nextest",
        purpose: "runs the tests, each in its own process",
        needed_by: &["build", "unit"],
        found_by: &[Probe::Runs(&["cargo", "nextest", "--version"])],
        install: Install::Cargo {
            package: "cargo-nextest@0.9.143",
            // Without the self-updater, which is most of its build time.
            options: &["--no-default-features", "--features", "default-no-update"],
        },
    },
    Tool {
        name: "postgresql",
        purpose: "the PostgreSQL server, for the store's throw-away test databases",
        needed_by: &["unit", "browser"],
        // Debian keeps the server's programs out of PATH.
        found_by: &[
            Probe::AnyVersion { folder: "/usr/lib/postgresql", program: "bin/initdb" },
            Probe::InPath("initdb"),
        ],
        install: Install::Apt(&["postgresql"]),
    },
    Tool {
        name: "psql",
        purpose: "what people type SQL into, for the tests of the SQL surface",
        needed_by: &["unit"],
        found_by: &[Probe::AnyVersion { folder: "/usr/lib/postgresql", program: "bin/psql" }, Probe::InPath("psql")],
        install: Install::Apt(&["postgresql-client"]),
    },
    Tool {
        name: "psycopg",
        purpose: "a PostgreSQL client for Python, for the tests of the SQL surface",
        needed_by: &["unit"],
        found_by: &[Probe::Installed(&PSYCOPG)],
        install: Install::PipFile(&PSYCOPG),
    },
    Tool {
        name: "receivers",
        purpose: "a mail server and a receiver of webhooks, for the tests of notifications",
        needed_by: &["unit"],
        found_by: &[Probe::Installed(&RECEIVERS)],
        install: Install::PipFile(&RECEIVERS),
    },
    Tool {
        name: "node-pg",
        purpose: "a PostgreSQL client for Node, for the tests of the SQL surface",
        needed_by: &["unit"],
        found_by: &[Probe::Locked(&NODE_PG)],
        install: Install::NpmFolder(&NODE_PG),
    },
    Tool {
        name: "systemd-analyze",
        purpose: "says when a timer of systemd elapses, for the tests of the importers",
        needed_by: &["unit"],
        found_by: &[Probe::InPath("systemd-analyze")],
        install: Install::Apt(&["systemd"]),
    },
    Tool {
        name: "debian-crontabs",
        purpose: "the crontabs and timers of Debian's own packages, for the tests of the importers",
        needed_by: &["unit"],
        found_by: &[Probe::Unpacked(&DEBIAN_CRONTABS)],
        install: Install::Unpack(&DEBIAN_CRONTABS),
    },
    Tool {
        name: "pgbouncer",
        purpose: "a pooler in front of PostgreSQL, for the tests that share two connections",
        needed_by: &["unit"],
        // Debian puts it where only root's PATH looks.
        found_by: &[Probe::AnyVersion { folder: "/usr", program: "pgbouncer" }, Probe::InPath("pgbouncer")],
        install: Install::Apt(&["pgbouncer"]),
    },
    Tool {
        name: "schemathesis",
        purpose: "tests the API against its own document",
        needed_by: &["api"],
        found_by: &[Probe::Runs(&["target/schemathesis/bin/schemathesis", "--version"])],
        install: Install::Pip { package: "schemathesis==4.32.5", folder: "target/schemathesis" },
    },
    Tool {
        name: "langgraph",
        purpose: "a LangGraph server with small graphs, for the tests of its adapter",
        needed_by: &["unit"],
        found_by: &[Probe::Installed(&LANGGRAPH)],
        install: Install::PipFile(&LANGGRAPH),
    },
    Tool {
        name: "prometheus",
        purpose: "reads figures and the expressions over them, for the tests of /metrics and of the dashboard",
        needed_by: &["unit"],
        found_by: &[Probe::Installed(&PROMETHEUS)],
        install: Install::PipFile(&PROMETHEUS),
    },
    Tool {
        name: "deploy-linters",
        purpose: "check the container and Kubernetes files",
        needed_by: &["deploy"],
        found_by: &[Probe::Installed(&DEPLOY)],
        install: Install::PipFile(&DEPLOY),
    },
    Tool {
        name: "chromium",
        purpose: "the browser in which the pages of the dashboard are tested",
        needed_by: &["browser"],
        found_by: &[Probe::AnyVersion { folder: "/usr", program: "chromium" }, Probe::InPath("chromium")],
        install: Install::Apt(&["chromium"]),
    },
    Tool {
        name: "dashboard",
        purpose: "what the dashboard is built and tested with",
        needed_by: &["build", "browser"],
        found_by: &[Probe::Locked(&DASHBOARD)],
        install: Install::NpmFolder(&DASHBOARD),
    },
    Tool {
        name: "openssl",
        purpose: "makes the certificates of a server, for the tests of TLS",
        needed_by: &["unit"],
        found_by: &[Probe::InPath("openssl")],
        install: Install::Apt(&["openssl"]),
    },
    Tool {
        name: "libfaketime",
        purpose: "gives processes a wrong clock, for the tests in which clocks jump",
        needed_by: &["unit"],
        // Below the folder of the machine's kind, such as x86_64-linux-gnu.
        found_by: &[Probe::AnyVersion { folder: "/usr/lib", program: "faketime/libfaketimeMT.so.1" }],
        install: Install::Apt(&["faketime"]),
    },
];

/// Small packages with a file in `/etc/cron.d`, and some with timers.
const DEBIAN_CRONTABS: Unpacked = Unpacked {
    packages: &[
        "cron-daemon-common",
        "anacron",
        "backupninja",
        "btrfsmaintenance",
        "certbot",
        "cron-apt",
        "dma",
        "e2fsprogs",
        "ganeti",
        "leafnode",
        "logcheck",
        "logrotate",
        "mailman3-web",
        "mdadm",
        "munin",
        "munin-node",
        "ntpsec",
        "ntpsec-ntpviz",
        "php-common",
        "plocate",
        "sysstat",
    ],
    folder: "target/debian-crontabs",
};

const DEPLOY: PipFile = PipFile { file: "xtask/python/deploy.txt", folder: "target/deploy-linters" };
const LANGGRAPH: PipFile = PipFile { file: "xtask/python/langgraph.txt", folder: "target/langgraph" };
const PROMETHEUS: PipFile = PipFile { file: "xtask/python/prometheus.txt", folder: "target/prometheus" };
const PSYCOPG: PipFile = PipFile { file: "xtask/python/psycopg.txt", folder: "target/psycopg" };
const RECEIVERS: PipFile = PipFile { file: "xtask/python/receivers.txt", folder: "target/receivers" };
const DASHBOARD: NpmFolder = NpmFolder { from: "dashboard", folder: browser::COPY };
const NODE_PG: NpmFolder = NpmFolder { from: "xtask/node", folder: "target/node-pg" };

struct Tool {
    name: &'static str,
    purpose: &'static str,
    needed_by: &'static [&'static str],
    found_by: &'static [Probe],
    install: Install,
}

enum Probe {
    /// The command succeeds.
    Runs(&'static [&'static str]),
    /// The program is in PATH.
    InPath(&'static str),
    /// The program is below one of the folder's version folders.
    AnyVersion { folder: &'static str, program: &'static str },
    /// The environment has exactly the packages of its file.
    Installed(&'static PipFile),
    /// The folder has exactly the packages of its lock file, and there is a Node to use them.
    Locked(&'static NpmFolder),
    /// The folder has exactly the packages of its list.
    Unpacked(&'static Unpacked),
}

enum Install {
    Apt(&'static [&'static str]),
    Cargo {
        package: &'static str,
        options: &'static [&'static str],
    },
    /// A component of the toolchain.
    Rustup(&'static str),
    /// A Python package in an environment of its own.
    Pip {
        package: &'static str,
        folder: &'static str,
    },
    /// Python packages by a file that names each of them, in an environment of their own.
    PipFile(&'static PipFile),
    /// Node packages by a lock file.
    NpmFolder(&'static NpmFolder),
    /// Packages of Debian whose files are looked at; nothing of them is installed.
    Unpack(&'static Unpacked),
}

/// A file of Python packages, and the folder they are installed into.
struct PipFile {
    file: &'static str,
    folder: &'static str,
}

impl PipFile {
    /// A copy of the file, put beside the packages when all of them are there.
    fn copy(&self) -> std::path::PathBuf {
        cmd::root().join(self.folder).join("installed.txt")
    }

    fn is_installed(&self) -> bool {
        let wanted = std::fs::read(cmd::root().join(self.file));
        wanted.is_ok_and(|wanted| std::fs::read(self.copy()).is_ok_and(|there| there == wanted))
    }

    fn install(&self, apt: &mut Apt) -> Result<()> {
        make_environment(self.folder, apt)?;
        let mut pip = cmd::command(&format!("{}/bin/pip", self.folder), PIP_FILE);
        cmd::run(pip.arg(self.file))?;
        std::fs::copy(cmd::root().join(self.file), self.copy()).context("note what was installed")?;
        Ok(())
    }
}

/// A folder with a list of Node packages and its lock file, and the folder they are installed into.
struct NpmFolder {
    from: &'static str,
    folder: &'static str,
}

impl NpmFolder {
    const FILES: [&'static str; 2] = ["package.json", "package-lock.json"];

    /// A copy of the lock file, put beside the packages when all of them are there.
    fn copy(&self) -> std::path::PathBuf {
        cmd::root().join(self.folder).join("node_modules/installed.json")
    }

    fn is_installed(&self) -> bool {
        let wanted = std::fs::read(cmd::root().join(self.from).join("package-lock.json"));
        let there = wanted.is_ok_and(|wanted| std::fs::read(self.copy()).is_ok_and(|there| there == wanted));
        there && succeeds(&["node", "--version"])
    }

    fn install(&self, apt: &mut Apt) -> Result<()> {
        if !succeeds(&["node", "--version"]) || !succeeds(&["npm", "--version"]) {
            apt.install(&["nodejs", "npm"])?;
        }
        let folder = cmd::root().join(self.folder);
        std::fs::create_dir_all(&folder).context("make a folder for the packages")?;
        for file in Self::FILES {
            std::fs::copy(cmd::root().join(self.from).join(file), folder.join(file)).context("copy what to install")?;
        }
        cmd::run(cmd::command("npm", NPM_CI).current_dir(&folder))?;
        std::fs::copy(folder.join("package-lock.json"), self.copy()).context("note what was installed")?;
        Ok(())
    }
}

/// Packages of Debian, and the folder in which each has a folder with its files.
struct Unpacked {
    packages: &'static [&'static str],
    folder: &'static str,
}

impl Unpacked {
    /// The list of packages, put beside them when all of them are there.
    fn list(&self) -> std::path::PathBuf {
        cmd::root().join(self.folder).join("unpacked.txt")
    }

    fn is_there(&self) -> bool {
        std::fs::read_to_string(self.list()).is_ok_and(|there| there == self.packages.join("\n"))
    }

    fn unpack(&self, apt: &mut Apt) -> Result<()> {
        apt.update()?;
        let folder = cmd::root().join(self.folder);
        let archives = folder.join("archives");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).context("make room for the packages")?;
        }
        std::fs::create_dir_all(&archives).context("make a folder for the packages")?;
        // The unprivileged user that apt prefers cannot write here.
        let download = ["-o", "APT::Sandbox::User=root", "-qq", "download"];
        cmd::run(cmd::command("apt-get", download).args(self.packages).current_dir(&archives))?;
        for archive in std::fs::read_dir(&archives).context("list the packages")? {
            let archive = archive?.path();
            let name = archive.file_name().and_then(|name| name.to_str()).context("name a package")?;
            let package = name.split('_').next().unwrap_or(name);
            let unpack = cmd::command("dpkg-deb", ["-x"]).arg(&archive).arg(folder.join(package)).status();
            if !unpack.context("run dpkg-deb")?.success() {
                bail!("{name} cannot be unpacked");
            }
        }
        std::fs::remove_dir_all(&archives).context("remove the archives")?;
        std::fs::write(self.list(), self.packages.join("\n")).context("note what was unpacked")
    }
}

/// What packages would do by themselves when they are installed is not wanted.
const NPM_CI: &[&str] = &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];

/// The file names everything, so there is nothing to work out; and compiling can wait until something is used.
const PIP_FILE: &[&str] =
    &["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--requirement"];

fn make_environment(folder: &str, apt: &mut Apt) -> Result<()> {
    // Debian has this part of Python in a package of its own.
    if !succeeds(&["python3", "-c", "import ensurepip, venv"]) {
        apt.install(&["python3-venv"])?;
    }
    cmd::run(&mut cmd::command("python3", ["-m", "venv", "--clear", folder]))
}

pub fn run(args: &Args) -> Result<()> {
    let tools = chosen(&args.only)?;
    if args.only.is_empty() {
        for tool in TOOLS.iter().filter(|tool| !is_needed(tool, &test::part_names())) {
            println!("{}: not needed by any part yet (--only {} installs it)", tool.name, tool.name);
        }
    }
    ensure(&tools, args.check)
}

/// Makes sure that everything the named parts of the tests need is there.
pub fn ensure_for(parts: &[&str]) -> Result<()> {
    let tools: Vec<&Tool> = TOOLS.iter().filter(|tool| is_needed(tool, parts)).collect();
    ensure(&tools, false)
}

fn chosen(only: &[String]) -> Result<Vec<&'static Tool>> {
    if only.is_empty() {
        return Ok(TOOLS.iter().filter(|tool| is_needed(tool, &test::part_names())).collect());
    }
    only.iter()
        .map(|name| {
            TOOLS.iter().find(|tool| tool.name == name).with_context(|| {
                let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
                format!("no tool named {name}; the list has {}", known.join(", "))
            })
        })
        .collect()
}

fn is_needed(tool: &Tool, parts: &[&str]) -> bool {
    tool.needed_by.iter().any(|part| parts.contains(part))
}

fn ensure(tools: &[&Tool], check_only: bool) -> Result<()> {
    let mut missing = Vec::new();
    let mut apt = Apt::default();
    for tool in tools {
        if is_there(tool.found_by) {
            println!("{}: found", tool.name);
            continue;
        }
        println!("{}: missing ({})", tool.name, tool.purpose);
        if !check_only {
            match install(tool, &mut apt) {
                Ok(()) => continue,
                Err(error) => println!("{}: {error:#}", tool.name),
            }
        }
        missing.push(format!("  {}: {}; {}", tool.name, tool.purpose, remedy(&tool.install)));
    }
    if !missing.is_empty() {
        bail!("not installed:\n{}", missing.join("\n"));
    }
    Ok(())
}

fn install(tool: &Tool, apt: &mut Apt) -> Result<()> {
    match &tool.install {
        Install::Apt(packages) => apt.install(packages)?,
        Install::Cargo { package, options } => {
            cmd::run(cmd::cargo(["install", "--locked", package]).args(*options))?;
        }
        Install::Rustup(component) => cmd::run(&mut cmd::command("rustup", ["component", "add", component]))?,
        Install::Pip { package, folder } => {
            make_environment(folder, apt)?;
            cmd::run(&mut cmd::command(&format!("{folder}/bin/pip"), ["install", "--quiet", package]))?;
        }
        Install::PipFile(file) => file.install(apt)?,
        Install::NpmFolder(packages) => packages.install(apt)?,
        Install::Unpack(packages) => packages.unpack(apt)?,
    }
    if !is_there(tool.found_by) {
        bail!("its installation succeeded, but it is still not found");
    }
    Ok(())
}

fn remedy(install: &Install) -> String {
    match install {
        Install::Apt(packages) => {
            format!("on Debian or Ubuntu: apt-get install {} (elsewhere: its equivalent)", packages.join(" "))
        }
        Install::Cargo { package, .. } => format!("cargo install --locked {package}"),
        Install::Rustup(component) => format!("rustup component add {component}"),
        Install::Pip { package, folder } => format!("python3 -m venv {folder} && {folder}/bin/pip install {package}"),
        Install::PipFile(PipFile { file, folder }) => {
            format!(
                "python3 -m venv {folder} && {folder}/bin/pip install -r {file} && cp {file} {folder}/installed.txt"
            )
        }
        Install::Unpack(Unpacked { packages, folder }) => {
            format!("on Debian: apt-get download {}, and dpkg-deb -x each into {folder}/NAME", packages.join(" "))
        }
        Install::NpmFolder(NpmFolder { from, folder }) => {
            format!(
                "with Node: mkdir -p {folder} && cp {from}/*.json {folder} && (cd {folder} && npm ci && \
                 cp package-lock.json node_modules/installed.json)"
            )
        }
    }
}

fn is_there(probes: &[Probe]) -> bool {
    probes.iter().any(|probe| match probe {
        Probe::Runs(words) => succeeds(words),
        Probe::InPath(program) => in_path(program),
        Probe::AnyVersion { folder, program } => any_version(Path::new(folder), program),
        Probe::Installed(file) => file.is_installed(),
        Probe::Locked(packages) => packages.is_installed(),
        Probe::Unpacked(packages) => packages.is_there(),
    })
}

fn succeeds(words: &[&str]) -> bool {
    Command::new(words[0])
        .args(&words[1..])
        .current_dir(cmd::root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn in_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn any_version(folder: &Path, program: &str) -> bool {
    std::fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|version| version.path().join(program).is_file()))
}

/// Debian's package manager, whose list is brought up to date once, before the first package.
#[derive(Default)]
struct Apt {
    updated: bool,
}

impl Apt {
    fn update(&mut self) -> Result<()> {
        if !in_path("apt-get") {
            bail!("cannot install it: there is no apt-get here");
        }
        if !self.updated {
            Self::apt_get(&["update"])?;
            self.updated = true;
        }
        Ok(())
    }

    fn install(&mut self, packages: &[&str]) -> Result<()> {
        self.update()?;
        Self::apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
    }

    fn apt_get(args: &[&str]) -> Result<()> {
        let mut words = become_root()?;
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        words.extend(args);
        cmd::run(&mut cmd::command(words[0], &words[1..]))
    }
}

/// What to put before a command so that it runs as root without asking anybody.
fn become_root() -> Result<Vec<&'static str>> {
    if cmd::capture(&mut cmd::command("id", ["-u"]))?.trim() == "0" {
        Ok(Vec::new())
    } else if succeeds(&["sudo", "-n", "true"]) {
        Ok(vec!["sudo", "-n"])
    } else {
        bail!("cannot install it: neither root nor sudo without a password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Tool = Tool {
        name: "absent",
        purpose: "nothing",
        needed_by: &[],
        found_by: &[Probe::Runs(&["punctual-no-such-program"]), Probe::InPath("punctual-no-such-program")],
        install: Install::Apt(&["absent-package"]),
    };

    #[test]
    fn a_missing_tool_is_an_error_that_says_what_to_install() {
        let error = ensure(&[&ABSENT], true).unwrap_err().to_string();
        assert!(error.contains("apt-get install absent-package"), "{error}");
    }

    #[test]
    fn only_tools_of_the_list_can_be_named() {
        let error = chosen(&["nextest".into()]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("clippy, cargo-nextest, postgresql"), "{error}");
    }

    #[test]
    fn a_program_below_a_version_folder_is_found() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(any_version(src, "main.rs"), "src/main.rs is one folder down");
        assert!(!any_version(src, "no-such-file"));
    }

    #[test]
    fn the_tests_need_nextest() {
        let names: Vec<&str> = chosen(&[]).unwrap().iter().map(|tool| tool.name).collect();
        assert!(names.contains(&"cargo-nextest"), "{names:?}");
    }
}
