//! Files that must not be read by others, and must never replace what is there.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A new directory, readable by its owner only. An empty one is taken as it is; one with files in it is refused.
pub fn new_directory(path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Io { what: format!("make {}", path.display()), error };
    match path.read_dir() {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::configuration(
                format!("{} is not empty; nothing was written", path.display()),
                "Keys are never overwritten: choose a new directory.",
            )),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut builder = DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Writes a new file that only its owner can read and write.
pub fn write_private(directory: &Path, name: &str, content: &str) -> Result<PathBuf, Failure> {
    write(directory, name, content, 0o600)
}

/// Writes a new file that everyone may read.
pub fn write_public(directory: &Path, name: &str, content: &str) -> Result<PathBuf, Failure> {
    write(directory, name, content, 0o644)
}

fn write(directory: &Path, name: &str, content: &str, mode: u32) -> Result<PathBuf, Failure> {
    let path = directory.join(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options
        .open(&path)
        .and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|error| Failure::Io { what: format!("write {}", path.display()), error })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_and_keys_are_private() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/b");
        new_directory(&directory).unwrap();
        new_directory(&directory).unwrap();
        let path = write_private(&directory, "key", "k").unwrap();
        assert!(write_private(&directory, "key", "other").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "k");
        assert!(new_directory(&directory).unwrap_err().to_string().contains("not empty"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&directory)), (0o600, 0o700));
        }
    }
}
