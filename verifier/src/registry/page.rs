//! Pages of lists (PROTOCOL, Admin routes): one row more than asked tells whether there is a next page.

use protocol::admin::{PAGE_DEFAULT, PAGE_MAX, Page};

use super::PageQuery;
use crate::Denial;

/// A checked [`PageQuery`].
#[derive(Debug, Clone, Copy)]
pub struct Paging<'a> {
    limit: u32,
    /// Cursor as given; its form is checked by the list.
    pub cursor: Option<&'a str>,
}

impl<'a> Paging<'a> {
    /// Limits as PROTOCOL has them; anything else is `malformed_request`.
    pub fn new(query: &'a PageQuery) -> Result<Self, Denial> {
        let limit = query.limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Denial::malformed(format!("limit must be 1 to {PAGE_MAX}")));
        }
        Ok(Self { limit, cursor: query.cursor.as_deref() })
    }

    /// How many rows to ask the store for.
    pub const fn fetch(&self) -> u32 {
        self.limit.saturating_add(1)
    }

    /// Cuts the page; `cursor` names a row for the next one to start after.
    pub fn page<R, T>(&self, mut rows: Vec<R>, cursor: impl Fn(&R) -> String, item: impl FnMut(R) -> T) -> Page<T> {
        let limit = self.limit as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(cursor) } else { None };
        Page { items: rows.into_iter().map(item).collect(), next }
    }
}

fn unknown() -> Denial {
    Denial::malformed("cursor was not made by this list")
}

/// A cursor that is a number.
pub fn decimal_cursor(cursor: &str) -> Result<u64, Denial> {
    // Digits only: `parse` would take a sign, too.
    let number = cursor.bytes().all(|octet| octet.is_ascii_digit()).then(|| cursor.parse().ok());
    number.flatten().ok_or_else(unknown)
}

/// A cursor that is an id of `length` base32 characters.
pub fn id_cursor(cursor: &str, length: usize) -> Result<&str, Denial> {
    if is_id(cursor, length) { Ok(cursor) } else { Err(unknown()) }
}

/// Whether `text` has the form of an id: `length` characters of lower-case base32.
pub fn is_id(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}
