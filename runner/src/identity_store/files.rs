//! Files of the state directory: read with bounds, replaced atomically, never followed by a surprise.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::key::{Key, KeyError};
use crate::regular_file;

/// The truth about the present certificate.
pub const IDENTITY: &str = "identity.json";
/// Key of the present certificate.
pub const KEY: &str = "key.pem";
/// Chain, for other programs.
pub const CERTIFICATE: &str = "certificate.pem";
/// Roots, for other programs.
pub const TRUST_BUNDLE: &str = "trust-bundle.pem";
/// Key of an unanswered request.
pub const PENDING_KEY: &str = "pending-key.pem";
/// What went wrong last.
pub const LAST_FAILURE: &str = "last-failure.json";
/// Held while a runner works here.
pub const LOCK: &str = "lock";
/// All that may be set aside.
pub const ALL: [&str; 6] = [IDENTITY, KEY, CERTIFICATE, TRUST_BUNDLE, PENDING_KEY, LAST_FAILURE];

/// Mode of secrets and of what only the runner reads.
pub const SECRET: u32 = 0o600;
/// Mode of what other programs read.
pub const EXPORT: u32 = 0o644;

/// No file of ours is larger.
const LARGEST: u64 = 1024 * 1024;

/// How often, and how far apart, the lock is tried: whoever only looks at it ([`is_locked`]) holds it for a moment.
const LOCK_TRIES: (u32, Duration) = (10, Duration::from_millis(20));

/// The sentence for an error of the file system.
fn failed(doing: &str, path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::configuration(format!("cannot {doing} {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => failure.hint(format!(
            "this process runs as uid {}; RUNNER_STATE_DIR must be a directory that it may write and that outlives it",
            rustix::process::geteuid().as_raw()
        )),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failure.hint("the file system is full"),
        io::ErrorKind::NotFound => failure
            .hint("if RUNNER_STATE_DIR was removed or mounted over while the runner works, restart it: it makes the directory anew"),
        _ => failure.hint("RUNNER_STATE_DIR names the state directory"),
    }
}

/// Makes the directory, for its owner only.
pub fn make_dir(dir: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let what = if dir.exists() { "is not a directory" } else { "is a link that leads nowhere" };
            Failure::configuration(format!("cannot use the state directory: {} {what}", dir.display()))
                .hint("RUNNER_STATE_DIR names the state directory")
        }
        _ => failed("make the state directory", dir, &error),
    })
}

/// Takes the lock, or says who has it. A link in its place is not followed: what it leads to would be overwritten.
pub fn lock(dir: &Path) -> Result<File, Failure> {
    let path = dir.join(LOCK);
    let flags = regular_file::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(SECRET)
        .custom_flags(flags)
        .open(&path);
    let mut file = opened.map_err(|error| failed("use the state directory: cannot open", &path, &error))?;
    match try_lock(&file) {
        Ok(()) => {
            let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            written.map_err(|error| failed("write", &path, &error))?;
            Ok(file)
        }
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.take(16).read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { String::new() } else { format!(" (process {})", holder.trim()) };
            Err(Failure::configuration(format!(
                "another runner{holder} works in the state directory {}",
                dir.display()
            ))
            .hint("give each runner a RUNNER_STATE_DIR of its own; `runner status` shows the identity there"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(failed("lock", &path, &error)),
    }
}

fn try_lock(file: &File) -> Result<(), std::fs::TryLockError> {
    let (tries, pause) = LOCK_TRIES;
    for _ in 1..tries {
        match file.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(pause),
            outcome => return outcome,
        }
    }
    file.try_lock()
}

/// Whether someone holds the lock.
pub fn is_locked(dir: &Path) -> bool {
    regular_file::open(&dir.join(LOCK))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

/// Whether something else than a file has the name of one: a directory, a pipe, a device.
pub fn is_no_file(dir: &Path, name: &str) -> bool {
    std::fs::metadata(dir.join(name)).is_ok_and(|kind| !kind.is_file())
}

/// Reads a file whole; `None` where there is none.
pub fn read(dir: &Path, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Failure> {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound};
    let path = dir.join(name);
    match regular_file::read(&path, LARGEST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory | InvalidInput) => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Reads a key; `None` where there is none, an error inside where it is no key.
pub fn key(dir: &Path, name: &str) -> Result<Option<Result<Key, KeyError>>, Failure> {
    Ok(read(dir, name)?.map(|bytes| std::str::from_utf8(&bytes).map_err(|_| KeyError).and_then(Key::from_pem)))
}

/// Replaces a file in one step: written beside it, synced, renamed over it.
pub fn replace(dir: &Path, name: &str, content: &[u8], mode: u32) -> Result<(), Failure> {
    let path = dir.join(name);
    let write = || -> io::Result<()> {
        let mut file =
            tempfile::Builder::new().prefix(".new-").permissions(Permissions::from_mode(mode)).tempfile_in(dir)?;
        file.write_all(content)?;
        // The umask may have taken bits off.
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        if mode == SECRET {
            file.as_file().sync_all()?;
        }
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| failed("write", &path, &error))
}

/// Renames within the directory.
pub fn rename(dir: &Path, from: &str, to: &str) -> Result<(), Failure> {
    std::fs::rename(dir.join(from), dir.join(to)).map_err(|error| failed("replace", &dir.join(to), &error))
}

/// Removes a file that may not be there.
pub fn remove(dir: &Path, name: &str) -> Result<(), Failure> {
    match std::fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &dir.join(name), &error)),
        _ => Ok(()),
    }
}

/// Makes renames durable.
pub fn sync_dir(dir: &Path) -> Result<(), Failure> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(|error| failed("sync", dir, &error))
}

/// Moves files into a new folder of the directory and returns its path.
pub fn set_aside(dir: &Path, names: &[&str]) -> Result<PathBuf, Failure> {
    let place = dir.join(super::set_aside_name(Timestamp::now()));
    make_dir(&place)?;
    for name in names {
        match std::fs::rename(dir.join(name), place.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("set aside", &dir.join(name), &error));
            }
            _ => {}
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_the_lock_keeps_no_runner_out() {
        let dir = tempfile::tempdir().unwrap();
        drop(lock(dir.path()).unwrap());
        let looking = File::open(dir.path().join(LOCK)).unwrap();
        looking.try_lock_shared().unwrap();
        let look = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(looking);
        });
        lock(dir.path()).unwrap();
        look.join().unwrap();
    }
}
