//! An AWS Security Token Service on loopback.
//!
//! Serves `GetCallerIdentity` (POST, GET and presigned), `AssumeRoleWithWebIdentity` and `AssumeRole`, with the
//! statuses, error codes, messages and both formats of the real service, for any set of regions on
//! one port. Users, roles and keys are added while it runs. Out of scope: session policies, tags,
//! the global endpoint's version 1 tokens, anything of IAM.
//!
//! ```no_run
//! use edge_tests::{emulators::{Fault, StsConfig, StsEmulator}};
//! let sts = StsEmulator::start(StsConfig::default())?;
//! let credentials = sts.add_role_session("111122223333", "rootpilot-runner", "i-0abc");
//! sts.set_fault(Fault::status(500));
//! # std::io::Result::Ok(())
//! ```

pub mod actions;
pub mod authentication;
pub mod control;
pub mod directory;
pub mod sigv4;
pub mod web_identity;
pub mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use parking_lot::Mutex;
use uuid::Uuid;

use self::actions::Office;
use self::authentication::Judge;
pub use self::control::{CredentialOrder, FixedKey};
use self::directory::Directory;
pub use self::directory::{Credentials, Role, WebIdentityTrust};
use self::sigv4::SignedRequest;
use self::wire::{Format, StsError};
use super::clock::Clock;
use super::control::Core;
use super::fault::{Answer, Fault, FaultPlan, deliver};
use super::recorder::RecordedRequest;
use super::server::{ConnectionSwitch, Server};

const BODY_LIMIT: usize = 1024 * 1024;

/// How an emulator is set up.
#[derive(Debug, Clone)]
pub struct StsConfig {
    /// Port on 127.0.0.1; 0 picks one.
    pub port: u16,
    /// Regions whose credential scope is taken.
    pub regions: Vec<String>,
    /// How far a signature's time may lie from ours, either way, in seconds. AWS: 15 minutes.
    pub clock_skew: i64,
}

impl Default for StsConfig {
    fn default() -> Self {
        let regions = [
            "us-east-1",
            "us-east-2",
            "us-west-2",
            "eu-west-1",
            "eu-central-1",
            "ap-southeast-2",
            "cn-north-1",
            "us-gov-west-1",
            "eusc-de-east-1",
        ];
        Self { port: 0, regions: regions.map(str::to_owned).to_vec(), clock_skew: 15 * 60 }
    }
}

#[derive(Debug, Clone)]
struct State {
    core: Core,
    judge: Arc<Judge>,
    directory: Arc<Mutex<Directory>>,
    http: reqwest::Client,
}

/// A running STS. Dropping it ends it.
#[derive(Debug)]
pub struct StsEmulator {
    state: State,
    server: Server,
}

impl StsEmulator {
    /// Starts one; it listens when this returns.
    pub fn start(config: StsConfig) -> io::Result<Self> {
        let state = State {
            core: Core::default(),
            judge: Arc::new(Judge { regions: config.regions, clock_skew: config.clock_skew }),
            directory: Arc::default(),
            http: super::http_client().build().map_err(io::Error::other)?,
        };
        let service = state.clone();
        let router = super::control::routes(&state.core, "requests").merge(control::routes(&state)).fallback(
            move |request: Request| {
                let service = service.clone();
                async move { service.serve(request).await }
            },
        );
        let server = Server::start(config.port, router)?;
        Ok(Self { state, server })
    }

    /// `http://127.0.0.1:<port>`: for `AWS_ENDPOINT_URL_STS` and the policy's `aws_sts.endpoints`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The last requests received, oldest first, control calls left out.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.core.recorder.traffic(usize::MAX).requests
    }

    /// How many requests have been received since the start or [`Self::forget_requests`].
    pub fn request_count(&self) -> u64 {
        self.state.core.recorder.total()
    }

    /// Starts counting anew.
    pub fn forget_requests(&self) {
        self.state.core.recorder.reset();
    }

    /// Misbehaves in this one way.
    pub fn set_fault(&self, plan: impl Into<FaultPlan>) {
        self.state.core.faults.set([plan.into()]);
    }

    /// Misbehaves in these ways, each when those before it are used up.
    pub fn set_faults(&self, plans: impl IntoIterator<Item = FaultPlan>) {
        self.state.core.faults.set(plans);
    }

    /// Behaves.
    pub fn clear_faults(&self) {
        self.state.core.faults.set([]);
    }

    /// The emulator's clock.
    pub fn clock(&self) -> &Clock {
        &self.state.core.clock
    }

    /// A new long-term key for a user of the partition `aws`; `name` may hold a path.
    pub fn add_user(&self, account: &str, name: &str) -> Credentials {
        self.made(CredentialOrder::User {
            account: account.to_owned(),
            name: name.to_owned(),
            partition: directory::commercial(),
            key: None,
        })
    }

    /// New temporary credentials, good for an hour, for a session of a role of the partition `aws`.
    pub fn add_role_session(&self, account: &str, role: &str, session: &str) -> Credentials {
        self.made(CredentialOrder::RoleSession {
            account: account.to_owned(),
            role: role.to_owned(),
            session: session.to_owned(),
            partition: directory::commercial(),
            ttl_seconds: 3_600,
            key: None,
        })
    }

    fn made(&self, order: CredentialOrder) -> Credentials {
        self.order(order).ok().flatten().expect("an order that names no key always makes one")
    }

    /// Any other order; credentials for those that make some, an error for a key that is not known.
    pub fn order(&self, order: CredentialOrder) -> Result<Option<Credentials>, String> {
        self.state.order(order)
    }

    /// Registers or replaces a role that can be assumed.
    pub fn put_role(&self, role: Role) {
        self.state.directory.lock().put_role(role);
    }

    /// Ends a key now; false when it is not known.
    pub fn expire(&self, access_key_id: &str) -> bool {
        let now = self.state.core.clock.now();
        self.state.directory.lock().expire(access_key_id, now)
    }

    /// Deletes a key; false when it is not known.
    pub fn delete(&self, access_key_id: &str) -> bool {
        self.state.directory.lock().delete(access_key_id)
    }
}

impl State {
    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let line = parts.extensions.get::<ConnectionSwitch>().cloned().unwrap_or_default();
        let format = format(&parts.headers);
        let request_id = Uuid::new_v4().to_string();
        let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
            let error = StsError::new(413, "RequestEntityTooLarge", "Request body is too large");
            return deliver(wire::failure(format, &error, &request_id), None, &line).await;
        };
        let now = self.core.clock.now();
        let mut record = RecordedRequest::received(&parts, &body, now);
        let signed = SignedRequest {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: &parts.headers,
            body: &body,
        };
        let office = Office { judge: &self.judge, directory: &self.directory, http: &self.http, now };
        let outcome = office.carry_out(&signed).await;
        let fault = self.core.faults.next(parts.uri.path());
        record.error_code = outcome.as_ref().err().map(|error| error.code.clone());
        record.fault = fault.as_ref().map(|fault| fault.kind().to_owned());
        record.status = outcome.as_ref().err().map_or(200, |error| error.status);
        self.core.recorder.record(record);
        let answer = render(format, outcome, fault.as_ref(), &request_id);
        deliver(answer, fault, &line).await
    }
}

fn format(headers: &HeaderMap) -> Format {
    let wants_json =
        headers.get_all(header::ACCEPT).iter().any(|value| value.as_bytes().starts_with(b"application/json"));
    if wants_json { Format::Json } else { Format::Xml }
}

/// The answer, with the faults that are STS's own put on it.
fn render(
    format: Format,
    outcome: Result<actions::Outcome, StsError>,
    fault: Option<&Fault>,
    request_id: &str,
) -> Answer {
    let outcome = match fault {
        Some(Fault::Throttle) => Err(StsError::new(400, "Throttling", "Rate exceeded")),
        Some(Fault::Error { status, code, message }) => Err(StsError::new(*status, code, message.as_str())),
        Some(Fault::WrongAccount { account }) => outcome.map(|mut outcome| {
            for node in &mut outcome.result {
                if let wire::Node::Text("Arn", arn) = node {
                    *arn = with_account(arn, account);
                }
            }
            outcome
        }),
        _ => outcome,
    };
    match outcome {
        Ok(outcome) => wire::success(format, outcome.action, &outcome.result, request_id),
        Err(error) => wire::failure(format, &error, request_id),
    }
}

fn with_account(arn: &str, account: &str) -> String {
    let mut parts: Vec<&str> = arn.splitn(6, ':').collect();
    if let Some(part) = parts.get_mut(4) {
        *part = account;
    }
    parts.join(":")
}
