//! The routes of PROTOCOL.md, a file each.

mod admin;
mod enroll;
mod health;
mod trust;
mod verify;

use protocol::{Code, Object};
use serde::Serialize;
use verifier::Denial;

use crate::access::{self, Role};
use crate::door::Call;
use crate::isolate;
use crate::objects::client::Json;
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::{Body, Response};

/// A route with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `GET /healthz`.
    Health,
    /// `GET /v1/trust-bundle`.
    TrustBundle,
    /// `GET /v1/crl`.
    Crl,
    /// `GET /v1/crl.pem`.
    CrlPem,
    /// `POST /v1/enroll`.
    Enroll,
    /// `POST /v1/renew`.
    Renew,
    /// `POST /v1/verify`.
    Verify,
    /// `/v1/admin/…`.
    Admin(admin::Route),
}

impl Route {
    /// By exact path; no decoding, no trailing slash.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/healthz" => Self::Health,
            "/v1/trust-bundle" => Self::TrustBundle,
            "/v1/crl" => Self::Crl,
            "/v1/crl.pem" => Self::CrlPem,
            "/v1/enroll" => Self::Enroll,
            "/v1/renew" => Self::Renew,
            "/v1/verify" => Self::Verify,
            _ => Self::Admin(admin::Route::of(path.strip_prefix("/v1/admin/")?)?),
        })
    }

    /// Name in the logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::TrustBundle => "trust_bundle",
            Self::Crl => "crl",
            Self::CrlPem => "crl_pem",
            Self::Enroll => "enroll",
            Self::Renew => "renew",
            Self::Verify => "verify",
            Self::Admin(route) => route.name(),
        }
    }

    /// Whether a log line is due.
    pub const fn is_decision(&self) -> bool {
        matches!(self, Self::Enroll | Self::Renew | Self::Verify | Self::Admin(_))
    }

    /// Whether anyone may call it.
    pub const fn is_unauthenticated(&self) -> bool {
        !matches!(self, Self::Verify | Self::Admin(_))
    }

    /// For `Allow`.
    pub const fn methods(&self) -> &'static str {
        match self {
            Self::Health | Self::TrustBundle | Self::Crl | Self::CrlPem => "GET, HEAD",
            Self::Enroll | Self::Renew | Self::Verify => "POST",
            Self::Admin(route) => route.methods(),
        }
    }

    /// Whether `method` is one of [`Self::methods`].
    pub fn allows(&self, method: &str) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method)
    }
}

/// Runs the route; the bearer comes first, then the body.
pub async fn dispatch(route: &Route, request: &Request, call: &mut Call<'_>) -> Result<Response, Refusal> {
    match route {
        Route::Health => health::get(call).await,
        Route::TrustBundle => trust::bundle(request, call).await,
        Route::Crl => trust::crl_der(call).await,
        Route::CrlPem => trust::crl_pem(call).await,
        Route::Enroll => enroll::enroll(request, call).await,
        Route::Renew => enroll::renew(request, call).await,
        Route::Verify => {
            let secrets = isolate::secrets_for(call.env, Role::Service)?;
            let actor = access::authorize(request, &secrets, Role::Service)?;
            verify::verify(request, call, &actor).await
        }
        Route::Admin(route) => {
            let secrets = isolate::secrets_for(call.env, Role::Admin)?;
            let actor = access::authorize(request, &secrets, Role::Admin)?;
            admin::dispatch(route, request, call, &actor).await
        }
    }
}

/// A JSON answer.
pub fn json<T: Serialize>(status: u16, value: &T) -> Result<Response, Refusal> {
    Ok(passed_on(status, Json(serde_json::to_string(value).map_err(|error| internal(&error))?)))
}

/// JSON as an object wrote it.
pub fn passed_on(status: u16, Json(text): Json) -> Response {
    let response = Response::new(status, Body::Text(text));
    response.with("content-type", "application/json").with("cache-control", "no-store")
}

/// Nothing to say.
pub const fn no_content() -> Response {
    Response::new(204, Body::None)
}

/// A fault of ours: the text goes to the log, never to the client.
pub fn internal(error: &dyn std::fmt::Display) -> Denial {
    Denial::new(Code::Internal, error.to_string())
}

/// Reads a JSON object into its wire type.
pub fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Denial> {
    let read = serde_json::from_str(text).map(|Object(value)| value);
    read.map_err(|error| Denial::malformed(verifier::encoding::shown(&error.to_string())))
}
