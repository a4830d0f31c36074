//! Tenants and their rules, one by one and against each other.

use protocol::Mode;

use super::fields::{check_role, check_user, is_account, is_namespace, is_service_account, is_session, is_unique_id};
use crate::appraisal::document::{PolicyDocument, RuleDocument};
use crate::appraisal::keyed::Keyed;
use crate::appraisal::policy::AwsStsSettings;
use crate::appraisal::rule::{ANY, AwsRule, EksRule, GkeRule, NamePattern, Rule};
use crate::appraisal::tree::Report;
use crate::aws::partition;
use crate::encoding::shown;
use crate::evidence::PrincipalKind;
use crate::evidence::bootstrap_token::is_tenant_id;
use crate::evidence::kubernetes_oidc::{GkeIssuer, parse_eks_issuer, parse_gke_issuer};

/// A rule with its place in the document.
pub(super) struct PlacedRule {
    pub(super) path: String,
    /// Place of the tenant in the document: two tenants of one id are still told apart.
    pub(super) tenant_number: usize,
    pub(super) tenant: String,
    pub(super) rule: Rule,
}

pub(super) fn read(document: &PolicyDocument, report: &mut Report) -> Vec<PlacedRule> {
    let mut first_of = Keyed::default();
    let mut rules = Vec::new();
    for (number, tenant) in document.tenants.iter().enumerate() {
        let path = format!("tenants[{number}]");
        let id = tenant.id.as_deref().unwrap_or_default();
        check_tenant_id(&path, tenant.id.as_deref(), report);
        if let Some(first) = first_of.insert(id.to_owned(), number).filter(|_| !id.is_empty()) {
            report.problem(format!("{path}.id"), format!("is the id of tenants[{first}] too"));
        }
        if tenant.rules.is_empty() && tenant.bootstrap_tokens == Some(false) {
            report.warning(path.clone(), "has no rules and no bootstrap tokens: no runner can enrol");
        }
        for (n, written) in tenant.rules.iter().enumerate() {
            let path = format!("{path}.rules[{n}]");
            let rule = Reader { path: &path, written, report }.rule();
            if let Some(rule) = rule {
                rules.push(PlacedRule { path, tenant_number: number, tenant: id.to_owned(), rule });
            }
        }
    }
    if document.tenants.is_empty() {
        report.warning("tenants", "is empty: no runner can enrol");
    }
    rules
}

fn check_tenant_id(path: &str, id: Option<&str>, report: &mut Report) {
    let path = format!("{path}.id");
    match id {
        None => report.missing(&path, "is required"),
        Some(id) if !is_tenant_id(id) => {
            report.problem(path, "must be 1 to 63 of a-z, 0-9 and inner '-'");
        }
        Some(_) => {}
    }
}

/// Reads one rule. Every field is looked at before it gives up.
struct Reader<'a> {
    path: &'a str,
    written: &'a RuleDocument,
    report: &'a mut Report,
}

const AWS_FIELDS: &[&str] = &["partition", "account", "role", "user", "session", "unique_id"];
const GKE_FIELDS: &[&str] = &["project", "location", "cluster", "namespace", "service_account"];
const EKS_FIELDS: &[&str] = &["issuer", "namespace", "service_account"];

impl Reader<'_> {
    fn rule(mut self) -> Option<Rule> {
        let path = self.at("mode");
        let Some(mode) = self.written.mode.as_deref() else {
            self.report.missing(&path, "is required: aws-sts, gke-oidc or eks-oidc");
            return None;
        };
        match mode.parse() {
            Ok(Mode::AwsSts) => self.only(mode, AWS_FIELDS).aws(),
            Ok(Mode::GkeOidc) => self.only(mode, GKE_FIELDS).gke(),
            Ok(Mode::EksOidc) => self.only(mode, EKS_FIELDS).eks(),
            Ok(Mode::BootstrapToken) => {
                self.report
                    .problem(path, "bootstrap tokens need no rule: they name their tenant (see bootstrap_tokens)");
                None
            }
            Ok(Mode::MtlsRenewal) | Err(_) => {
                self.report.problem(path, format!("`{}` is not one of aws-sts, gke-oidc, eks-oidc", shown(mode)));
                None
            }
        }
    }

    fn at(&self, field: &str) -> String {
        [self.path, ".", field].concat()
    }

    fn only(&mut self, mode: &str, fields: &[&str]) -> &mut Self {
        for (name, _) in &self.written.fields {
            if !fields.contains(name) {
                let message = format!("is no field of an {mode} rule; its fields are {}", fields.join(", "));
                self.report.problem(self.at(name), message.replace("an gke", "a gke"));
            }
        }
        self
    }

    /// An optional field that, when written, must pass `check`.
    fn optional(&mut self, name: &str, wanted: &str, check: impl Fn(&str) -> bool) -> Result<Option<String>, ()> {
        match self.written.field(name) {
            None => Ok(None),
            Some(text) if check(text) => Ok(Some(text.to_owned())),
            Some(_) => {
                self.report.problem(self.at(name), wanted);
                Err(())
            }
        }
    }

    fn required(&mut self, name: &str, wanted: &str, check: impl Fn(&str) -> bool) -> Option<String> {
        let value = self.optional(name, wanted, check).ok()?;
        if value.is_none() {
            self.report.missing(&self.at(name), "is required");
        }
        value
    }

    fn aws(&mut self) -> Option<Rule> {
        let known: Vec<&str> = partition::partitions().iter().map(|partition| partition.id).collect();
        let wanted = format!("must be one of {}", known.join(", "));
        let partition = self.optional("partition", &wanted, |text| partition::partition(text).is_some());
        let account = self.required("account", "must be the 12 digits of an AWS account", is_account);
        let principal = self.aws_principal();
        let user = principal.as_ref().is_some_and(|(kind, _)| *kind == PrincipalKind::User);
        let session = if user && self.written.field("session").is_some() {
            self.report.problem(self.at("session"), "is for roles: an IAM user has no session");
            Err(())
        } else {
            self.optional("session", "must be a whole session name: 2 to 64 of A-Z, a-z, 0-9 and _+=,.@-", is_session)
        };
        let (prefix, wanted) = if user {
            ("AIDA", "must be the user's unique id, AIDA and upper-case letters and digits")
        } else {
            ("AROA", "must be the role's unique id, AROA and upper-case letters and digits")
        };
        let unique_id = self.optional("unique_id", wanted, |text| is_unique_id(text, prefix));
        if let Ok(Some(_)) = &session {
            let message =
                "is chosen by whoever assumes the role: it narrows the rule, but keeps nobody out who may assume it";
            self.report.warning(self.at("session"), message);
        }
        let (kind, name) = principal?;
        Some(Rule::Aws(AwsRule {
            partition: partition.ok()?,
            account: account?,
            kind,
            name: NamePattern(name),
            session: session.ok()?,
            unique_id: unique_id.ok()?,
        }))
    }

    fn aws_principal(&mut self) -> Option<(PrincipalKind, String)> {
        let (kind, field, name, checked) = match (self.written.field("role"), self.written.field("user")) {
            (Some(_), Some(_)) => {
                self.report.problem(self.path, "has both role and user: write one rule for each");
                return None;
            }
            (None, None) => {
                // A role or user of the wrong type has been reported already.
                let user = self.at("user");
                if !self.report.problems.iter().any(|problem| problem.path == user) {
                    self.report.missing(&self.at("role"), "is required (or user)");
                }
                return None;
            }
            (Some(role), None) => (PrincipalKind::Role, "role", role, check_role(role)),
            (None, Some(user)) => (PrincipalKind::User, "user", user, check_user(user)),
        };
        if let Err(message) = checked {
            self.report.problem(self.at(field), message);
            return None;
        }
        Some((kind, name.to_owned()))
    }

    fn gke(&mut self) -> Option<Rule> {
        let project =
            self.required("project", "must be the id of a Google Cloud project", |text| gke_parts_fit(text, "l", "c"));
        let cluster = self.required("cluster", "must be the name of a GKE cluster, or \"*\"", |text| {
            text == ANY || gke_parts_fit("p", "l", text)
        });
        let wildcard = self.written.field("cluster") == Some(ANY);
        let wanted = if self.written.field("location") == Some(ANY) {
            "may be \"*\" only where cluster is \"*\" too"
        } else {
            "must be a region or zone of Google Cloud, such as \"europe-west1\""
        };
        let location =
            self.required("location", wanted, |text| (wildcard && text == ANY) || gke_parts_fit("p", text, "c"));
        let account = self.service_account();
        if wildcard {
            let message = "\"*\" trusts every administrator of every cluster of the project to name any ServiceAccount";
            self.report.warning(self.at("cluster"), message);
        }
        let (namespace, service_account) = account?;
        Some(Rule::Gke(GkeRule {
            project: project?,
            location: location?,
            cluster: cluster?,
            namespace,
            service_account,
        }))
    }

    fn eks(&mut self) -> Option<Rule> {
        let wanted = "must be the cluster's OIDC issuer, https://oidc.eks.<region>.amazonaws.com/id/<32 upper-case letters and digits>";
        let issuer = self.required("issuer", wanted, |text| parse_eks_issuer(text).is_some());
        let account = self.service_account();
        let (namespace, service_account) = account?;
        Some(Rule::Eks(EksRule { issuer: issuer?, namespace, service_account }))
    }

    fn service_account(&mut self) -> Option<(String, String)> {
        let namespace = self.required("namespace", "must be a Kubernetes namespace, exactly", is_namespace);
        let service_account =
            self.required("service_account", "must be a Kubernetes ServiceAccount, exactly", is_service_account);
        namespace.zip(service_account)
    }
}

/// Whether an issuer of these parts reads back as these parts: the one grammar of GKE issuers decides.
fn gke_parts_fit(project: &str, location: &str, cluster: &str) -> bool {
    let parts = GkeIssuer { project, location, cluster };
    parse_gke_issuer(&parts.issuer()) == Some(parts)
}

/// An `aws-sts` rule needs a region that evidence may come from. Without one it stands and never matches: an empty list refuses everything
/// (CHECKS A4).
pub(super) fn check_against_regions(rules: &[PlacedRule], settings: &AwsStsSettings, report: &mut Report) {
    let aws = rules.iter().filter_map(|placed| match &placed.rule {
        Rule::Aws(rule) => Some((placed, rule)),
        _ => None,
    });
    let partitions: Vec<&str> = settings
        .regions
        .iter()
        .filter_map(|name| partition::region(name).map(|region| region.partition().id))
        .collect();
    for (placed, rule) in aws {
        if settings.regions.is_empty() {
            let message = "is an aws-sts rule, but aws_sts.regions allows no region: it can never match";
            report.warning(placed.path.clone(), message);
        } else if let Some(partition) = rule.partition.as_deref().filter(|id| !partitions.contains(id)) {
            let message = format!("aws_sts.regions allows no region of {partition}: the rule can never match");
            report.warning(format!("{}.partition", placed.path), message);
        }
    }
}

/// Rules named in one overlap problem.
const NAMED: usize = 3;

/// Refuses rules of different tenants that one principal could match (PROTOCOL, Policy).
pub(super) fn check_overlap(rules: &[PlacedRule], report: &mut Report) {
    let mut scopes: Keyed<Vec<&PlacedRule>> = Keyed::default();
    for placed in rules {
        let scope = placed.rule.scope();
        let earlier = scopes.get(&scope).map_or(&[][..], Vec::as_slice);
        let (own, others): (Vec<&PlacedRule>, Vec<&PlacedRule>) =
            earlier.iter().partition(|other| other.tenant_number == placed.tenant_number);
        report_overlap(placed, &others, report);
        if let Some(same) = own.iter().find(|other| other.rule == placed.rule) {
            report.warning(placed.path.clone(), format!("repeats {}", same.path));
        }
        if let Some(other) = others.iter().find(|other| placed.rule.differs_by_session_only(&other.rule)) {
            let message = format!(
                "is told apart from {} of tenant `{}` by session name only, which the caller chooses: either tenant can pass as the other",
                other.path,
                shown(&other.tenant),
            );
            report.warning(placed.path.clone(), message);
        }
        scopes.push(scope, placed);
    }
}

fn report_overlap(placed: &PlacedRule, others: &[&PlacedRule], report: &mut Report) {
    let overlapping: Vec<&&PlacedRule> = others.iter().filter(|other| placed.rule.overlaps(&other.rule)).collect();
    if overlapping.is_empty() {
        return;
    }
    let mut named: Vec<String> = overlapping
        .iter()
        .take(NAMED)
        .map(|other| format!("{} of tenant `{}`", other.path, shown(&other.tenant)))
        .collect();
    if overlapping.len() > NAMED {
        named.push(format!("{} more", overlapping.len().saturating_sub(NAMED)));
    }
    let message = format!("overlaps {}: one identity could belong to both", named.join(", "));
    report.problem(placed.path.clone(), message);
}
