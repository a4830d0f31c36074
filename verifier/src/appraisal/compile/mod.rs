//! Validation: from a document to a policy, with every problem found in one go.
//!
//! A file per part: `settings` (names, lifetimes, STS), `rules`, `issuers`; `fields` has the grammars. Values that are wrong are
//! reported and left out, so that the parts after them still get their say.

mod fields;
mod issuers;
mod rules;
mod settings;

use protocol::admin::PolicyProblem;

use super::document::PolicyDocument;
use super::keyed::Keyed;
use super::policy::{Index, Policy, Tenant};
use rules::PlacedRule;

pub use fields::seconds;

pub(super) fn compile(mut document: PolicyDocument) -> Result<Policy, Vec<PolicyProblem>> {
    let mut report = std::mem::take(&mut document.shape);
    let trust_domain = settings::trust_domain(&document, &mut report);
    let audience = settings::audience(&document, &mut report);
    let certificates = settings::certificates(&document, &mut report);
    let aws_sts = settings::aws_sts(&document, &mut report);
    let rules = rules::read(&document, &mut report);
    rules::check_against_regions(&rules, &aws_sts, &mut report);
    rules::check_overlap(&rules, &mut report);
    let oidc = issuers::read(&document, &rules, &mut report);
    if !report.problems.is_empty() {
        return Err(report.problems);
    }
    let tenants = tenants(&document, &rules);
    Ok(Policy {
        trust_domain,
        audience,
        certificates,
        aws_sts,
        oidc,
        index: index(&rules),
        tenants,
        warnings: report.warnings,
        document,
    })
}

fn tenants(document: &PolicyDocument, rules: &[PlacedRule]) -> Keyed<Tenant> {
    let mut tenants = Keyed::default();
    for tenant in &document.tenants {
        let Some(id) = tenant.id.clone() else { continue };
        let own = rules.iter().filter(|placed| placed.tenant == id).map(|placed| placed.rule.clone()).collect();
        tenants.insert(id, Tenant { rules: own, bootstrap_tokens: tenant.bootstrap_tokens.unwrap_or(true) });
    }
    tenants
}

fn index(rules: &[PlacedRule]) -> Index {
    let mut index = Index::default();
    for placed in rules {
        index.add(&placed.tenant, placed.rule.clone());
    }
    index
}
