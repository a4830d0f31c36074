//! The verifier's storage on disk, opened while the verifier is stopped.

use std::path::{Path, PathBuf};

use edge_tests::stack::Stack;
use rusqlite::Connection;

fn databases(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            databases(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "sqlite") {
            found.push(path);
        }
    }
}

/// Runs `work` on the database of the one tenant that has runners.
#[track_caller]
pub fn tenant<T>(stack: &Stack, work: impl FnOnce(&Connection) -> T) -> T {
    let mut found = Vec::new();
    databases(&stack.folder().join("state"), &mut found);
    let holds_runners = |path: &PathBuf| {
        let sql = Connection::open(path).ok()?;
        let runners = sql.query_row("SELECT COUNT(*) FROM runners", [], |row| row.get::<_, i64>(0)).ok()?;
        (runners > 0).then_some(sql)
    };
    let sql = found.iter().find_map(holds_runners);
    work(&sql.unwrap_or_else(|| panic!("no tenant has runners in {found:?}")))
}
