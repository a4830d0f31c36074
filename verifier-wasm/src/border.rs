//! The border with JavaScript: everything that `js/entry.mjs` calls. What an object does is one synchronous function each.
//!
//! An error leaves as a thrown text, which is for the log only. Anything else that is thrown in here is a trap to the entry module, after
//! which it takes a new instance.

use std::time::Duration;

use js_sys::{Array, Uint8Array};
use protocol::Code;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use worker::worker_sys::Context as RawContext;
use worker::{Context, Env};

use crate::door;
use crate::objects::database::Database;
use crate::objects::shell::Fault;
use crate::objects::tenant::{self, Decided, Known};
use crate::objects::{client, policy, revocation};
use crate::platform::clock;
use crate::platform::webcrypto::{self, PlatformEntropy};
use crate::problem::Refusal;
use crate::request::{Incoming, Request};

fn thrown(Fault(cause): Fault) -> JsValue {
    JsValue::from_str(&cause)
}

/// Milliseconds; `undefined` for no alarm.
fn milliseconds(after: Option<Duration>) -> JsValue {
    after.map_or(JsValue::UNDEFINED, |after| JsValue::from_f64(after.as_secs_f64() * 1_000.0))
}

/// Serves one request: `[status, headers as JSON, body]`.
#[wasm_bindgen]
pub async fn handle(request: Incoming, env: Env, context: RawContext) -> Array {
    door::serve(&Request::new(request), &env, &Context::new(context)).await.into_js()
}

/// The same for a request that was given up for `cause`, which is for the log: 503 where an object is to blame, else 500.
#[wasm_bindgen]
pub fn refuse(in_object: bool, cause: String) -> Array {
    let refusal = if in_object { client::unavailable("failed").into() } else { Refusal::new(Code::Internal, cause) };
    door::refuse(refusal, &webcrypto::request_id(), clock::now()).into_js()
}

/// One call to the `Policy` object.
#[wasm_bindgen]
pub fn policy_decide(sql: &Database, call: &[u8]) -> Result<Vec<u8>, JsValue> {
    policy::decide(sql, call, clock::now()).map_err(thrown)
}

/// One call to the `Revocation` object.
#[wasm_bindgen]
pub fn revocation_decide(sql: &Database, call: &[u8]) -> Result<Vec<u8>, JsValue> {
    revocation::decide(sql, call, clock::now()).map_err(thrown)
}

/// One call to a `Tenant` object: `[answer, ready, milliseconds to the alarm or undefined]`.
#[wasm_bindgen]
pub fn tenant_decide(sql: &Database, call: &[u8], ready: bool, armed: bool) -> Result<Array, JsValue> {
    let known = Known { ready, armed };
    let decided = tenant::decide(sql, call, known, clock::now(), &PlatformEntropy).map_err(thrown)?;
    let Decided { answer, ready, alarm } = decided;
    Ok(Array::of3(&Uint8Array::from(answer.as_slice()), &JsValue::from_bool(ready), &milliseconds(alarm)))
}

/// What a `Tenant` object has to deliver: `[number of the last entry, call]`, or `undefined`.
#[wasm_bindgen]
pub fn tenant_undelivered(sql: &Database) -> Result<Option<Array>, JsValue> {
    let batch = tenant::undelivered(sql).map_err(thrown)?;
    #[expect(clippy::cast_precision_loss, reason = "row numbers lie within 53 bits")]
    Ok(batch.map(|batch| Array::of2(&JsValue::from_f64(batch.last as f64), &Uint8Array::from(batch.call.as_slice()))))
}

/// A batch was delivered, with this answer.
#[wasm_bindgen]
pub fn tenant_delivered(sql: &Database, last: f64, answer: &[u8]) -> Result<(), JsValue> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it came from tenant_undelivered")]
    tenant::delivered(sql, last as u64, answer).map_err(thrown)
}

/// One step of a `Tenant` object's purge: milliseconds to the next alarm, or `undefined`.
#[wasm_bindgen]
pub fn tenant_forget_ended(sql: &Database) -> Result<JsValue, JsValue> {
    tenant::forget_ended(sql, clock::now()).map(milliseconds).map_err(thrown)
}
