//! What every object does alike: decode, decide, encode.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use verifier::Denial;

/// A fault of an object: its text is for the log, and what it did is rolled back.
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

/// A decision as the text that crosses to the worker.
pub fn encode<T: Serialize>(decision: impl Into<Answer<T>>) -> Result<String, Fault> {
    Ok(serde_json::to_string(&decision.into())?)
}
