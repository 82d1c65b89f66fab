//! Finds the guard's own children in `/proc`, and kills them.

#![expect(unsafe_code, reason = "the guard does system calls and nothing else")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "system calls take and give machine words, whatever they stand for"
)]

use super::{signal, sys};

/// Kills our own children; says how many there were. Those that have ended already do not count.
pub(super) unsafe fn kill() -> i64 {
    let mut killed: i64 = 0;
    unsafe {
        let me = sys(libc::SYS_getpid, [0; 5]) as i32;
        let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
        let at = libc::AT_FDCWD as isize as usize;
        let folder = sys(libc::SYS_openat, [at, c"/proc".as_ptr() as usize, flags, 0, 0]);
        let mut entries = [0u8; 4096];
        loop {
            let (start, len) = (entries.as_mut_ptr() as usize, entries.len());
            let read = sys(libc::SYS_getdents64, [folder as usize, start, len, 0, 0]);
            let Some(mut rest) = usize::try_from(read).ok().filter(|it| *it > 0).and_then(|it| entries.get(..it))
            else {
                break;
            };
            // Each entry: its length at 16, its name from 19.
            while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, name @ ..] = rest {
                let length = usize::from(u16::from_ne_bytes([*low, *high]));
                let pid = leading_number(name);
                if pid > 0 && is_living_child(pid, me) {
                    signal(pid as i32, libc::SIGKILL);
                    killed = killed.wrapping_add(1);
                }
                rest = rest.get(length.max(1)..).unwrap_or_default();
            }
        }
        sys(libc::SYS_close, [folder as usize, 0, 0, 0, 0]);
    }
    killed
}

/// The number a text begins with; 0 when there is none.
fn leading_number(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_usize, |number, digit| number.wrapping_mul(10).wrapping_add(usize::from(digit.wrapping_sub(b'0'))))
}

/// Whether a process has us as its parent and has not ended.
unsafe fn is_living_child(pid: usize, me: i32) -> bool {
    let mut path = [0u8; 40];
    write_stat_path(&mut path, pid);
    let mut stat = [0u8; 512];
    let read = unsafe {
        let (at, flags) = (libc::AT_FDCWD as isize as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
        let file = sys(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0]);
        if file < 0 {
            return false;
        }
        let read = sys(libc::SYS_read, [file as usize, stat.as_mut_ptr() as usize, stat.len(), 0, 0]);
        sys(libc::SYS_close, [file as usize, 0, 0, 0, 0]);
        read
    };
    let text = usize::try_from(read).ok().and_then(|it| stat.get(..it)).unwrap_or_default();
    // PID (NAME) STATE PARENT …, where the name may hold anything.
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else { return false };
    match text.get(end.wrapping_add(1)..) {
        Some([b' ', state, b' ', parent @ ..]) => *state != b'Z' && leading_number(parent) == me as usize,
        _ => false,
    }
}

/// Writes `/proc/PID/stat` with its end mark.
fn write_stat_path(path: &mut [u8; 40], pid: usize) {
    let mut digits = [0u8; 20];
    let (mut rest, mut count) = (pid, 0);
    for digit in &mut digits {
        *digit = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    let number = digits.iter().take(count).rev();
    let text = b"/proc/".iter().chain(number).chain(b"/stat");
    path.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
}
