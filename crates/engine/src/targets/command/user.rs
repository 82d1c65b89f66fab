//! Users by name: who they are to the system, and which groups they are in.

#![expect(unsafe_code, reason = "the system's user database is asked in C")]

use super::child::User;
use std::ffi::{CStr, CString};
use std::io;

/// A user as the system knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: User,
    pub(super) name: String,
    pub(super) home: String,
}

/// Looks a user up by name or by number; `None` when there is none.
pub(super) fn look_up(name: &str) -> io::Result<Option<Account>> {
    let wanted = CString::new(name)?;
    let number = name.parse::<u32>().ok();
    let mut buffer = vec![0; 16 << 10];
    loop {
        // SAFETY: zeros are a valid passwd, and all pointers are to what lives here.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        let failed = unsafe {
            match number {
                Some(uid) => libc::getpwuid_r(uid, &raw mut entry, at, len, &raw mut found),
                None => libc::getpwnam_r(wanted.as_ptr(), &raw mut entry, at, len, &raw mut found),
            }
        };
        if failed == libc::ERANGE && buffer.len() < 1 << 20 {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: the entry was filled in, and its texts lie in the buffer.
        let text = |at| unsafe { CStr::from_ptr(at) };
        let groups = groups_of(text(entry.pw_name), entry.pw_gid);
        return Ok(Some(Account {
            user: User { uid: entry.pw_uid, gid: entry.pw_gid, groups },
            name: text(entry.pw_name).to_string_lossy().into_owned(),
            home: text(entry.pw_dir).to_string_lossy().into_owned(),
        }));
    }
}

fn groups_of(name: &CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
        // SAFETY: the list has room for `count` groups.
        let filled = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let needed = usize::try_from(count).unwrap_or(0);
        if filled >= 0 || needed <= groups.len() {
            groups.truncate(needed);
            return groups;
        }
        groups.resize(needed, 0);
    }
}

/// Gives a file or folder to a user.
pub(super) fn give(path: &std::path::Path, user: &User) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c13_users_are_found_by_name_and_by_number() {
        let root = look_up("root").unwrap().unwrap();
        assert_eq!((root.user.uid, root.user.gid, root.name.as_str()), (0, 0, "root"));
        assert!(root.user.groups.contains(&0));
        assert_eq!(look_up("0").unwrap().unwrap(), root);
        assert_eq!(look_up("no-such-user-here").unwrap(), None);
    }
}
