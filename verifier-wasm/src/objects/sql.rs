//! The few things asked of SQLite: one statement with positional bindings and rows back, or a script. Two back ends: the storage of a Durable
//! Object ([`Database`](super::database::Database)), and `rusqlite` in tests.

use verifier::UnixTime;
use verifier::registry::StoreError;

/// A bound parameter.
#[derive(Debug, Clone, Copy)]
pub enum Bind<'a> {
    /// NULL.
    Null,
    /// INTEGER, within ±2^53.
    Integer(i64),
    /// TEXT.
    Text(&'a str),
}

/// A column of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// INTEGER.
    Integer(i64),
    /// TEXT.
    Text(String),
}

/// SQLite.
pub trait Sql {
    /// Runs one statement.
    fn query(&self, statement: &str, bindings: &[Bind<'_>]) -> Result<Vec<Row>, StoreError>;
    /// Runs statements without bindings or rows.
    fn script(&self, script: &str) -> Result<(), StoreError>;
}

impl<'a> From<&'a str> for Bind<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Bind<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<UnixTime> for Bind<'_> {
    fn from(time: UnixTime) -> Self {
        Self::Integer(time.secs())
    }
}

impl From<u32> for Bind<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<i64> for Bind<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Bind<'_> {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl<'a, T: Into<Bind<'a>>> From<Option<T>> for Bind<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A `u64` that numbers rows; beyond `i64` nothing was ever stored.
pub fn row_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A row, read from left to right.
#[derive(Debug)]
pub struct Row(std::vec::IntoIter<Value>);

impl Row {
    /// From the columns in order.
    pub fn new(columns: Vec<Value>) -> Self {
        Self(columns.into_iter())
    }

    /// Next column: TEXT.
    pub fn text(&mut self) -> Result<String, StoreError> {
        self.optional_text()?.ok_or_else(|| unreadable("text, found NULL"))
    }

    /// Next column: TEXT or NULL.
    pub fn optional_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            _ => Err(unreadable("text")),
        }
    }

    /// Next column: INTEGER.
    pub fn integer(&mut self) -> Result<i64, StoreError> {
        self.optional_integer()?.ok_or_else(|| unreadable("an integer, found NULL"))
    }

    /// Next column: INTEGER or NULL.
    pub fn optional_integer(&mut self) -> Result<Option<i64>, StoreError> {
        match self.0.next() {
            Some(Value::Integer(number)) => Ok(Some(number)),
            Some(Value::Null) => Ok(None),
            _ => Err(unreadable("an integer")),
        }
    }

    /// Next column: INTEGER within the target type.
    pub fn number<T: TryFrom<i64>>(&mut self) -> Result<T, StoreError> {
        T::try_from(self.integer()?).map_err(|_| unreadable("a number within its range"))
    }

    /// Next column: 0 or 1.
    pub fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.integer()? != 0)
    }

    /// Next column: Unix seconds.
    pub fn time(&mut self) -> Result<UnixTime, StoreError> {
        self.integer().map(UnixTime::from_secs)
    }

    /// Next column: a text of the protocol.
    pub fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        self.text()?.parse().map_err(|_| unreadable("a known text"))
    }
}

/// A row of another form than this version writes.
pub fn unreadable(wanted: &str) -> StoreError {
    StoreError::Corrupt(format!("wanted {wanted}"))
}

/// A database without a table, for calls that only read: every statement finds nothing.
#[derive(Debug, Clone, Copy)]
pub struct Untouched;

impl Sql for Untouched {
    fn query(&self, _: &str, _: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
        Ok(Vec::new())
    }

    fn script(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

/// SQLite natively.
#[cfg(all(test, not(target_arch = "wasm32")))]
pub mod native {
    use rusqlite::types::{ToSqlOutput, ValueRef};
    use rusqlite::{Connection, ToSql};

    use super::{Bind, Row, Sql, StoreError, Value};

    impl ToSql for Bind<'_> {
        fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
            Ok(ToSqlOutput::Borrowed(match self {
                Self::Null => ValueRef::Null,
                Self::Integer(number) => ValueRef::Integer(*number),
                Self::Text(text) => ValueRef::Text(text.as_bytes()),
            }))
        }
    }

    impl Sql for Connection {
        fn query(&self, statement: &str, bindings: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
            let read = || {
                let mut prepared = self.prepare_cached(statement)?;
                let columns = prepared.column_count();
                let mut rows = prepared.query(rusqlite::params_from_iter(bindings))?;
                let mut read = Vec::new();
                while let Some(row) = rows.next()? {
                    let value = |index| match row.get_ref(index).unwrap() {
                        ValueRef::Null => Value::Null,
                        ValueRef::Integer(number) => Value::Integer(number),
                        ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
                        other => panic!("{other:?}"),
                    };
                    read.push(Row::new((0..columns).map(value).collect()));
                }
                Ok(read)
            };
            read().map_err(|error: rusqlite::Error| StoreError::Backend(error.to_string()))
        }

        fn script(&self, script: &str) -> Result<(), StoreError> {
            self.execute_batch(script).map_err(|error| StoreError::Backend(error.to_string()))
        }
    }
}
