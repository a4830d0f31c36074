//! Rules: what a tenant's runners may be, and whether a principal is one of them.
//!
//! A rule is only ever made by [`super::Policy::compile`]; it crosses into the tenant's object with a renewal (CHECKS I5).

use serde::{Deserialize, Serialize};

use crate::evidence::kubernetes_oidc::{GkeIssuer, parse_gke_issuer};
use crate::evidence::{AwsPrincipal, KubernetesPrincipal, Principal, PrincipalKind};
use protocol::Mode;

/// One rule of a tenant. An absent field means any (PROTOCOL, Policy).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// See [`AwsRule`].
    Aws(AwsRule),
    /// See [`GkeRule`].
    Gke(GkeRule),
    /// See [`EksRule`].
    Eks(EksRule),
}

/// An IAM role or user of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsRule {
    pub(super) partition: Option<String>,
    pub(super) account: String,
    pub(super) kind: PrincipalKind,
    pub(super) name: NamePattern,
    pub(super) session: Option<String>,
    pub(super) unique_id: Option<String>,
}

/// A ServiceAccount of one GKE cluster, or of every cluster of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GkeRule {
    pub(super) project: String,
    /// Or [`ANY`], with `cluster` only.
    pub(super) location: String,
    /// Or [`ANY`].
    pub(super) cluster: String,
    pub(super) namespace: String,
    pub(super) service_account: String,
}

/// A ServiceAccount of one EKS cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EksRule {
    pub(super) issuer: String,
    pub(super) namespace: String,
    pub(super) service_account: String,
}

/// What a location or cluster says to match any.
pub(super) const ANY: &str = "*";

/// An exact name, or a prefix of at least one character and one trailing `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamePattern(pub(super) String);

impl NamePattern {
    fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('*').filter(|prefix| !prefix.is_empty())
    }

    /// Whether `name` is the name or begins with the prefix.
    pub fn matches(&self, name: &str) -> bool {
        self.prefix().map_or_else(|| self.0 == name, |prefix| name.starts_with(prefix))
    }

    /// Whether one name could match both.
    fn overlaps(&self, other: &Self) -> bool {
        match (self.prefix(), other.prefix()) {
            (Some(one), Some(two)) => one.starts_with(two) || two.starts_with(one),
            (Some(_), None) => self.matches(&other.0),
            (None, _) => other.matches(&self.0),
        }
    }
}

impl Rule {
    /// Whether `principal` is one of those the rule is for. A bootstrap token is none: it belongs to its tenant by itself.
    pub fn matches(&self, principal: &Principal) -> bool {
        match (self, principal) {
            (Self::Aws(rule), Principal::Aws(principal)) => rule.matches(principal),
            (Self::Gke(rule), Principal::Kubernetes(principal)) => rule.matches(principal),
            (Self::Eks(rule), Principal::Kubernetes(principal)) => rule.matches(principal),
            _ => false,
        }
    }

    /// Whether one principal could match both rules (PROTOCOL, Policy: overlap).
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Aws(one), Self::Aws(two)) => {
                one.overlaps_but_for_session(two) && both(one.session.as_ref(), two.session.as_ref())
            }
            (Self::Gke(one), Self::Gke(two)) => one.overlaps(two),
            (Self::Eks(one), Self::Eks(two)) => one == two,
            _ => false,
        }
    }

    /// Whether nothing but the session name, which its holder chooses, keeps the two rules apart.
    pub(super) fn differs_by_session_only(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Aws(one), Self::Aws(two)) => one.overlaps_but_for_session(two) && !self.overlaps(other),
            _ => false,
        }
    }

    /// Rules with different scopes never overlap; principals have the same scope as the rules they match.
    pub(super) fn scope(&self) -> String {
        match self {
            Self::Aws(rule) => ["aws ", &rule.account].concat(),
            Self::Gke(rule) => ["gke ", &rule.project].concat(),
            Self::Eks(rule) => ["eks ", &rule.issuer].concat(),
        }
    }
}

/// Where the index keeps a rule: every principal it matches has this key among [`index_keys_of`].
pub(super) fn index_key(rule: &Rule) -> String {
    match rule {
        Rule::Aws(rule) => aws_key(&rule.account, rule.kind, (rule.name.prefix().is_none()).then_some(&rule.name.0)),
        Rule::Gke(rule) => kubernetes_key(&rule.project, &rule.namespace, &rule.service_account),
        Rule::Eks(rule) => kubernetes_key(&rule.issuer, &rule.namespace, &rule.service_account),
    }
}

/// Where the index keeps the rules that could match `principal`.
pub(super) fn index_keys_of(principal: &Principal) -> Vec<String> {
    match principal {
        Principal::Aws(p) => vec![aws_key(&p.account, p.kind, Some(&p.name)), aws_key(&p.account, p.kind, None)],
        Principal::Kubernetes(p) if p.mode == Mode::GkeOidc => parse_gke_issuer(&p.issuer)
            .map(|issuer| kubernetes_key(issuer.project, &p.namespace, &p.service_account))
            .into_iter()
            .collect(),
        Principal::Kubernetes(p) => vec![kubernetes_key(&p.issuer, &p.namespace, &p.service_account)],
        Principal::Bootstrap { .. } => Vec::new(),
    }
}

/// By name, or for all prefixes of the account together.
fn aws_key(account: &str, kind: PrincipalKind, name: Option<&String>) -> String {
    let kind = match kind {
        PrincipalKind::Role => "role",
        PrincipalKind::User => "user",
    };
    [account, ":", kind, "/", name.map_or(ANY, String::as_str)].concat()
}

fn kubernetes_key(cluster: &str, namespace: &str, service_account: &str) -> String {
    [cluster, "#", namespace, ":", service_account].concat()
}

/// Whether one value satisfies both constraints, absent meaning any.
fn both<T: PartialEq>(one: Option<T>, two: Option<T>) -> bool {
    one.zip(two).is_none_or(|(one, two)| one == two)
}

impl AwsRule {
    fn matches(&self, principal: &AwsPrincipal) -> bool {
        self.account == principal.account
            && self.kind == principal.kind
            && self.name.matches(&principal.name)
            && self.partition.as_ref().is_none_or(|partition| *partition == principal.partition)
            && self.session.as_ref().is_none_or(|session| Some(session) == principal.session.as_ref())
            && self.unique_id.as_ref().is_none_or(|id| *id == principal.unique_id)
    }

    fn overlaps_but_for_session(&self, other: &Self) -> bool {
        self.account == other.account
            && self.kind == other.kind
            && self.name.overlaps(&other.name)
            && both(self.partition.as_ref(), other.partition.as_ref())
            && both(self.unique_id.as_ref(), other.unique_id.as_ref())
    }
}

impl GkeRule {
    fn matches(&self, principal: &KubernetesPrincipal) -> bool {
        principal.mode == Mode::GkeOidc
            && self.namespace == principal.namespace
            && self.service_account == principal.service_account
            && parse_gke_issuer(&principal.issuer).is_some_and(|issuer: GkeIssuer<'_>| {
                self.project == issuer.project
                    && (self.location == ANY || self.location == issuer.location)
                    && (self.cluster == ANY || self.cluster == issuer.cluster)
            })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: &str, two: &str| one == ANY || two == ANY || one == two;
        self.project == other.project
            && meet(&self.location, &other.location)
            && meet(&self.cluster, &other.cluster)
            && self.namespace == other.namespace
            && self.service_account == other.service_account
    }
}

impl EksRule {
    fn matches(&self, principal: &KubernetesPrincipal) -> bool {
        principal.mode == Mode::EksOidc
            && self.issuer == principal.issuer
            && self.namespace == principal.namespace
            && self.service_account == principal.service_account
    }
}
