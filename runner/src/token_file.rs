//! Reading a secret or token from a file that someone else writes.
//!
//! The file is opened by its path every time, because the kubelet swaps projected files through a symlink. A byte order mark and
//! white space around the token are taken off. Each thing that can be wrong is its own [`TokenFileError`].

use std::path::Path;

use zeroize::Zeroizing;

use crate::regular_file;

/// Largest token that the protocol lets through ([`protocol::limits::JWT`]).
const LARGEST: usize = protocol::limits::JWT;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// Nothing there, or a dangling link.
    #[error("the file does not exist")]
    Missing,
    /// The kernel does not let this user read it.
    #[error("permission denied")]
    Permission,
    /// A directory: usually the mount point instead of the file in it.
    #[error("it is a directory, not a file")]
    Directory,
    /// A pipe, socket or device.
    #[error("it is not a regular file")]
    NotAFile,
    /// Another error of the system.
    #[error("{0}")]
    Io(std::io::Error),
    /// Nothing but white space.
    #[error("the file is empty")]
    Empty,
    /// More than any token has.
    #[error("the file is larger than {LARGEST} bytes: it does not hold a token")]
    TooLarge,
    /// Not one run of visible ASCII.
    #[error("the file does not hold one line of text")]
    NotText,
}

impl From<std::io::Error> for TokenFileError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Self::Missing,
            std::io::ErrorKind::PermissionDenied => Self::Permission,
            std::io::ErrorKind::IsADirectory => Self::Directory,
            std::io::ErrorKind::InvalidInput => Self::NotAFile,
            _ => Self::Io(error),
        }
    }
}

/// Reads the token at `path`.
pub fn read(path: &Path) -> Result<Zeroizing<String>, TokenFileError> {
    // Room for what surrounds it.
    clean(&regular_file::read(path, LARGEST as u64 + 16)?)
}

/// Takes off a byte order mark and surrounding white space.
pub fn clean(bytes: &[u8]) -> Result<Zeroizing<String>, TokenFileError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    if text.is_empty() {
        return Err(TokenFileError::Empty);
    }
    if text.len() > LARGEST {
        return Err(TokenFileError::TooLarge);
    }
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(TokenFileError::NotText);
    }
    String::from_utf8(text.to_vec()).map(Zeroizing::new).map_err(|_| TokenFileError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_and_shells_add_is_taken_off() {
        for text in ["a.b.c", "a.b.c\n", "a.b.c\r\n", "\u{feff}a.b.c", "\u{feff}a.b.c\r\n", "  a.b.c\t\n"] {
            assert_eq!(clean(text.as_bytes()).unwrap().as_str(), "a.b.c", "{text:?}");
        }
    }

    #[test]
    fn each_fault_has_its_own_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            read(&path).unwrap_err()
        };
        assert!(matches!(file("empty", b""), TokenFileError::Empty));
        assert!(matches!(file("blank", b" \r\n"), TokenFileError::Empty));
        assert!(matches!(file("bom", b"\xef\xbb\xbf\n"), TokenFileError::Empty));
        assert!(matches!(file("two", b"a\nb"), TokenFileError::NotText));
        assert!(matches!(file("binary", b"a\xffb"), TokenFileError::NotText));
        assert!(matches!(file("large", &vec![b'a'; LARGEST + 1]), TokenFileError::TooLarge));
        assert!(matches!(read(dir.path()).unwrap_err(), TokenFileError::Directory));
        assert!(matches!(read(&dir.path().join("none")).unwrap_err(), TokenFileError::Missing));
        assert!(matches!(read(&dir.path().join("empty/none")).unwrap_err(), TokenFileError::Missing));
        assert!(matches!(read(Path::new("/dev/null")).unwrap_err(), TokenFileError::NotAFile));
    }
}
