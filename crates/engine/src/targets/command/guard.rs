//! The guard: a small process between the node and a command, so that nothing of the command outlives its run.
//!
//! It is forked from the node and never executes anything else, so that it works in any program that embeds the
//! engine. It is the parent of the command and the reaper of everything below it (`PR_SET_CHILD_SUBREAPER`): a
//! process that leaves its group or session and loses its parent becomes the guard's own child, and is found. When the
//! command has ended, when the node says so, when the node is gone (a socket that closes, however the node died;
//! `PR_SET_PDEATHSIG` would follow the *thread* that forked), or when it has been silent for so long that others may
//! have taken its work over, it kills what is left, round by round, until it has no child any more.
//!
//! After a fork in a program with threads, nothing may be used that could wait for a lock of theirs: everything here
//! is system calls on memory that was laid out before. What the node's memory held is given back at once, so that a
//! guard costs next to nothing, and the command's peak memory is its own.

#![expect(unsafe_code, reason = "a forked process of a program with threads may do system calls and nothing else")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "system calls take and give machine words, whatever they stand for"
)]

mod children;
mod memory;

use libc::{c_char, c_int, c_long, pollfd, rusage, timespec};
use std::ptr::{null, null_mut};

/// What a message is about.
pub(super) const STARTED: i64 = 1;
pub(super) const FAILED: i64 = 2;
pub(super) const ENDED: i64 = 3;

/// What the node asks for.
pub(super) const TERMINATE: u8 = b'T';
pub(super) const KILL: u8 = b'K';
pub(super) const DONE: u8 = b'D';
/// What the node says from time to time, so that the guard knows that it lives.
pub(super) const ALIVE: u8 = b'A';

/// What a command fails at before it is itself.
pub(super) const AT_FORK: i64 = 1;
pub(super) const AT_STDIO: i64 = 2;
pub(super) const AT_LIMITS: i64 = 3;
pub(super) const AT_USER: i64 = 4;
pub(super) const AT_FOLDER: i64 = 5;
pub(super) const AT_EXEC: i64 = 6;

/// A message to the node: its kind, and numbers.
pub(super) type Message = [i64; 8];

/// How often a busy program file is tried again, and how long to wait in between.
const BUSY_TRIES: u32 = 50;
const BUSY_WAIT: timespec = timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How long a round of killing waits before it looks again.
const ROUND: timespec = timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A resource limit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) resource: u64,
    pub(super) value: u64,
}

/// Whom the command runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: *const u32,
    pub(super) groups_len: usize,
}

/// Everything the guard needs to know. All pointers lead into the arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orders {
    /// The paths that are tried, one after the other; ends with null.
    pub(super) programs: *const *const c_char,
    pub(super) argv: *const *const c_char,
    pub(super) envp: *const *const c_char,
    pub(super) cwd: *const c_char,
    pub(super) limits: *const Limit,
    pub(super) limits_len: usize,
    pub(super) identity: Option<Identity>,
    /// `rm -rf -- FOLDER`, or null.
    pub(super) removal: *const *const c_char,
    pub(super) stdio: [c_int; 3],
    pub(super) socket: c_int,
    /// The node's process.
    pub(super) node: i32,
    /// How long the node may be silent, in milliseconds.
    pub(super) silence_ms: i64,
    pub(super) arena: (usize, usize),
}

/// What has become of the command.
struct Watch {
    orders: Orders,
    command: i32,
    /// Its status, once it has ended.
    status: Option<i64>,
    /// Processes that had to be killed after it had ended.
    left_behind: i64,
    node_gone: bool,
}

/// Forks the guard; hands back its process id.
///
/// # Safety
/// The orders' pointers must lead into mapped memory within `orders.arena`, with lists that end with null.
pub(super) unsafe fn fork(orders: Orders) -> std::io::Result<i32> {
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // No handler of the program may run in the guard.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    // The bare call: handlers that libraries of the program have registered for a fork are not for this one.
    let pid = unsafe { sys(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0]) };
    if pid == 0 {
        unsafe { stand_guard(&orders) };
    }
    let error = std::io::Error::last_os_error();
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(error)
}

/// One system call; negative is an error.
unsafe fn sys(number: c_long, args: [usize; 5]) -> isize {
    unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4]) as isize }
}

unsafe fn errno() -> i64 {
    i64::from(unsafe { *libc::__errno_location() })
}

unsafe fn exit(code: usize) -> ! {
    loop {
        unsafe { sys(libc::SYS_exit_group, [code, 0, 0, 0, 0]) };
    }
}

unsafe fn tell(socket: c_int, message: Message) {
    let bytes = size_of::<Message>();
    // A node that is gone is noticed elsewhere.
    let flags = libc::MSG_NOSIGNAL as usize;
    unsafe { sys(libc::SYS_sendto, [socket as usize, message.as_ptr() as usize, bytes, flags, 0]) };
}

/// The guard's whole life.
unsafe fn stand_guard(orders: &Orders) -> ! {
    let orders = *orders;
    unsafe {
        // A signal to the node's group or from its terminal is not for us.
        sys(libc::SYS_setsid, [0; 5]);
        sys(libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER as usize, 1, 0, 0, 0]);
        sys(libc::SYS_prctl, [libc::PR_SET_NAME as usize, c"punctual-guard".as_ptr() as usize, 0, 0, 0]);
        default_signals();
        let children = children_told();
        let node = sys(libc::SYS_pidfd_open, [orders.node as usize, 0, 0, 0, 0]);
        memory::give_back(orders.arena);
        let command = sys(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0]);
        if command == 0 {
            become_command(&orders);
        }
        if command < 0 {
            tell(orders.socket, [FAILED, AT_FORK, errno(), 0, 0, 0, 0, 0]);
            exit(1);
        }
        let socket = keep_only([orders.socket, children, node as c_int]);
        tell(socket, [STARTED, command as i64, 0, 0, 0, 0, 0, 0]);
        let mut watch = Watch { orders, command: command as i32, status: None, left_behind: 0, node_gone: false };
        watch.until_ended();
        watch.kill_all();
        watch.report_and_leave()
    }
}

/// Ends every disposition that the program has set: an ignored SIGCHLD would hide the command's end.
unsafe fn default_signals() {
    // The kernel's own structure, of which zeros mean the default action and no flags.
    let default = [0u64; 4];
    for signal in 1..=64 {
        unsafe { sys(libc::SYS_rt_sigaction, [signal, default.as_ptr() as usize, 0, 8, 0]) };
    }
}

/// A descriptor that can be read when a child has changed; all signals are blocked.
unsafe fn children_told() -> c_int {
    let mask: u64 = 1 << (libc::SIGCHLD - 1);
    let flags = (libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as usize;
    unsafe { sys(libc::SYS_signalfd4, [usize::MAX, (&raw const mask) as usize, 8, flags, 0]) as c_int }
}

/// Closes everything the node had open but these, which become 0, 1 and 2; hands back the first.
unsafe fn keep_only(kept: [c_int; 3]) -> c_int {
    unsafe {
        // Above all others first, so that none is overwritten before it is moved.
        let high = kept.map(|fd| sys(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 3, 0, 0]));
        for (to, fd) in (0_usize..).zip(high) {
            if fd < 0 {
                sys(libc::SYS_close, [to, 0, 0, 0, 0]);
            } else {
                sys(libc::SYS_dup3, [fd as usize, to, 0, 0, 0]);
            }
        }
        close_from(3, 0);
    }
    0
}

/// Closes all descriptors from a number on, or marks them to be closed by exec.
unsafe fn close_from(first: usize, flags: usize) {
    if unsafe { sys(libc::SYS_close_range, [first, u32::MAX as usize, flags, 0, 0]) } == 0 {
        return;
    }
    // Kernels older than 5.11.
    for fd in first..65_536 {
        if flags == 0 {
            unsafe { sys(libc::SYS_close, [fd, 0, 0, 0, 0]) };
        } else {
            unsafe { sys(libc::SYS_fcntl, [fd, libc::F_SETFD as usize, libc::FD_CLOEXEC as usize, 0, 0]) };
        }
    }
}

/// Becomes the command; what stands in its way is told.
unsafe fn become_command(orders: &Orders) -> ! {
    unsafe {
        sys(libc::SYS_setsid, [0; 5]);
        for (to, fd) in (0_usize..).zip(orders.stdio) {
            if sys(libc::SYS_dup3, [fd as usize, to, 0, 0, 0]) < 0 {
                give_up(orders, AT_STDIO);
            }
        }
        close_from(3, libc::CLOSE_RANGE_CLOEXEC as usize);
        for at in 0..orders.limits_len {
            let Limit { resource, value } = *orders.limits.add(at);
            let limit = [value, value];
            if sys(libc::SYS_prlimit64, [0, resource as usize, limit.as_ptr() as usize, 0, 0]) < 0 {
                give_up(orders, AT_LIMITS);
            }
        }
        if let Some(who) = orders.identity {
            let (uid, gid) = (who.uid as usize, who.gid as usize);
            if sys(libc::SYS_setgroups, [who.groups_len, who.groups as usize, 0, 0, 0]) < 0
                || sys(libc::SYS_setresgid, [gid, gid, gid, 0, 0]) < 0
                || sys(libc::SYS_setresuid, [uid, uid, uid, 0, 0]) < 0
            {
                give_up(orders, AT_USER);
            }
        }
        if !orders.cwd.is_null() && sys(libc::SYS_chdir, [orders.cwd as usize, 0, 0, 0, 0]) < 0 {
            give_up(orders, AT_FOLDER);
        }
        let nothing: u64 = 0;
        sys(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, (&raw const nothing) as usize, 0, 8, 0]);
        execute(orders)
    }
}

/// Tries the paths one after the other, as a shell would; the first error that says more than "not here" stands.
unsafe fn execute(orders: &Orders) -> ! {
    let mut told = i64::from(libc::ENOENT);
    let mut at = 0;
    loop {
        let program = unsafe { *orders.programs.add(at) };
        if program.is_null() {
            break;
        }
        let mut tries = 0;
        let error = loop {
            unsafe { sys(libc::SYS_execve, [program as usize, orders.argv as usize, orders.envp as usize, 0, 0]) };
            let error = unsafe { errno() };
            tries += 1;
            // Another thread of the node wrote it, and a process that was forked meanwhile has it open yet.
            if error != i64::from(libc::ETXTBSY) || tries >= BUSY_TRIES {
                break error;
            }
            let wait = BUSY_WAIT;
            unsafe { sys(libc::SYS_nanosleep, [(&raw const wait) as usize, 0, 0, 0, 0]) };
        };
        let not_here = [libc::ENOENT, libc::ENOTDIR].iter().any(|it| i64::from(*it) == error);
        if !not_here && error != i64::from(libc::EACCES) {
            told = error;
            break;
        }
        if !not_here {
            told = error;
        }
        at += 1;
    }
    unsafe {
        tell(orders.socket, [FAILED, AT_EXEC, told, 0, 0, 0, 0, 0]);
        exit(127)
    }
}

unsafe fn give_up(orders: &Orders, stage: i64) -> ! {
    unsafe {
        tell(orders.socket, [FAILED, stage, errno(), 0, 0, 0, 0, 0]);
        exit(127)
    }
}

impl Watch {
    /// Waits for the command's end, or for the word to bring it about.
    unsafe fn until_ended(&mut self) {
        let mut silent_at = unsafe { now_ms() }.wrapping_add(self.orders.silence_ms);
        loop {
            let left = silent_at.wrapping_sub(unsafe { now_ms() });
            if left <= 0 {
                return;
            }
            let at_most = timespec { tv_sec: left / 1000, tv_nsec: left % 1000 * 1_000_000 };
            let [socket, _, node] = unsafe { wait_for([0, 1, 2], Some(at_most)) };
            if node {
                self.node_gone = true;
                return;
            }
            if socket {
                silent_at = unsafe { now_ms() }.wrapping_add(self.orders.silence_ms);
                match unsafe { heard() } {
                    Some(ALIVE) => {}
                    Some(TERMINATE) => unsafe { signal(-self.command, libc::SIGTERM) },
                    Some(_) => return,
                    None => {
                        self.node_gone = true;
                        return;
                    }
                }
            }
            unsafe { self.reap() };
            if self.status.is_some() {
                return;
            }
        }
    }

    /// Takes in whoever has ended; says whether anybody is left.
    unsafe fn reap(&mut self) -> bool {
        let mut news = [0u8; 128];
        unsafe { sys(libc::SYS_read, [1, news.as_mut_ptr() as usize, news.len(), 0, 0]) };
        loop {
            let mut status: c_int = 0;
            let at = (&raw mut status) as usize;
            let pid = unsafe { sys(libc::SYS_wait4, [usize::MAX, at, libc::WNOHANG as usize, 0, 0]) };
            match pid {
                0 => return true,
                pid if pid < 0 => return false,
                pid if pid as i32 == self.command => self.status = Some(i64::from(status)),
                _ => {}
            }
        }
    }

    /// Kills everybody below, round by round: whoever loses a parent becomes our child, and is found in the next.
    unsafe fn kill_all(&mut self) {
        let ended_by_itself = self.status.is_some();
        unsafe {
            signal(-self.command, libc::SIGKILL);
            while self.reap() {
                let killed = children::kill();
                if ended_by_itself {
                    self.left_behind = self.left_behind.wrapping_add(killed);
                }
                signal(-self.command, libc::SIGKILL);
                wait_for([-1, 1, -1], Some(ROUND));
            }
        }
    }

    /// Tells how it ended, and goes. A folder that nobody else would remove any more is removed.
    unsafe fn report_and_leave(&mut self) -> ! {
        unsafe {
            let mut all: rusage = std::mem::zeroed();
            sys(libc::SYS_getrusage, [libc::RUSAGE_CHILDREN as usize, (&raw mut all) as usize, 0, 0, 0]);
            let micros = |time: libc::timeval| time.tv_sec.wrapping_mul(1_000_000).wrapping_add(time.tv_usec);
            let status = self.status.unwrap_or(0);
            let (user, system) = (micros(all.ru_utime), micros(all.ru_stime));
            tell(0, [ENDED, status, user, system, all.ru_maxrss, self.left_behind, 0, 0]);
            if self.orders.removal.is_null() {
                exit(0);
            }
            while !self.node_gone {
                let [socket, _, node] = wait_for([0, -1, 2], None);
                if socket {
                    match heard() {
                        Some(DONE) => exit(0),
                        Some(_) => {}
                        None => self.node_gone = true,
                    }
                }
                self.node_gone |= node;
            }
            let nothing: [*const c_char; 1] = [null()];
            for rm in [c"/bin/rm", c"/usr/bin/rm"] {
                let (program, argv) = (rm.as_ptr() as usize, self.orders.removal as usize);
                sys(libc::SYS_execve, [program, argv, nothing.as_ptr() as usize, 0, 0]);
            }
            exit(1)
        }
    }
}

/// Waits until one of the descriptors has something to say, or the time is over; which of them have.
unsafe fn wait_for(fds: [c_int; 3], at_most: Option<timespec>) -> [bool; 3] {
    let mut asked = fds.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 });
    // The kernel writes into it what is left of the time.
    let mut time = at_most.unwrap_or(ROUND);
    let limit = if at_most.is_some() { (&raw mut time) as usize } else { 0 };
    let ready = unsafe { sys(libc::SYS_ppoll, [asked.as_mut_ptr() as usize, 3, limit, 0, 8]) };
    if ready <= 0 {
        return [false; 3];
    }
    // A descriptor that is not there (an old kernel has none for processes) says nothing.
    asked.map(|it| it.revents != 0 && it.revents & libc::POLLNVAL == 0)
}

/// Milliseconds on a clock that nobody can set.
unsafe fn now_ms() -> i64 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { sys(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, (&raw mut time) as usize, 0, 0, 0]) };
    time.tv_sec.wrapping_mul(1000).wrapping_add(time.tv_nsec / 1_000_000)
}

/// The node's next word; `None` when it is gone.
unsafe fn heard() -> Option<u8> {
    let mut word = 0u8;
    let read = unsafe { sys(libc::SYS_read, [0, (&raw mut word) as usize, 1, 0, 0]) };
    (read == 1).then_some(word)
}

unsafe fn signal(pid: i32, signal: c_int) {
    unsafe { sys(libc::SYS_kill, [pid as isize as usize, signal as usize, 0, 0, 0]) };
}
