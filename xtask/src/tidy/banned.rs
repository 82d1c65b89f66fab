//! Words that must not be in the repository, each with what to write instead.
//!
//! This file is the only one that may contain them.

use super::{File, Tree, place};

struct Ban {
    word: &'static str,
    instead: &'static str,
    /// Which files it holds for, by the end of their names; none means all.
    endings: &'static [&'static str],
}

/// Files that people write: a lock file's checksums may contain any word.
const WRITTEN: &[&str] = &["rs", "sql", "md", "toml", "ts", "svelte", "css", "html", "yml", "/run"];

const BANS: &[Ban] = &[
    Ban { word: "todo!", instead: "finish it, or leave it out", endings: &["rs"] },
    Ban { word: "unimplemented!", instead: "finish it, or leave it out", endings: &["rs"] },
    Ban { word: "dbg!", instead: "remove it", endings: &["rs"] },
    Ban { word: "#[ignore", instead: "a test that cannot run is an error; make it run or remove it", endings: &["rs"] },
    Ban { word: "FIXME", instead: "fix it, or file an issue", endings: WRITTEN },
    Ban { word: "XXX", instead: "say why in a sentence", endings: WRITTEN },
    Ban { word: "/work/", instead: "no path of one machine: make it relative", endings: &[] },
    Ban { word: "/root/", instead: "no path of one machine: make it relative", endings: &[] },
    Ban { word: "static.crates.io", instead: "name packages, not registries' hosts", endings: &[] },
    Ban { word: "index.crates.io", instead: "name packages, not registries' hosts", endings: &[] },
    Ban { word: "registry.npmjs.org", instead: "name packages, not registries' hosts", endings: &[] },
    Ban { word: "pypi.org", instead: "name packages, not registries' hosts", endings: &[] },
    Ban { word: "pythonhosted.org", instead: "name packages, not registries' hosts", endings: &[] },
    Ban { word: "deb.debian.org", instead: "name packages, not registries' hosts", endings: &[] },
    Ban {
        word: "\"resolved\": \"http",
        instead: "npm install with omit-lockfile-registry-resolved=true",
        endings: &["json"],
    },
];

const THIS_FILE: &str = "xtask/src/tidy/banned.rs";

pub fn check(tree: &Tree) -> Vec<String> {
    let files = tree.files.iter().filter(|file| file.path != THIS_FILE);
    files.flat_map(|file| BANS.iter().flat_map(move |ban| uses(ban, file))).collect()
}

fn uses(ban: &Ban, file: &File) -> Vec<String> {
    let applies = ban.endings.is_empty() || ban.endings.iter().any(|it| file.path.ends_with(it));
    if !applies {
        return Vec::new();
    }
    file.text
        .match_indices(ban.word)
        .map(|(at, word)| format!("{}: `{word}`: {}", place(file, at), ban.instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ban_bites() {
        for ban in BANS {
            let path = format!("some/file.{}", ban.endings.first().unwrap_or(&"md"));
            let text = format!("fine\nbefore {} after\n", ban.word);
            let findings = check(&Tree::of(&[(&path, &text)]));
            assert!(findings.iter().any(|it| it.contains(":2: ")), "{} is not found: {findings:?}", ban.word);
        }
    }

    #[test]
    fn ordinary_text_passes() {
        let tree = Tree::of(&[("a.rs", "//! A workplace.\nfn root() {}\n"), ("a.md", "`todo!` is for Rust only")]);
        assert!(check(&tree).is_empty());
    }
}
