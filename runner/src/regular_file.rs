//! Reading files that somebody else may have put there: a pipe never makes the runner wait, a device never feeds it without end.
//!
//! What is read may be secret: it is wiped, and no part of it is left behind by growing.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use zeroize::Zeroizing;

/// Room beyond the size of a file, so that its end is seen without growing.
const SPARE: u64 = 64;

/// Opens a regular file, links followed. A directory is [`io::ErrorKind::IsADirectory`], anything else [`io::ErrorKind::InvalidInput`].
pub fn open(path: &Path) -> io::Result<File> {
    judge(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(flags(rustix::fs::OFlags::NONBLOCK)).open(path)?;
    // It may have been another one a moment ago.
    judge(&file.metadata()?)?;
    Ok(file)
}

/// Reads it whole, or as far as one byte beyond `largest`.
pub fn read(path: &Path, largest: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = open(path)?;
    let room = file.metadata()?.len().min(largest) + SPARE;
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(room).unwrap_or_default()));
    file.take(largest + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`OpenOptionsExt::custom_flags`] wants them.
pub fn flags(flags: rustix::fs::OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn judge(kind: &Metadata) -> io::Result<()> {
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}
