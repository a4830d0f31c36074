//! The STS actions: what is asked for, and what is answered to whom.

use std::collections::HashMap;

use axum::http::{HeaderMap, Method, header};
use parking_lot::Mutex;

use super::authentication::{Judge, authenticate};
use super::directory::{Directory, Principal, PrincipalKind, Role};
use super::sigv4::SignedRequest;
use super::web_identity::{self, WebIdentity};
use super::wire::{Node, StsError};

const VERSION: &str = "2011-06-15";
const DEFAULT_DURATION: i64 = 3_600;
const DURATIONS: std::ops::RangeInclusive<i64> = 900..=43_200;

/// A success: the action and the members of its result.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the action.
    pub action: &'static str,
    /// Members of `<action>Result`.
    pub result: Vec<Node>,
}

/// Parameters of the query protocol: of the query string and of a form body.
#[derive(Debug)]
pub struct Parameters(HashMap<String, String>);

impl Parameters {
    /// Reads them; a body of another content type holds none.
    pub fn read(query: &str, headers: &HeaderMap, body: &[u8]) -> Self {
        let is_form = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
        let mut parameters = HashMap::new();
        let bodies = [query.as_bytes(), if is_form { body } else { b"" }];
        for (name, value) in bodies.into_iter().flat_map(form_urlencoded::parse) {
            parameters.insert(name.into_owned(), value.into_owned());
        }
        Self(parameters)
    }

    /// A parameter, if present and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn require(&self, name: &str) -> Result<&str, StsError> {
        self.get(name).ok_or_else(|| {
            let member = name[..1].to_lowercase() + &name[1..];
            validation(format!(
                "1 validation error detected: Value null at '{member}' failed to satisfy constraint: Member must not be null"
            ))
        })
    }
}

fn validation(message: impl Into<String>) -> StsError {
    StsError::new(400, "ValidationError", message)
}

/// Everything an action needs.
#[derive(Debug)]
pub struct Office<'a> {
    /// How callers are judged.
    pub judge: &'a Judge,
    /// Who exists.
    pub directory: &'a Mutex<Directory>,
    /// Client for key sets of web identity providers.
    pub http: &'a reqwest::Client,
    /// Unix seconds.
    pub now: i64,
}

impl Office<'_> {
    /// Carries out a request.
    pub async fn carry_out(&self, request: &SignedRequest<'_>) -> Result<Outcome, StsError> {
        let parameters = Parameters::read(request.query, request.headers, request.body);
        let known_method = [Method::GET, Method::POST].iter().any(|method| method == request.method);
        if request.path != "/" || !known_method {
            return Err(StsError::new(404, "UnknownOperationException", ""));
        }
        let version = parameters.get("Version").unwrap_or("NO_VERSION_SPECIFIED");
        let action = parameters.get("Action");
        // The only action that is not signed: the token is the proof.
        if action == Some("AssumeRoleWithWebIdentity") && version == VERSION {
            return self.assume_role_with_web_identity(&parameters).await;
        }
        let caller = authenticate(self.judge, &self.directory.lock(), request, self.now)?;
        match action {
            None => Err(StsError::new(400, "MissingAction", "Missing Action parameter in request")),
            Some("GetCallerIdentity") if version == VERSION => Ok(caller_identity(&caller)),
            Some("AssumeRole") if version == VERSION => self.assume_role(&caller, &parameters),
            Some(other) => Err(StsError::new(
                400,
                "InvalidAction",
                format!("Could not find operation {other} for version {version}"),
            )),
        }
    }

    fn assume_role(&self, caller: &Principal, parameters: &Parameters) -> Result<Outcome, StsError> {
        let role_arn = parameters.require("RoleArn")?;
        let session = session_name(parameters)?;
        let duration = duration(parameters)?;
        let mut directory = self.directory.lock();
        let caller_arn = caller.arn();
        let trusted = [caller_arn.as_str(), &role_of_session(caller)];
        let role = directory
            .role(role_arn)
            .filter(|role| role.trusted_arns.iter().any(|arn| trusted.contains(&arn.as_str())))
            .cloned()
            .ok_or_else(|| {
                denied(&format!(
                    "User: {caller_arn} is not authorized to perform: sts:AssumeRole on resource: {role_arn}"
                ))
            })?;
        Ok(Outcome { action: "AssumeRole", result: start_session(&mut directory, &role, session, self.now + duration) })
    }

    async fn assume_role_with_web_identity(&self, parameters: &Parameters) -> Result<Outcome, StsError> {
        let role_arn = parameters.require("RoleArn")?;
        let session = session_name(parameters)?;
        let token = parameters.require("WebIdentityToken")?;
        let duration = duration(parameters)?;
        let trusts = {
            let directory = self.directory.lock();
            directory.role(role_arn).map(|role| role.web_identity.clone())
        };
        let trusts = trusts.unwrap_or_default();
        let identity = web_identity::verify(self.http, &trusts, token, self.now).await?;
        let mut directory = self.directory.lock();
        let role = directory
            .role(role_arn)
            .filter(|role| role.web_identity.iter().any(|trust| identity.satisfies(trust)))
            .cloned()
            .ok_or_else(|| denied("Not authorized to perform sts:AssumeRoleWithWebIdentity"))?;
        let mut result = start_session(&mut directory, &role, session, self.now + duration);
        result.extend(web_identity_members(&role, &identity));
        Ok(Outcome { action: "AssumeRoleWithWebIdentity", result })
    }
}

fn caller_identity(caller: &Principal) -> Outcome {
    Outcome {
        action: "GetCallerIdentity",
        result: vec![
            Node::Text("Arn", caller.arn()),
            Node::Text("UserId", caller.user_id()),
            Node::Text("Account", caller.account.clone()),
        ],
    }
}

fn denied(message: &str) -> StsError {
    StsError::new(403, "AccessDenied", message)
}

/// The ARN of the role behind a role session; empty for others.
fn role_of_session(caller: &Principal) -> String {
    match &caller.kind {
        PrincipalKind::RoleSession { role, .. } => {
            format!("arn:{}:iam::{}:role/{role}", caller.partition, caller.account)
        }
        _ => String::new(),
    }
}

fn session_name(parameters: &Parameters) -> Result<&str, StsError> {
    let name = parameters.require("RoleSessionName")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if (2..=64).contains(&name.len()) && name.chars().all(allowed) {
        Ok(name)
    } else {
        Err(validation(format!(
            "1 validation error detected: Value '{name}' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]*"
        )))
    }
}

fn duration(parameters: &Parameters) -> Result<i64, StsError> {
    let Some(text) = parameters.get("DurationSeconds") else {
        return Ok(DEFAULT_DURATION);
    };
    text.parse()
        .ok()
        .filter(|seconds| DURATIONS.contains(seconds))
        .ok_or_else(|| validation("The requested DurationSeconds exceeds the MaxSessionDuration set for this role."))
}

fn start_session(directory: &mut Directory, role: &Role, session: &str, end: i64) -> Vec<Node> {
    let kind = PrincipalKind::RoleSession { role: role.name.clone(), session: session.to_owned() };
    let principal = directory.principal(&role.partition, &role.account, kind);
    let credentials = directory.issue(principal, Some(end));
    vec![
        Node::Group(
            "AssumedRoleUser",
            vec![Node::Text("AssumedRoleId", credentials.user_id), Node::Text("Arn", credentials.arn)],
        ),
        Node::Group(
            "Credentials",
            vec![
                Node::Text("AccessKeyId", credentials.access_key_id),
                Node::Text("SecretAccessKey", credentials.secret_access_key),
                Node::Text("SessionToken", credentials.session_token.unwrap_or_default()),
                Node::Time("Expiration", end),
            ],
        ),
    ]
}

fn web_identity_members(role: &Role, identity: &WebIdentity) -> [Node; 3] {
    let provider = identity.issuer.trim_start_matches("https://");
    [
        Node::Text("Audience", identity.audience.clone()),
        Node::Text("Provider", format!("arn:{}:iam::{}:oidc-provider/{provider}", role.partition, role.account)),
        Node::Text("SubjectFromWebIdentityToken", identity.subject.clone()),
    ]
}
