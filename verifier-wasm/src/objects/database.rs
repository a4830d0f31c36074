//! The storage of a Durable Object (`ctx.storage.sql`) as [`Sql`]. Bound by hand: all rows of a statement cross the border in one call.

use js_sys::Array;
use verifier::registry::StoreError;
use wasm_bindgen::{JsCast as _, JsValue};

pub use self::binding::Database;
use super::sql::{Bind, Row, Sql, Value, unreadable};
use crate::platform::js;

mod binding {
    use js_sys::Array;
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        /// `ctx.storage.sql`.
        pub type Database;

        /// Runs one statement, or a script.
        #[wasm_bindgen(method, catch, variadic)]
        pub fn exec(this: &Database, statement: &str, bindings: Vec<JsValue>) -> Result<Cursor, JsValue>;

        pub type Cursor;

        #[wasm_bindgen(method, catch)]
        pub fn raw(this: &Cursor) -> Result<Rows, JsValue>;

        pub type Rows;

        #[wasm_bindgen(method, catch, js_name = toArray)]
        pub fn to_array(this: &Rows) -> Result<Array, JsValue>;
    }
}

/// Largest integer that a JavaScript number holds exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

impl Sql for Database {
    fn query(&self, statement: &str, bindings: &[Bind<'_>]) -> Result<Vec<Row>, StoreError> {
        let bindings = bindings.iter().map(|bind| bound(*bind)).collect();
        let rows = self.exec(statement, bindings).and_then(|cursor| cursor.raw()?.to_array());
        rows.map_err(|error| StoreError::Backend(js::describe(&error)))?.iter().map(|row| read(&row)).collect()
    }

    fn script(&self, script: &str) -> Result<(), StoreError> {
        self.exec(script, Vec::new()).map(drop).map_err(|error| StoreError::Backend(js::describe(&error)))
    }
}

fn bound(bind: Bind<'_>) -> JsValue {
    match bind {
        Bind::Null => JsValue::NULL,
        #[expect(clippy::cast_precision_loss, reason = "times and row numbers lie within 53 bits")]
        Bind::Integer(number) => JsValue::from_f64(number as f64),
        Bind::Text(text) => JsValue::from_str(text),
    }
}

fn read(row: &JsValue) -> Result<Row, StoreError> {
    let columns: &Array = row.dyn_ref().ok_or_else(|| unreadable("a row"))?;
    Ok(Row::new(columns.iter().map(|value| column(&value)).collect::<Result<_, _>>()?))
}

fn column(value: &JsValue) -> Result<Value, StoreError> {
    if let Some(text) = value.as_string() {
        return Ok(Value::Text(text));
    }
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER => {
            #[expect(clippy::cast_possible_truncation, reason = "an integer within 53 bits")]
            let number = number as i64;
            Ok(Value::Integer(number))
        }
        None if value.is_null() => Ok(Value::Null),
        _ => Err(unreadable("NULL, an integer or text")),
    }
}
