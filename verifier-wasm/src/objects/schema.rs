//! Versioned schemas: a list of scripts, applied in order, once. A released script never changes; a change is a new script.

use verifier::registry::StoreError;

use super::sql::{Sql, unreadable};

/// Where the version is kept, in a table that every object has.
const META: &str = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";

/// The `Tenant` object. Version 2 numbers audit events without AUTOINCREMENT, which keeps the number in a row of its own: each event was two
/// rows written, of the ten of an enrolment and the eight of a renewal. It copies a million events at most.
pub const TENANT: &[&str] = &[include_str!("schema/tenant_1.sql"), include_str!("schema/tenant_2.sql")];
/// The `Policy` object.
pub const POLICY: &[&str] = &[include_str!("schema/policy_1.sql")];
/// The `Revocation` object.
pub const REVOCATION: &[&str] = &[include_str!("schema/revocation_1.sql")];

/// Whether any version was ever put in place.
pub fn is_present(sql: &dyn Sql) -> Result<bool, StoreError> {
    Ok(!sql.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'", &[])?.is_empty())
}

/// Brings the storage to the last version; whatever is newer than this code is refused.
pub fn migrate(sql: &dyn Sql, scripts: &[&str]) -> Result<(), StoreError> {
    sql.script(META)?;
    let rows = sql.query("SELECT value FROM meta WHERE name = 'schema'", &[])?;
    let version = match rows.into_iter().next() {
        Some(mut row) => row.text()?.parse::<usize>().map_err(|_| unreadable("a schema version"))?,
        None => 0,
    };
    let Some(missing) = scripts.get(version..) else {
        return Err(StoreError::Corrupt(format!("schema {version} is newer than this version of the verifier")));
    };
    if missing.is_empty() {
        return Ok(());
    }
    for script in missing {
        sql.script(script)?;
    }
    let version = scripts.len().to_string();
    sql.query("INSERT OR REPLACE INTO meta (name, value) VALUES ('schema', ?)", &[version.as_str().into()])?;
    Ok(())
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use rusqlite::Connection;
    use verifier::encoding::{hex, sha256};

    use super::*;

    fn database() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn described(sql: &Connection) -> Vec<String> {
        sql.query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name", &[])
            .unwrap()
            .into_iter()
            .map(|mut row| row.text().unwrap())
            .collect()
    }

    /// Storage written by a released version must stay readable: change a schema by a new script, and add its hash here.
    #[test]
    fn released_scripts_never_change() {
        let pinned: [(_, &[&str]); 3] = [
            (
                TENANT,
                &[
                    "a3b46533b92cad224c2c21242a8578b4bfefa394b66816c8241324db0a28f2be",
                    "ede420f6748b2acc1c41edd01db1c3dffd0419067edba95a4ba73936d99c49f2",
                ],
            ),
            (POLICY, &["ff691fdd134a823f48a1add9c143cef3826db51019fa3be476bdf081710a0b0e"]),
            (REVOCATION, &["109e6e6d7d9312509c997aa6ed3285ae05bd447ede60de71927e4f4c564712db"]),
        ];
        for (scripts, hashes) in pinned {
            let actual: Vec<String> = scripts.iter().map(|script| hex(&sha256(script.as_bytes()))).collect();
            assert_eq!(actual, hashes);
        }
    }

    #[test]
    fn every_older_version_migrates_to_the_last() {
        for scripts in [TENANT, POLICY, REVOCATION] {
            let fresh = database();
            assert!(!is_present(&fresh).unwrap());
            migrate(&fresh, scripts).unwrap();
            assert!(is_present(&fresh).unwrap());
            for older in 0..=scripts.len() {
                let sql = database();
                migrate(&sql, &scripts[..older]).unwrap();
                migrate(&sql, scripts).unwrap();
                assert_eq!(described(&sql), described(&fresh));
                migrate(&sql, scripts).unwrap();
            }
        }
    }

    /// The objects migrate inside `transactionSync`, which a savepoint stands for here.
    #[test]
    fn a_migration_that_fails_midway_is_taken_back() {
        let broken = ["CREATE TABLE a (x TEXT)", "CREATE TABLE b (y TEXT); DROP TABLE a; DROP TABLE nothing"];
        let sql = database();
        migrate(&sql, &broken[..1]).unwrap();
        sql.query("INSERT INTO a (x) VALUES ('kept')", &[]).unwrap();
        let before = described(&sql);
        sql.script("SAVEPOINT migration").unwrap();
        assert!(matches!(migrate(&sql, &broken), Err(StoreError::Backend(_))));
        assert_ne!(described(&sql), before, "it failed midway");
        sql.script("ROLLBACK TO migration").unwrap();
        assert_eq!(described(&sql), before);
        migrate(&sql, &["", "ALTER TABLE a ADD COLUMN y TEXT"]).unwrap();
        let mut row = sql.query("SELECT x, y FROM a", &[]).unwrap().remove(0);
        assert_eq!((row.text().unwrap(), row.optional_text().unwrap()), ("kept".to_owned(), None));
    }

    #[test]
    fn rows_survive_a_migration_and_a_newer_schema_is_refused() {
        let next = ["CREATE TABLE a (x TEXT)", "ALTER TABLE a ADD COLUMN y TEXT"];
        let sql = database();
        migrate(&sql, &next[..1]).unwrap();
        sql.query("INSERT INTO a (x) VALUES ('kept')", &[]).unwrap();
        migrate(&sql, &next).unwrap();
        let mut row = sql.query("SELECT x, y FROM a", &[]).unwrap().remove(0);
        assert_eq!((row.text().unwrap(), row.optional_text().unwrap()), ("kept".to_owned(), None));
        assert!(matches!(migrate(&sql, &next[..1]), Err(StoreError::Corrupt(_))));
    }
}
