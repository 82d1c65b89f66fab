//! The node's side of a guarded command: lays out what the guard needs, starts it, and hears from it.

#![expect(unsafe_code, reason = "the guard is forked by hand, and its orders lie in memory of their own")]

use super::guard::{self, Identity, Limit, Message, Orders};
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdSocket;
use std::ptr::null;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A command that is ready to be started.
#[derive(Debug)]
pub(super) struct Launch {
    /// The paths that are tried.
    pub(super) programs: Vec<CString>,
    pub(super) argv: Vec<CString>,
    pub(super) envp: Vec<CString>,
    pub(super) cwd: Option<CString>,
    /// Resource and value.
    pub(super) limits: Vec<(u64, u64)>,
    pub(super) user: Option<User>,
    /// A folder that the guard removes when the node cannot.
    pub(super) scratch: Option<CString>,
    pub(super) stdin: OwnedFd,
    /// How long the node may be silent before the command is ended.
    pub(super) silence: Duration,
}

/// Whom a command runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// A command that was started, with the guard that watches over it. When it is dropped, the guard kills what is left.
#[derive(Debug)]
pub(super) struct Child {
    guard: GuardProcess,
    socket: UnixStream,
    pid: Option<i32>,
    failed: Option<Ending>,
    /// What has come of the next message.
    heard: Vec<u8>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
}

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It could not be started.
    NotStarted {
        /// What failed.
        stage: i64,
        /// Why.
        errno: i32,
    },
    /// It ran.
    Ended(Ended),
    /// The guard itself was killed.
    Unguarded,
}

/// What the guard counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// As `wait` reports it.
    pub(super) status: i32,
    pub(super) user_us: i64,
    pub(super) system_us: i64,
    pub(super) max_memory_kib: i64,
    /// Processes that were still there when it had ended.
    pub(super) left_behind: i64,
}

impl Child {
    /// Starts a command. Forking takes the longer the more memory the node has, so that this is not for a thread that
    /// others wait for.
    pub(super) fn start(launch: &Launch) -> io::Result<Started> {
        let (ours, theirs) = StdSocket::pair()?;
        ours.set_nonblocking(true)?;
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        // Above the standard ones, which a program may have closed: those are put into place one by one.
        let ends = [above_stdio(&launch.stdin)?, above_stdio(&stdout_end)?, above_stdio(&stderr_end)?];
        let socket = above_stdio(&theirs)?;
        let arena = Arena::of(launch)?;
        let orders = Orders {
            stdio: [ends[0].as_raw_fd(), ends[1].as_raw_fd(), ends[2].as_raw_fd()],
            socket: socket.as_raw_fd(),
            node: i32::try_from(std::process::id()).unwrap_or(0),
            silence_ms: i64::try_from(launch.silence.as_millis()).unwrap_or(i64::MAX / 2),
            ..arena.orders
        };
        // SAFETY: the orders lead into the arena, which lives until after the fork; the guard has a copy of it.
        let guard = unsafe { guard::fork(orders)? };
        let guard = GuardProcess(Some(guard));
        Ok(Started { guard, socket: ours, stdout: stdout.into(), stderr: stderr.into() })
    }

    /// Tells the guard that the node lives.
    pub(super) async fn reassure(&mut self) {
        self.say(guard::ALIVE).await;
    }

    /// Asks the command's group to end.
    pub(super) async fn terminate(&mut self) {
        self.say(guard::TERMINATE).await;
    }

    /// Ends the command and everything below it.
    pub(super) async fn kill(&mut self) {
        self.say(guard::KILL).await;
    }

    /// Lets the guard go: its folder has been removed.
    pub(super) async fn release(mut self) {
        self.say(guard::DONE).await;
        if let Some(guard) = self.guard.0.take() {
            let _joined = tokio::task::spawn_blocking(move || reap(guard)).await;
        }
    }

    async fn say(&mut self, word: u8) {
        // A guard that is gone is noticed by the end that it does not report.
        let _gone = self.socket.write_all(&[word]).await;
    }

    /// Waits for the end. When it comes, nothing of the command is left. May be dropped and asked again.
    pub(super) async fn end(&mut self) -> Ending {
        loop {
            match self.message().await {
                Some([guard::STARTED, pid, ..]) => self.pid = i32::try_from(pid).ok(),
                Some([guard::FAILED, stage, errno, ..]) => {
                    self.failed = Some(Ending::NotStarted { stage, errno: i32::try_from(errno).unwrap_or(0) });
                }
                Some([guard::ENDED, status, user_us, system_us, max_memory_kib, left_behind, ..]) => {
                    let status = i32::try_from(status).unwrap_or(0);
                    let ended = Ended { status, user_us, system_us, max_memory_kib, left_behind };
                    return self.failed.unwrap_or(Ending::Ended(ended));
                }
                Some(_) => {}
                None => break,
            }
        }
        if let (None, Some(pid)) = (self.failed, self.pid) {
            // SAFETY: a signal to a group that is, or was a moment ago, ours.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        self.failed.unwrap_or(Ending::Unguarded)
    }

    async fn message(&mut self) -> Option<Message> {
        const BYTES: usize = size_of::<Message>();
        while self.heard.len() < BYTES {
            let missing = BYTES - self.heard.len();
            let read = (&mut self.socket).take(missing as u64).read_buf(&mut self.heard).await;
            if read.ok()? == 0 {
                return None;
            }
        }
        let mut message = [0; 8];
        for (number, bytes) in message.iter_mut().zip(self.heard.as_chunks::<8>().0) {
            *number = i64::from_ne_bytes(*bytes);
        }
        self.heard.clear();
        Some(message)
    }
}

/// The guard's process: whoever lets go of it has somebody take in its end, which comes when its socket is closed.
#[derive(Debug)]
struct GuardProcess(Option<i32>);

impl Drop for GuardProcess {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            let reaper = std::thread::Builder::new().name("punctual-reaper".to_owned());
            if let Err(error) = reaper.spawn(move || reap(guard)) {
                tracing::warn!("failed to wait for the guard of a command: {error}");
            }
        }
    }
}

/// A command that was started outside the runtime.
#[derive(Debug)]
pub(super) struct Started {
    socket: StdSocket,
    guard: GuardProcess,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Started {
    /// Brings it into the runtime.
    pub(super) fn watch(self) -> io::Result<Child> {
        Ok(Child {
            guard: self.guard,
            socket: UnixStream::from_std(self.socket)?,
            pid: None,
            failed: None,
            heard: Vec::new(),
            stdout: Some(pipe::Receiver::from_owned_fd(self.stdout)?),
            stderr: Some(pipe::Receiver::from_owned_fd(self.stderr)?),
        })
    }
}

/// Takes in the end of a guard, which comes soon after its socket is closed.
fn reap(guard: i32) {
    let mut status = 0;
    loop {
        // SAFETY: the status is ours.
        let reaped = unsafe { libc::waitpid(guard, &raw mut status, 0) };
        // A program that takes in all its children itself may have been first.
        if reaped >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn above_stdio(end: &impl std::os::fd::AsFd) -> io::Result<OwnedFd> {
    // A clone never gets one of the first three numbers.
    end.as_fd().try_clone_to_owned()
}

/// Memory of its own for what the guard reads after it has given back everything else.
#[derive(Debug)]
struct Arena {
    start: *mut u8,
    len: usize,
    used: usize,
    orders: Orders,
}

impl Arena {
    fn of(launch: &Launch) -> io::Result<Self> {
        let removal = removal(launch);
        let lists = [&launch.programs, &launch.argv, &launch.envp, &removal];
        let texts = lists.iter().flat_map(|list| list.iter()).chain(&launch.cwd);
        let words = lists.iter().map(|list| list.len() + 1).sum::<usize>() + launch.limits.len() * 2;
        let groups = launch.user.as_ref().map_or(0, |user| user.groups.len());
        let len = texts.map(|text| text.count_bytes() + 1).sum::<usize>() + words * 8 + groups * 8 + 64;
        let mut arena = Self::mapped(len)?;
        let orders = Orders {
            programs: arena.list(&launch.programs),
            argv: arena.list(&launch.argv),
            envp: arena.list(&launch.envp),
            removal: if removal.is_empty() { null() } else { arena.list(&removal) },
            limits_len: launch.limits.len(),
            limits: arena.limits(&launch.limits),
            identity: launch.user.as_ref().map(|user| arena.identity(user)),
            cwd: launch.cwd.as_ref().map_or(null(), |cwd| arena.text(cwd)),
            ..arena.orders
        };
        arena.orders = orders;
        Ok(arena)
    }

    fn mapped(len: usize) -> io::Result<Self> {
        let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which nobody else knows.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, read_write, private, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let orders = Orders {
            programs: null(),
            argv: null(),
            envp: null(),
            cwd: null(),
            limits: null(),
            limits_len: 0,
            identity: None,
            removal: null(),
            stdio: [-1; 3],
            socket: -1,
            node: 0,
            silence_ms: 0,
            arena: (start as usize, start as usize + len),
        };
        Ok(Self { start: start.cast(), len, used: 0, orders })
    }

    /// Copies values in; hands back where they are.
    fn put<T: Copy>(&mut self, values: &[T]) -> *const T {
        let at = self.used.next_multiple_of(align_of::<T>());
        let bytes = size_of_val(values);
        assert!(at + bytes <= self.len, "the arena was measured before it was filled");
        self.used = at + bytes;
        // SAFETY: the place is within the mapping, aligned, and nobody else's.
        unsafe {
            let place = self.start.add(at).cast::<T>();
            std::ptr::copy_nonoverlapping(values.as_ptr(), place, values.len());
            place
        }
    }

    fn text(&mut self, text: &CStr) -> *const c_char {
        self.put(text.to_bytes_with_nul()).cast()
    }

    /// A list of texts that ends with null.
    fn list(&mut self, texts: &[CString]) -> *const *const c_char {
        let mut places: Vec<_> = texts.iter().map(|text| self.text(text)).collect();
        places.push(null());
        self.put(&places)
    }

    fn limits(&mut self, limits: &[(u64, u64)]) -> *const Limit {
        let limits: Vec<_> =
            limits.iter().map(|(resource, value)| Limit { resource: *resource, value: *value }).collect();
        self.put(&limits)
    }

    fn identity(&mut self, user: &User) -> Identity {
        let groups = self.put(&user.groups);
        Identity { uid: user.uid, gid: user.gid, groups, groups_len: user.groups.len() }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the guard has a copy of its own.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

fn removal(launch: &Launch) -> Vec<CString> {
    let Some(folder) = &launch.scratch else { return Vec::new() };
    vec![c"rm".to_owned(), c"-rf".to_owned(), c"--".to_owned(), folder.clone()]
}
