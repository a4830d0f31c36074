//! `/_control/credentials` and `/_control/roles`: who exists, changed at run time.

use axum::Router;
use axum::response::Json;
use axum::routing::post;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::State;
use super::directory::{AccessKey, Credentials, Directory, Principal, PrincipalKind, Role, commercial};
use crate::emulators::control::{BadOrder, read};

/// An order to `POST /_control/credentials`; `{"kind":"user","account":"111122223333","name":"ci"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CredentialOrder {
    /// A long-term key of an IAM user.
    User {
        /// Twelve digits.
        account: String,
        /// Name, path included.
        name: String,
        /// Partition, `aws` when absent.
        #[serde(default = "commercial")]
        partition: String,
        /// Key to use instead of a random one.
        #[serde(default)]
        key: Option<FixedKey>,
    },
    /// Temporary credentials of a role session.
    RoleSession {
        /// Twelve digits.
        account: String,
        /// Role name.
        role: String,
        /// Session name.
        session: String,
        /// Partition, `aws` when absent.
        #[serde(default = "commercial")]
        partition: String,
        /// Life in seconds, an hour when absent; negative makes them expired.
        #[serde(default = "hour")]
        ttl_seconds: i64,
        /// Key to use instead of a random one.
        #[serde(default)]
        key: Option<FixedKey>,
    },
    /// A key of the account's root user.
    Root {
        /// Twelve digits.
        account: String,
    },
    /// Temporary credentials of a federated user.
    FederatedUser {
        /// Twelve digits.
        account: String,
        /// Name.
        name: String,
    },
    /// Ends a key now.
    Expire {
        /// Which.
        access_key_id: String,
    },
    /// Deletes a key.
    Delete {
        /// Which.
        access_key_id: String,
    },
}

/// A key of the caller's choice, so that it outlives a restart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedKey {
    /// `AKIA…` or `ASIA…`.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: String,
    /// The session token of temporary credentials; users have none.
    #[serde(default)]
    pub session_token: Option<String>,
}

impl FixedKey {
    fn stands_for(self, principal: Principal, expires_at: Option<i64>) -> (String, AccessKey) {
        let key =
            AccessKey { secret: self.secret_access_key, session_token: self.session_token, expires_at, principal };
        (self.access_key_id, key)
    }
}

fn hour() -> i64 {
    3_600
}

impl State {
    /// Carries out an order; credentials for those that make some.
    pub(super) fn order(&self, order: CredentialOrder) -> Result<Option<Credentials>, String> {
        let now = self.core.clock.now();
        let mut directory = self.directory.lock();
        let known = |found: bool, id: &str| found.then_some(None).ok_or_else(|| format!("no access key {id}"));
        let credentials = match order {
            CredentialOrder::User { account, name, partition, key } => {
                let kind = PrincipalKind::User(name);
                let principal = directory.principal(&partition, &account, kind);
                make(&mut directory, principal, None, key)
            }
            CredentialOrder::RoleSession { account, role, session, partition, ttl_seconds, key } => {
                let kind = PrincipalKind::RoleSession { role, session };
                let principal = directory.principal(&partition, &account, kind);
                make(&mut directory, principal, Some(now + ttl_seconds), key)
            }
            CredentialOrder::Root { account } => {
                let principal = directory.principal("aws", &account, PrincipalKind::Root);
                directory.issue(principal, None)
            }
            CredentialOrder::FederatedUser { account, name } => {
                let kind = PrincipalKind::FederatedUser(name);
                let principal = directory.principal("aws", &account, kind);
                directory.issue(principal, Some(now + hour()))
            }
            CredentialOrder::Expire { access_key_id } => {
                return known(directory.expire(&access_key_id, now), &access_key_id);
            }
            CredentialOrder::Delete { access_key_id } => {
                return known(directory.delete(&access_key_id), &access_key_id);
            }
        };
        Ok(Some(credentials))
    }
}

fn make(
    directory: &mut Directory,
    principal: Principal,
    expires_at: Option<i64>,
    key: Option<FixedKey>,
) -> Credentials {
    match key {
        Some(key) => {
            let (id, key) = key.stands_for(principal, expires_at);
            directory.insert(id, key)
        }
        None => directory.issue(principal, expires_at),
    }
}

/// - `POST /_control/credentials` a [`CredentialOrder`], answered with the [`Credentials`] made
/// - `POST /_control/roles` a [`Role`], answered with its ARN
pub(super) fn routes(state: &State) -> Router {
    let (credentials, roles) = (state.clone(), state.clone());
    Router::new()
        .route(
            "/_control/credentials",
            post(async move |body: Bytes| {
                let made = credentials.order(read(&body)?).map_err(BadOrder)?;
                Ok::<_, BadOrder>(Json(made.map_or(json!({}), |made| json!(made))))
            }),
        )
        .route(
            "/_control/roles",
            post(async move |body: Bytes| {
                let role: Role = read(&body)?;
                let answer: Value = json!({"arn": role.arn()});
                roles.directory.lock().put_role(role);
                Ok::<_, BadOrder>(Json(answer))
            }),
        )
}
