//! The policy as people write it: TOML, and the same shape as JSON on the wire (PROTOCOL, Policy).
//!
//! Reading never ends at the first mistake: mistakes of shape stay in the document and come out of [`super::Policy::compile`]
//! together with all others. What is written back is what was written, defaults not filled in, durations as text.
//!
//! Out of scope: what the values mean.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::tree::{Node, Report, Table};

/// A policy document, valid or not. `Deserialize` fails on syntax and equal keys only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trust_domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) audience: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_key_per_instance: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) certificates: Option<CertificatesDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aws_sts: Option<AwsStsDocument>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) oidc_issuers: Vec<IssuerDocument>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tenants: Vec<TenantDocument>,
    #[serde(skip)]
    pub(super) shape: Report,
}

/// `[certificates]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct CertificatesDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reattest_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bootstrap_reattest_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crl_url: Option<String>,
}

/// `[aws_sts]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct AwsStsDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) regions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fips: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub(super) endpoints: Vec<(String, String)>,
}

/// `[[oidc_issuers]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct IssuerDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jwks_uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_token_lifetime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jwks: Option<Node>,
}

/// `[[tenants]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TenantDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bootstrap_tokens: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<RuleDocument>,
}

/// `[[tenants.rules]]`: every field of every mode.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct RuleDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    #[serde(flatten, serialize_with = "as_map")]
    pub(super) fields: Vec<(&'static str, String)>,
}

fn as_map<N: Serialize, S: Serializer>(fields: &[(N, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

impl RuleDocument {
    /// Value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }
}

/// Fields of a rule beside `mode`, whatever the mode.
const RULE_FIELDS: [&str; 12] = [
    "partition",
    "account",
    "role",
    "user",
    "session",
    "unique_id",
    "project",
    "location",
    "cluster",
    "issuer",
    "namespace",
    "service_account",
];

impl<'de> Deserialize<'de> for PolicyDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Node::deserialize(deserializer).map(Self::read)
    }
}

impl PolicyDocument {
    pub(super) fn read(node: Node) -> Self {
        let mut report = Report::default();
        let mut table = Table::of(String::new(), node, &mut report);
        let document = Self {
            trust_domain: table.text("trust_domain", &mut report),
            audience: table.text("audience", &mut report),
            one_key_per_instance: table.flag("one_key_per_instance", &mut report),
            certificates: table.table("certificates", &mut report).map(|table| certificates(table, &mut report)),
            aws_sts: table.table("aws_sts", &mut report).map(|table| aws_sts(table, &mut report)),
            oidc_issuers: tables(&mut table, "oidc_issuers", &mut report, issuer),
            tenants: tables(&mut table, "tenants", &mut report, tenant),
            shape: Report::default(),
        };
        table.finish(&mut report);
        Self { shape: report, ..document }
    }
}

fn tables<T>(
    table: &mut Table,
    name: &'static str,
    report: &mut Report,
    read: impl Fn(Table, &mut Report) -> T,
) -> Vec<T> {
    let items = table.list(name, report).unwrap_or_default();
    items
        .into_iter()
        .map(|(path, node)| {
            let item = Table::of(path, node, report);
            read(item, report)
        })
        .collect()
}

fn certificates(mut table: Table, report: &mut Report) -> CertificatesDocument {
    let document = CertificatesDocument {
        ttl: table.text("ttl", report),
        reattest_after: table.text("reattest_after", report),
        bootstrap_reattest_after: table.text("bootstrap_reattest_after", report),
        crl_url: table.text("crl_url", report),
    };
    table.finish(report);
    document
}

fn aws_sts(mut table: Table, report: &mut Report) -> AwsStsDocument {
    let document = AwsStsDocument {
        regions: table.texts("regions", report),
        fips: table.flag("fips", report),
        endpoints: table.text_table("endpoints", report).unwrap_or_default(),
    };
    table.finish(report);
    document
}

fn issuer(mut table: Table, report: &mut Report) -> IssuerDocument {
    let document = IssuerDocument {
        mode: table.text("mode", report),
        issuer: table.text("issuer", report),
        jwks_uri: table.text("jwks_uri", report),
        max_token_lifetime: table.text("max_token_lifetime", report),
        jwks: table.json("jwks"),
    };
    table.finish(report);
    document
}

fn tenant(mut table: Table, report: &mut Report) -> TenantDocument {
    let document = TenantDocument {
        id: table.text("id", report),
        bootstrap_tokens: table.flag("bootstrap_tokens", report),
        rules: tables(&mut table, "rules", report, rule),
    };
    table.finish(report);
    document
}

fn rule(mut table: Table, report: &mut Report) -> RuleDocument {
    let mode = table.text("mode", report);
    let fields = RULE_FIELDS.into_iter().filter_map(|name| table.text(name, report).map(|text| (name, text))).collect();
    table.finish(report);
    RuleDocument { mode, fields }
}
