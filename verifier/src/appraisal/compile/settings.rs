//! Names, lifetimes and the STS allowlist.

use super::fields::{check_trust_domain, check_url, foreign_audience, is_audience, seconds};
use crate::appraisal::document::PolicyDocument;
use crate::appraisal::keyed::Keyed;
use crate::appraisal::policy::{AwsStsSettings, Certificates};
use crate::appraisal::tree::Report;
use crate::aws::endpoint::Endpoint;
use crate::aws::partition;
use crate::encoding::shown;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

pub(super) fn trust_domain(document: &PolicyDocument, report: &mut Report) -> String {
    let Some(text) = &document.trust_domain else {
        report.missing("trust_domain", "is required: the SPIFFE trust domain, such as \"edge.example.com\"");
        return String::new();
    };
    if let Err(message) = check_trust_domain(text) {
        report.problem("trust_domain", message);
    }
    text.clone()
}

pub(super) fn audience(document: &PolicyDocument, report: &mut Report) -> String {
    let Some(text) = &document.audience else {
        report.missing("audience", "is required: what evidence must be made for, such as \"edge.example.com\"");
        return String::new();
    };
    if !is_audience(text) {
        report.problem("audience", "must be 1 to 255 of A-Z, a-z, 0-9 and ._:/-");
    } else if let Some(message) = foreign_audience(text) {
        report.problem("audience", message);
    } else if document.oidc_issuers.iter().any(|issuer| issuer.issuer.as_ref() == Some(text)) {
        report.problem("audience", "is an issuer: it is the default audience of that cluster's own tokens");
    }
    text.clone()
}

pub(super) fn certificates(document: &PolicyDocument, report: &mut Report) -> Certificates {
    let written = document.certificates.clone().unwrap_or_default();
    let ttl = duration("certificates.ttl", written.ttl.as_deref(), report).unwrap_or(HOUR);
    if !(5 * MINUTE..=DAY).contains(&ttl) {
        report.problem("certificates.ttl", "must be from 5m to 24h");
    }
    let path = "certificates.reattest_after";
    let reattest_after = duration(path, written.reattest_after.as_deref(), report).unwrap_or(DAY.max(ttl));
    check_reattest(path, reattest_after, ttl, report);
    let path = "certificates.bootstrap_reattest_after";
    let bootstrap_reattest_after = duration(path, written.bootstrap_reattest_after.as_deref(), report);
    if let Some(secs) = bootstrap_reattest_after {
        check_reattest(path, secs, ttl, report);
    }
    if let Some(Err(message)) = written.crl_url.as_deref().map(|url| check_url(url, true)) {
        report.problem("certificates.crl_url", message);
    }
    Certificates {
        ttl,
        reattest_after,
        bootstrap_reattest_after,
        crl_url: written.crl_url,
        one_key_per_instance: document.one_key_per_instance.unwrap_or(false),
    }
}

fn check_reattest(path: &str, secs: i64, ttl: i64, report: &mut Report) {
    if !(ttl..=30 * DAY).contains(&secs) {
        report.problem(path, "must be from certificates.ttl to 30d");
    }
}

/// The seconds of a duration that is written; a wrong one is reported and read as absent.
pub(super) fn duration(path: &str, text: Option<&str>, report: &mut Report) -> Option<i64> {
    seconds(text?).map_err(|message| report.problem(path, message)).ok()
}

pub(super) fn aws_sts(document: &PolicyDocument, report: &mut Report) -> AwsStsSettings {
    let written = document.aws_sts.clone().unwrap_or_default();
    let regions = written.regions.unwrap_or_default();
    let mut seen = Keyed::default();
    for (n, region) in regions.iter().enumerate() {
        let path = format!("aws_sts.regions[{n}]");
        if !partition::is_known_region(region) {
            report.problem(path, format!("`{}` is no AWS region known to this verifier", shown(region)));
        } else if seen.insert(region.clone(), ()).is_some() {
            report.problem(path, format!("`{region}` is listed twice"));
        }
    }
    for (region, url) in &written.endpoints {
        let path = format!("aws_sts.endpoints.{}", shown(region));
        if !regions.contains(region) {
            report.problem(path.clone(), "is for a region that aws_sts.regions does not list");
        }
        match Endpoint::parse(url) {
            Err(error) => report.problem(path, error.to_string()),
            Ok(_) => report.warning(
                path,
                format!("replaces the STS endpoint of {}: whoever runs it can claim any identity", shown(region)),
            ),
        }
    }
    AwsStsSettings { regions, fips: written.fips.unwrap_or(false), endpoints: written.endpoints }
}
