//! What every object does alike: decode, run in one transaction, encode.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use verifier::Denial;
use wasm_bindgen::{JsCast as _, JsValue};
use worker::{Request, Response, SqlStorage, Storage};

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        /// Storage with the method that `worker` does not bind.
        pub type TransactionalStorage;

        #[wasm_bindgen(method, js_name = transactionSync, catch)]
        pub fn transaction_sync(
            this: &TransactionalStorage,
            closure: &mut dyn FnMut() -> Result<JsValue, JsValue>,
        ) -> Result<JsValue, JsValue>;
    }
}

/// A fault of an object: its text is for the log.
#[derive(Debug)]
pub struct Fault(pub String);

// Any error of the layers below: all of them end in the log.
impl<E: Display> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A decision of an object on its way to the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T> {
    /// Done.
    Ok(T),
    /// Refused.
    Denied(Box<Denial>),
}

impl<T> From<Result<T, Denial>> for Answer<T> {
    fn from(result: Result<T, Denial>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(denial) => Self::Denied(Box::new(denial)),
        }
    }
}

impl<T> From<Answer<T>> for Result<T, Denial> {
    fn from(answer: Answer<T>) -> Self {
        match answer {
            Answer::Ok(value) => Ok(value),
            Answer::Denied(denial) => Err(*denial),
        }
    }
}

/// Runs `work` in one storage transaction: committed on `Ok`, a refusal included; rolled back on a fault.
///
/// `worker` does not bind `transactionSync`. It is needed: plain `sql.exec` calls keep their rows when the handler fails later; inside
/// `transactionSync` they do not.
pub fn transaction<T>(storage: &Storage, work: impl FnOnce(&SqlStorage) -> Result<T, Fault>) -> Result<T, Fault> {
    let sql = storage.sql();
    let mut work = Some(work);
    let mut outcome = None;
    let mut closure = || {
        let Some(work) = work.take() else { return Err(JsValue::from_str("transaction run twice")) };
        let result = work(&sql);
        let failed = result.is_err();
        outcome = Some(result);
        if failed { Err(JsValue::from_str("rolled back")) } else { Ok(JsValue::UNDEFINED) }
    };
    let raw: &JsValue = storage.as_raw().as_ref();
    let ended = raw.unchecked_ref::<binding::TransactionalStorage>().transaction_sync(&mut closure);
    match (outcome, ended) {
        (Some(Err(fault)), _) => Err(fault),
        (Some(result), Ok(_)) => result,
        (_, Err(error)) => Err(Fault(crate::platform::js::describe(&error))),
        (None, Ok(_)) => Err(Fault("transaction did not run".to_owned())),
    }
}

/// Reads the call that a worker sent.
pub async fn decode<T: DeserializeOwned>(request: &mut Request) -> Result<T, Fault> {
    let text = request.text().await?;
    Ok(serde_json::from_str(&text)?)
}

/// Writes the answer; a fault is logged here and is an empty 500 to the worker.
pub fn encode<T: Serialize>(answer: Result<T, Fault>) -> worker::Result<Response> {
    match answer.and_then(|answer| Ok(serde_json::to_string(&answer)?)) {
        Ok(text) => Response::ok(text),
        Err(fault) => {
            report(&fault);
            Response::error("", 500)
        }
    }
}

/// One line in the log.
pub fn report(Fault(cause): &Fault) {
    worker::console_error!("{}", serde_json::json!({ "event": "object_fault", "cause": cause }));
}
