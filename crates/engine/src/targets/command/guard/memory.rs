//! Gives back the memory of the node that a fork has brought along.

#![expect(unsafe_code, reason = "the guard does system calls and nothing else")]
#![expect(clippy::cast_sign_loss, reason = "system calls take and give machine words, whatever they stand for")]

use super::sys;

/// What is kept of the stack below and above the guard's own frame.
const STACK_BELOW: usize = 64 << 10;
const STACK_ABOVE: usize = 256 << 10;

/// Smaller mappings are not worth a call.
const WORTH_IT: usize = 256 << 10;

/// Gives back the memory that came with the fork: all large anonymous mappings but what is in use here.
pub(super) unsafe fn give_back(arena: (usize, usize)) {
    let here = 0u8;
    let stack = (&raw const here) as usize;
    let own = unsafe { libc::__errno_location() } as usize;
    let kept = [arena, (stack.wrapping_sub(STACK_BELOW), stack.wrapping_add(STACK_ABOVE)), (own, own.wrapping_add(8))];
    unsafe {
        let (at, flags) = (libc::AT_FDCWD as isize as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
        let maps = sys(libc::SYS_openat, [at, c"/proc/self/maps".as_ptr() as usize, flags, 0, 0]);
        if maps < 0 {
            return;
        }
        let mut scan = MapScan::default();
        let mut text = [0u8; 4096];
        loop {
            let read = sys(libc::SYS_read, [maps as usize, text.as_mut_ptr() as usize, text.len(), 0, 0]);
            let Some(news) = usize::try_from(read).ok().filter(|it| *it > 0).and_then(|it| text.get(..it)) else {
                break;
            };
            for byte in news {
                if let Some((from, to)) = scan.take(*byte) {
                    drop_pages(from, to, &kept);
                }
            }
        }
        sys(libc::SYS_close, [maps as usize, 0, 0, 0, 0]);
    }
}

/// Reads `/proc/self/maps` byte by byte: `FROM-TO PERMS OFFSET DEVICE INODE PATH`.
#[derive(Default)]
struct MapScan {
    field: usize,
    from: usize,
    to: usize,
    perms: [u8; 4],
    inode: usize,
    path: [u8; 2],
    at: usize,
    /// Where the last file's mapping ended: what begins there is the rest of its data.
    file_end: usize,
}

impl MapScan {
    /// Takes one byte; at the end of a line, the mapping if it is private memory that was written to.
    fn take(&mut self, byte: u8) -> Option<(usize, usize)> {
        let ends_field = match self.field {
            0 => byte == b'-',
            1..=5 => byte == b' ',
            _ => false,
        };
        match byte {
            b'\n' => return self.end_line(),
            _ if ends_field => (self.field, self.at) = (self.field.wrapping_add(1), 0),
            // The path is set off by any number of spaces.
            b' ' if self.at == 0 => {}
            _ => self.put(byte),
        }
        None
    }

    fn put(&mut self, byte: u8) {
        let digit = match byte {
            b'0'..=b'9' => usize::from(byte.wrapping_sub(b'0')),
            b'a'..=b'f' => usize::from(byte.wrapping_sub(b'a')).wrapping_add(10),
            _ => 0,
        };
        match self.field {
            0 => self.from = self.from.wrapping_mul(16).wrapping_add(digit),
            1 => self.to = self.to.wrapping_mul(16).wrapping_add(digit),
            2 => self.perms.iter_mut().skip(self.at).take(1).for_each(|it| *it = byte),
            5 => self.inode = self.inode.wrapping_mul(10).wrapping_add(digit),
            6 => self.path.iter_mut().skip(self.at).take(1).for_each(|it| *it = byte),
            _ => {}
        }
        self.at = self.at.wrapping_add(1);
    }

    fn end_line(&mut self) -> Option<(usize, usize)> {
        let done = std::mem::take(self);
        self.file_end = if done.inode == 0 { done.file_end } else { done.to };
        // `[stack]` and what the kernel maps are left alone; `[heap]` and named memory are not.
        let memory = matches!(done.path, [0, _] | [b'[', b'h' | b'a']);
        let ours = done.inode == 0 && memory && done.perms == *b"rw-p" && done.from != done.file_end;
        (ours && done.to.wrapping_sub(done.from) >= WORTH_IT).then_some((done.from, done.to))
    }
}

/// Gives back the pages of a mapping, other than those that hold what is kept.
unsafe fn drop_pages(from: usize, to: usize, kept: &[(usize, usize); 3]) {
    const PAGE: usize = 64 << 10;
    let down = |at: usize| at & !(PAGE - 1);
    let mut from = from;
    while from < to {
        // The nearest kept range at or behind where we are.
        let next = kept.iter().filter(|it| it.1 > from && it.0 < to).min_by_key(|it| it.0);
        let until = next.map_or(to, |it| down(it.0).max(from));
        if until > from {
            unsafe { sys(libc::SYS_madvise, [from, until.wrapping_sub(from), libc::MADV_DONTNEED as usize, 0, 0]) };
        }
        from = next.map_or(to, |it| down(it.1).wrapping_add(PAGE));
    }
}
