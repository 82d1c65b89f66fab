//! Files that a command leaves in its declared folder, kept with the run.

use punctual_core::execute::RunContext;
use punctual_core::records::{ARTIFACT_MAX_BYTES, LogStream};
use punctual_core::store::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most files of one run.
const FILES_MAX: usize = 1000;

/// The most bytes of one run.
const RUN_MAX_BYTES: usize = 4 * ARTIFACT_MAX_BYTES;

/// Keeps the folder's files, in order of their names; what is not kept is told in the log.
pub(super) async fn keep(run: &RunContext, folder: PathBuf) {
    let listing = folder.clone();
    let Ok(files) = tokio::task::spawn_blocking(move || list(&listing)).await else { return };
    if files.len() > FILES_MAX {
        let words = format!("the artifact folder has more than {FILES_MAX} files: only the first {FILES_MAX} are kept");
        run.log(LogStream::System, words);
    }
    let mut room = RUN_MAX_BYTES;
    for file in files.into_iter().take(FILES_MAX) {
        let name = file.strip_prefix(&folder).unwrap_or(&file).to_string_lossy().replace('\0', "\u{fffd}");
        match keep_one(run, &name, file, room).await {
            Ok(kept) => room -= kept,
            Err(why) => run.log(LogStream::System, format!("the artifact `{name}` was not kept: {why}")),
        }
    }
}

async fn keep_one(run: &RunContext, name: &str, file: PathBuf, room: usize) -> Result<usize, String> {
    let contents =
        tokio::task::spawn_blocking(move || read(&file, room)).await.map_err(|error| error.to_string())??;
    let size = contents.len();
    run.reports.add_artifact(name, contents).await.map_err(|error: StoreError| error.to_string())?;
    Ok(size)
}

/// All ordinary files below a folder; links are not followed, because they may lead anywhere.
fn list(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A folder that cannot be read has nothing to keep.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
        if files.len() > FILES_MAX {
            break;
        }
    }
    files.sort();
    files
}

fn read(path: &Path, room: usize) -> Result<Vec<u8>, String> {
    let limit = room.min(ARTIFACT_MAX_BYTES);
    let file = open(path).map_err(|error| error.to_string())?;
    let mut contents = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut contents).map_err(|error| error.to_string())?;
    if contents.len() > limit {
        return Err(format!(
            "it is larger than {limit} bytes; at most {ARTIFACT_MAX_BYTES} of a file and {RUN_MAX_BYTES} of a run are kept"
        ));
    }
    Ok(contents)
}

/// Opens an ordinary file: nothing that could have been put in its place meanwhile, and nothing that would wait.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    Ok(file)
}
