//! What a command is started with: its program, its environment, its folder, its input.

#![expect(unsafe_code, reason = "a file that has no name is made by a system call")]

use super::child::{Child, Launch, Started, User};
use super::user::{self, Account};
use super::{CommandOptions, NotRun};
use punctual_core::execute::RunContext;
use punctual_core::invalid::Invalid;
use punctual_core::target::{Command, CommandInput, Limits};
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that is known before anything is done; a plain value, so that the rest can be done elsewhere.
#[derive(Debug)]
pub(super) struct Plan {
    command: Command,
    env: BTreeMap<OsString, OsString>,
    input: String,
    scratch_root: PathBuf,
    run_id: String,
    silence: Duration,
}

/// A command that was started, and what is to be done after its end.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) started: Started,
    pub(super) scratch: Option<Scratch>,
    pub(super) artifacts: Option<PathBuf>,
}

impl Plan {
    pub(super) fn of(run: &RunContext, command: &Command, options: &CommandOptions) -> Result<Self, NotRun> {
        command.validate()?;
        Ok(Self {
            command: command.clone(),
            env: environment(run, command, options)?,
            input: run.job.spec.input.as_str().to_owned(),
            scratch_root: options.scratch.clone(),
            run_id: run.job.id.to_string(),
            silence: options.silence,
        })
    }

    /// Makes what the command needs, and starts it.
    pub(super) fn start(mut self) -> Result<Prepared, NotRun> {
        let account = self.account()?;
        let user = account.as_ref().map(|account| &account.user);
        let needs_scratch = self.command.cwd.is_none() || self.command.input == CommandInput::File;
        let scratch = needs_scratch.then(|| Scratch::make(&self.scratch_root, &self.run_id, user)).transpose()?;
        let cwd = match (&self.command.cwd, &scratch) {
            (Some(cwd), _) => PathBuf::from(cwd),
            (None, scratch) => scratch.as_ref().map_or_else(PathBuf::new, |scratch| scratch.work.clone()),
        };
        if let Some(account) = &account {
            self.know(account);
        }
        let stdin = self.stdin(scratch.as_ref(), user)?;
        let artifacts = self.artifacts(&cwd, user)?;
        let launch = Launch {
            programs: self.programs()?,
            argv: self.argv()?,
            envp: self.env.iter().map(|(name, value)| variable(name, value)).collect::<Result<_, _>>()?,
            cwd: Some(c_path(&cwd)?),
            limits: limits(&self.command.limits),
            user: user.cloned(),
            scratch: scratch.as_ref().map(|scratch| c_path(&scratch.folder)).transpose()?,
            stdin,
            silence: self.silence,
        };
        let started = Child::start(&launch).map_err(|error| NotRun::Internal(format!("cannot fork: {error}")))?;
        // From here on the guard removes the folder when nobody else does.
        Ok(Prepared { started, scratch: scratch.map(Scratch::left_to_the_guard), artifacts })
    }

    fn account(&self) -> Result<Option<Account>, NotRun> {
        let Some(name) = &self.command.user else { return Ok(None) };
        let found = user::look_up(name).map_err(|error| NotRun::Internal(format!("cannot look up users: {error}")))?;
        let unknown = || Invalid::new("target.user", format!("`{name}` is not known here")).remedy("create it");
        Ok(Some(found.ok_or_else(unknown)?))
    }

    /// Whoever runs as somebody else sees that one's home.
    fn know(&mut self, account: &Account) {
        for (name, value) in [("HOME", &account.home), ("USER", &account.name), ("LOGNAME", &account.name)] {
            if !self.command.env.contains_key(name) {
                self.env.insert(name.into(), value.into());
            }
        }
    }

    fn stdin(&mut self, scratch: Option<&Scratch>, user: Option<&User>) -> Result<OwnedFd, NotRun> {
        let failed = |error: io::Error| NotRun::Internal(format!("cannot pass the input: {error}"));
        let nothing = || File::open("/dev/null").map(OwnedFd::from);
        match (self.command.input, scratch) {
            (CommandInput::Stdin, _) => nameless_file(self.input.as_bytes()).map_err(failed),
            (CommandInput::File, Some(scratch)) => {
                let path = scratch.folder.join("input.json");
                fs::write(&path, &self.input).map_err(failed)?;
                user.map_or(Ok(()), |user| user::give(&path, user)).map_err(failed)?;
                self.env.insert("PUNCTUAL_INPUT".into(), path.into_os_string());
                nothing().map_err(failed)
            }
            (CommandInput::File | CommandInput::None, _) => nothing().map_err(failed),
        }
    }

    /// The declared folder, which is made if it is not there.
    fn artifacts(&mut self, cwd: &Path, user: Option<&User>) -> Result<Option<PathBuf>, NotRun> {
        let Some(folder) = &self.command.artifacts else { return Ok(None) };
        let folder = cwd.join(folder);
        if !folder.is_dir() {
            let failed =
                |error: io::Error| NotRun::Failed(format!("cannot make the folder `{}`: {error}", folder.display()));
            fs::create_dir_all(&folder).map_err(failed)?;
            user.map_or(Ok(()), |user| user::give(&folder, user)).map_err(failed)?;
        }
        self.env.insert("PUNCTUAL_ARTIFACTS".into(), folder.clone().into_os_string());
        Ok(Some(folder))
    }

    /// The paths that are tried, as a shell would find the program.
    fn programs(&self) -> Result<Vec<CString>, NotRun> {
        let program = if self.command.shell { "/bin/sh" } else { self.command.argv.first().map_or("", String::as_str) };
        if program.contains('/') {
            return Ok(vec![c_path(Path::new(program))?]);
        }
        let path = self.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_else(|| "/usr/bin:/bin".into());
        let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        folders.map(|folder| c_path(&folder.join(program))).collect()
    }

    fn argv(&self) -> Result<Vec<CString>, NotRun> {
        let shell = if self.command.shell { &["sh", "-c"][..] } else { &[] };
        let (script, rest) = self.command.argv.split_at(1.min(self.command.argv.len()));
        // The name by which a script's messages call it, before its arguments.
        let name = if self.command.shell { &["sh"][..] } else { &[] };
        let words = shell.iter().copied().chain(script.iter().map(String::as_str));
        let words = words.chain(name.iter().copied()).chain(rest.iter().map(String::as_str));
        words.map(|word| c_text(word.into())).collect()
    }
}

/// The allow-list, what the job says, and what Punctual says.
fn environment(
    run: &RunContext, command: &Command, options: &CommandOptions,
) -> Result<BTreeMap<OsString, OsString>, NotRun> {
    let passed = options.pass_env.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let mut env: BTreeMap<OsString, OsString> = passed.collect();
    for (name, value) in &command.env {
        env.insert(name.into(), run.text_of(value)?.expose().into());
    }
    let id = run.job.id.to_string();
    let own = [
        ("PUNCTUAL_JOB_ID", Some(id.clone())),
        ("PUNCTUAL_RUN_ID", Some(id)),
        ("PUNCTUAL_ATTEMPT", Some(run.job.attempt.to_string())),
        ("PUNCTUAL_SLOT", run.job.slot_at.map(|slot_at| slot_at.to_string())),
        ("TRACEPARENT", Some(run.trace_context().to_string())),
    ];
    env.extend(own.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))));
    Ok(env)
}

fn limits(limits: &Limits) -> Vec<(u64, u64)> {
    // A fraction of a second counts as a whole one; none at all would end the command before it began.
    let cpu = limits.cpu.map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(1).div_ceil(1000).max(1));
    let wanted = [
        (libc::RLIMIT_CPU, cpu),
        (libc::RLIMIT_AS, limits.memory_bytes),
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_NPROC, limits.processes),
    ];
    wanted.into_iter().filter_map(|(resource, value)| Some((u64::from(resource), value?))).collect()
}

fn variable(name: &OsString, value: &OsString) -> Result<CString, NotRun> {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    c_text(text)
}

fn c_path(path: &Path) -> Result<CString, NotRun> {
    c_text(path.as_os_str().into())
}

fn c_text(text: OsString) -> Result<CString, NotRun> {
    let refused = |_| Invalid::new("target", "holds a NUL character").remedy("remove it");
    Ok(CString::new(text.into_vec()).map_err(refused)?)
}

/// A file in memory that holds these bytes and goes with the last who has it open.
fn nameless_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: the name is a valid text, and the descriptor is nobody else's.
    let mut file = unsafe {
        match libc::memfd_create(c"punctual-input".as_ptr(), libc::MFD_CLOEXEC) {
            fd if fd >= 0 => File::from_raw_fd(fd),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A folder for one run, which is gone after it. The command runs in a folder below, where only its own files are.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    work: PathBuf,
    owned: bool,
}

impl Scratch {
    fn make(root: &Path, run_id: &str, user: Option<&User>) -> Result<Self, NotRun> {
        let folder = root.join(format!("punctual-{run_id}"));
        let work = folder.join("work");
        let made = DirBuilder::new().mode(0o700).create(&folder).and_then(|()| {
            let scratch = Self { folder: folder.clone(), work: work.clone(), owned: true };
            DirBuilder::new().mode(0o700).create(&work)?;
            for path in [&folder, &work] {
                user.map_or(Ok(()), |user| user::give(path, user))?;
            }
            Ok(scratch)
        });
        made.map_err(|error| NotRun::Failed(format!("cannot make the folder `{}`: {error}", folder.display())))
    }

    fn left_to_the_guard(mut self) -> Self {
        self.owned = false;
        self
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(mut self) {
        self.owned = false;
        remove(&self.folder);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.owned {
            remove(&self.folder);
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!("failed to remove {}: {error}", folder.as_os_str().as_bytes().escape_ascii());
    }
}
