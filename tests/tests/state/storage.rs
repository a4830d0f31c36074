//! The verifier's storage on disk, opened while the verifier is stopped.

use std::path::{Path, PathBuf};

use edge_tests::stack::Stack;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// The object of the one tenant that has runners.
pub const WITH_RUNNERS: &str = "SELECT COUNT(*) FROM runners";
/// The object of the one tenant that has tokens.
pub const WITH_TOKENS: &str = "SELECT COUNT(*) FROM tokens";
/// The `Revocation` object, once a CRL was asked for.
pub const REVOCATION: &str = "SELECT COUNT(*) FROM number";
/// The `Policy` object.
pub const POLICY: &str = "SELECT COUNT(*) FROM policy";

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

fn all(stack: &Stack) -> Vec<PathBuf> {
    let mut found = Vec::new();
    databases(&stack.folder().join("state"), &mut found);
    found
}

/// How many objects have storage; the verifier may run.
pub fn count(stack: &Stack) -> usize {
    all(stack).len()
}

/// Runs `work` on the database of the one object that counts something by `sign`.
#[track_caller]
pub fn object<T>(stack: &Stack, sign: &str, work: impl FnOnce(&Connection) -> T) -> T {
    let found = all(stack);
    let is_meant = |path: &PathBuf| {
        let sql = Connection::open(path).ok()?;
        let count = sql.query_row(sign, [], |row| row.get::<_, i64>(0)).ok()?;
        (count > 0).then_some(sql)
    };
    let meant: Vec<Connection> = found.iter().filter_map(is_meant).collect();
    let [sql] = &meant[..] else { panic!("{sign}: {} of {found:?}", meant.len()) };
    work(sql)
}

/// Names of what the object made, in the order in which it can be made again. What begins with `_cf_` is the platform's.
fn own(sql: &Connection, kinds: &str) -> Vec<(String, String)> {
    let made = format!(
        "SELECT name, sql FROM sqlite_master WHERE type IN ({kinds}) AND sql IS NOT NULL \
         AND substr(name, 1, 4) <> '_cf_' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY type DESC, name"
    );
    let mut statement = sql.prepare(&made).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Everything that the object made, as a script that makes it again.
pub fn dump(sql: &Connection) -> String {
    let mut script = Vec::new();
    for (table, made) in own(sql, "'table'") {
        script.push(format!("{made};\n"));
        let mut statement = sql.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> = (0..columns).map(|column| literal(row.get_ref(column).unwrap())).collect();
            script.push(format!("INSERT INTO \"{table}\" VALUES ({});\n", values.join(", ")));
        }
    }
    for (_, made) in own(sql, "'index', 'view'") {
        script.push(format!("{made};\n"));
    }
    script.concat()
}

fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''")),
        other => panic!("the objects store no {other:?}"),
    }
}

/// Puts what `script` makes in the place of everything that the object made.
pub fn restore(sql: &Connection, script: &str) {
    let transaction = sql.unchecked_transaction().unwrap();
    for (table, _) in own(&transaction, "'table'") {
        transaction.execute_batch(&format!("DROP TABLE \"{table}\"")).unwrap();
    }
    transaction.execute_batch(script).unwrap();
    transaction.commit().unwrap();
}

/// Lets `seconds` pass, back where negative: moves every time that a row holds.
pub fn shift_times(sql: &Connection, seconds: i64) {
    for (table, _) in own(sql, "'table'") {
        let mut statement = sql.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        let columns: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for column in columns {
            // No other number is as large as a time of this century.
            let update = format!(
                "UPDATE \"{table}\" SET \"{column}\" = \"{column}\" + ?1 \
                 WHERE typeof(\"{column}\") = 'integer' AND \"{column}\" > 1000000000"
            );
            sql.execute(&update, [seconds]).unwrap();
        }
    }
}
