//! Who exists: users, roles and the access keys that stand for them, as IAM keeps them.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Where a session token minted for nothing in particular begins, as the real ones do.
const SESSION_TOKEN_PREFIX: &str = "IQoJb3JpZ2luX2Vj";
const SESSION_TOKEN_OCTETS: usize = 510;
const UNIQUE_ID_LENGTH: usize = 21;
const ID_ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The partition a region belongs to.
pub fn partition_of_region(region: &str) -> &'static str {
    match region {
        r if r.starts_with("cn-") => "aws-cn",
        r if r.starts_with("us-gov-") => "aws-us-gov",
        r if r.starts_with("eusc-") => "aws-eusc",
        _ => "aws",
    }
}

/// Whom a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `aws`, `aws-cn`, `aws-us-gov`, `aws-eusc`.
    pub partition: String,
    /// Twelve digits.
    pub account: String,
    /// What it is.
    pub kind: PrincipalKind,
    /// Unique id without a session: `AIDA…`, `AROA…`, or the account.
    pub unique_id: String,
}

/// The kinds STS tells apart in an ARN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrincipalKind {
    /// An IAM user, path included: `division/sub/Alice`.
    User(String),
    /// A role session.
    RoleSession {
        /// Role name; STS leaves the path out.
        role: String,
        /// Session name.
        session: String,
    },
    /// The account's root user.
    Root,
    /// A federated user of `GetFederationToken`.
    FederatedUser(String),
}

impl Principal {
    /// The ARN as `GetCallerIdentity` tells it.
    pub fn arn(&self) -> String {
        let (service, resource) = match &self.kind {
            PrincipalKind::User(name) => ("iam", format!("user/{name}")),
            PrincipalKind::Root => ("iam", "root".to_owned()),
            PrincipalKind::RoleSession { role, session } => ("sts", format!("assumed-role/{role}/{session}")),
            PrincipalKind::FederatedUser(name) => ("sts", format!("federated-user/{name}")),
        };
        format!("arn:{}:{service}::{}:{resource}", self.partition, self.account)
    }

    /// The `UserId` as `GetCallerIdentity` tells it.
    pub fn user_id(&self) -> String {
        match &self.kind {
            PrincipalKind::User(_) | PrincipalKind::Root => self.unique_id.clone(),
            PrincipalKind::RoleSession { session, .. } => format!("{}:{session}", self.unique_id),
            PrincipalKind::FederatedUser(name) => format!("{}:{name}", self.account),
        }
    }
}

/// What the caller signs with, and whom it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// `AKIA…` or `ASIA…`.
    pub access_key_id: String,
    /// 40 characters.
    pub secret_access_key: String,
    /// Set for temporary credentials.
    pub session_token: Option<String>,
    /// Unix seconds; set for temporary credentials.
    pub expires_at: Option<i64>,
    /// ARN of the principal.
    pub arn: String,
    /// `UserId` of the principal.
    pub user_id: String,
    /// Account of the principal.
    pub account: String,
}

/// An access key on record.
#[derive(Debug, Clone)]
pub struct AccessKey {
    /// The secret.
    pub secret: String,
    /// The one session token that goes with a temporary key.
    pub session_token: Option<String>,
    /// Unix seconds.
    pub expires_at: Option<i64>,
    /// Whom it stands for.
    pub principal: Principal,
}

/// One way a role can be assumed by a web identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebIdentityTrust {
    /// The provider's issuer, exactly as in `iss`.
    pub issuer: String,
    /// Where its keys are fetched.
    pub jwks_uri: String,
    /// The client id: `sts.amazonaws.com` for IRSA.
    #[serde(default = "irsa_audience")]
    pub audience: String,
    /// `sub` allowed to assume the role; one `*` at the end stands for any rest.
    pub subjects: Vec<String>,
}

fn irsa_audience() -> String {
    "sts.amazonaws.com".to_owned()
}

/// A role that can be assumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Twelve digits.
    pub account: String,
    /// Name without path.
    pub name: String,
    /// `/` or `/path/`.
    #[serde(default = "root_path")]
    pub path: String,
    /// Partition.
    #[serde(default = "commercial")]
    pub partition: String,
    /// Web identities that may assume it.
    #[serde(default)]
    pub web_identity: Vec<WebIdentityTrust>,
    /// ARNs (of users, roles or role sessions) that may assume it by `AssumeRole`.
    #[serde(default)]
    pub trusted_arns: Vec<String>,
}

fn root_path() -> String {
    "/".to_owned()
}

pub(super) fn commercial() -> String {
    "aws".to_owned()
}

impl Role {
    /// A role nobody may assume yet.
    pub fn new(account: &str, name: &str) -> Self {
        Self {
            account: account.to_owned(),
            name: name.to_owned(),
            path: root_path(),
            partition: commercial(),
            web_identity: Vec::new(),
            trusted_arns: Vec::new(),
        }
    }

    /// `arn:<partition>:iam::<account>:role<path><name>`.
    pub fn arn(&self) -> String {
        format!("arn:{}:iam::{}:role{}{}", self.partition, self.account, self.path, self.name)
    }
}

/// Everyone known.
#[derive(Debug, Default)]
pub struct Directory {
    keys: HashMap<String, AccessKey>,
    roles: HashMap<String, Role>,
}

impl Directory {
    /// The key on record under an access key id.
    pub fn key(&self, access_key_id: &str) -> Option<&AccessKey> {
        self.keys.get(access_key_id)
    }

    /// The role of an ARN.
    pub fn role(&self, arn: &str) -> Option<&Role> {
        self.roles.get(arn)
    }

    /// Registers or replaces a role.
    pub fn put_role(&mut self, role: Role) {
        self.roles.insert(role.arn(), role);
    }

    /// A principal. Unique ids are made from names, so they outlive a restart.
    pub fn principal(&self, partition: &str, account: &str, kind: PrincipalKind) -> Principal {
        let (prefix, name) = match &kind {
            PrincipalKind::User(name) => ("AIDA", name.as_str()),
            PrincipalKind::RoleSession { role, .. } => ("AROA", role.as_str()),
            PrincipalKind::Root | PrincipalKind::FederatedUser(_) => ("", account),
        };
        let unique_id = if prefix.is_empty() {
            account.to_owned()
        } else {
            unique_id(prefix, &format!("{partition}/{account}/{name}"))
        };
        Principal { partition: partition.to_owned(), account: account.to_owned(), kind, unique_id }
    }

    /// Makes a key for `principal`: temporary, with a session token, when `expires_at` is given.
    pub fn issue(&mut self, principal: Principal, expires_at: Option<i64>) -> Credentials {
        let prefix = if expires_at.is_some() { "ASIA" } else { "AKIA" };
        let secret = STANDARD.encode(rand::random::<[u8; 30]>());
        let session_token = expires_at.map(|_| random_session_token());
        self.insert(random_id(prefix, 20), AccessKey { secret, session_token, expires_at, principal })
    }

    /// Puts a key on record under an id of the caller's choice.
    pub fn insert(&mut self, access_key_id: String, key: AccessKey) -> Credentials {
        let credentials = Credentials {
            access_key_id: access_key_id.clone(),
            secret_access_key: key.secret.clone(),
            session_token: key.session_token.clone(),
            expires_at: key.expires_at,
            arn: key.principal.arn(),
            user_id: key.principal.user_id(),
            account: key.principal.account.clone(),
        };
        self.keys.insert(access_key_id, key);
        credentials
    }

    /// Sets when a key ends; false when there is no such key.
    pub fn expire(&mut self, access_key_id: &str, at: i64) -> bool {
        self.keys.get_mut(access_key_id).map(|key| key.expires_at = Some(at)).is_some()
    }

    /// Deletes a key; false when there is no such key.
    pub fn delete(&mut self, access_key_id: &str) -> bool {
        self.keys.remove(access_key_id).is_some()
    }
}

fn random_id(prefix: &str, length: usize) -> String {
    let mut rng = rand::rng();
    let mut id = prefix.to_owned();
    while id.len() < length {
        id.push(char::from(ID_ALPHABET[rng.random_range(0..ID_ALPHABET.len())]));
    }
    id
}

fn unique_id(prefix: &str, name: &str) -> String {
    let rest = Sha256::digest(name)
        .iter()
        .map(|octet| char::from(ID_ALPHABET[usize::from(*octet) % ID_ALPHABET.len()]))
        .take(UNIQUE_ID_LENGTH - prefix.len())
        .collect::<String>();
    format!("{prefix}{rest}")
}

fn random_session_token() -> String {
    let mut octets = [0; SESSION_TOKEN_OCTETS];
    rand::rng().fill(&mut octets[..]);
    format!("{SESSION_TOKEN_PREFIX}{}", STANDARD.encode(octets))
}
