//! Issuers that are trusted: those that rules imply, with defaults, and those written out, which override them (CHECKS K3, K8).

use protocol::Mode;

use super::fields::check_url;
use super::rules::PlacedRule;
use super::settings::duration;
use crate::appraisal::document::{IssuerDocument, PolicyDocument};
use crate::appraisal::keyed::Keyed;
use crate::appraisal::policy::{DEFAULT_TOKEN_LIFETIME, KeySource, OidcSettings, TrustedIssuer};
use crate::appraisal::rule::{ANY, GkeRule, Rule};
use crate::appraisal::tree::{Node, Report};
use crate::encoding::shown;
use crate::evidence::kubernetes_oidc::{GkeIssuer, parse_eks_issuer, parse_gke_issuer};
use crate::jose::JwkSet;

/// Longest `max_token_lifetime`, seconds.
const MAX_TOKEN_LIFETIME: i64 = 86_400;
/// kubelet asks for no shorter tokens, seconds.
const SHORTEST_USEFUL_LIFETIME: i64 = 600;

pub(super) fn read(document: &PolicyDocument, rules: &[PlacedRule], report: &mut Report) -> OidcSettings {
    let mut issuers = implied(rules);
    let wildcards = wildcards(rules);
    let mut first_of = Keyed::default();
    for (number, written) in document.oidc_issuers.iter().enumerate() {
        let path = format!("oidc_issuers[{number}]");
        if let Some(first) = written.issuer.clone().and_then(|issuer| first_of.insert(issuer, number)) {
            report.problem(format!("{path}.issuer"), format!("is the issuer of oidc_issuers[{first}] too"));
        }
        if let Some(issuer) = issuer(&path, written, report) {
            if issuers.get(&issuer.issuer).is_none() && !in_wildcard(&issuer.issuer, &wildcards) {
                report.warning(path, "is not used by any rule: its tokens map to no tenant");
            }
            issuers.insert(issuer.issuer.clone(), issuer);
        }
    }
    OidcSettings {
        issuers: issuers.items().cloned().collect(),
        wildcard_projects: wildcards.items().cloned().collect(),
    }
}

fn implied(rules: &[PlacedRule]) -> Keyed<TrustedIssuer> {
    let mut issuers = Keyed::default();
    for placed in rules {
        let (mode, issuer) = match &placed.rule {
            Rule::Gke(GkeRule { project, location, cluster, .. }) if cluster != ANY => {
                (Mode::GkeOidc, GkeIssuer { project, location, cluster }.issuer())
            }
            Rule::Eks(rule) => (Mode::EksOidc, rule.issuer.clone()),
            Rule::Gke(_) | Rule::Aws(_) => continue,
        };
        let keys = KeySource::Fetch { jwks_uri: default_jwks_uri(mode, &issuer) };
        let trusted = TrustedIssuer { mode, issuer: issuer.clone(), keys, max_token_lifetime: DEFAULT_TOKEN_LIFETIME };
        issuers.insert(issuer, trusted);
    }
    issuers
}

/// Project and location of the rules for any cluster.
fn wildcards(rules: &[PlacedRule]) -> Keyed<(String, String)> {
    let mut wildcards = Keyed::default();
    for placed in rules {
        if let Rule::Gke(rule) = &placed.rule
            && rule.cluster == ANY
        {
            let key = [rule.project.as_str(), " ", &rule.location].concat();
            wildcards.insert(key, (rule.project.clone(), rule.location.clone()));
        }
    }
    wildcards
}

fn in_wildcard(issuer: &str, wildcards: &Keyed<(String, String)>) -> bool {
    parse_gke_issuer(issuer).is_some_and(|parts| {
        wildcards
            .items()
            .any(|(project, location)| project == parts.project && (location == ANY || location == parts.location))
    })
}

/// `<issuer>/jwks` (GKE), `<issuer>/keys` (EKS).
fn default_jwks_uri(mode: Mode, issuer: &str) -> String {
    [issuer, if mode == Mode::GkeOidc { "/jwks" } else { "/keys" }].concat()
}

fn issuer(path: &str, written: &IssuerDocument, report: &mut Report) -> Option<TrustedIssuer> {
    let identity = mode_and_issuer(path, written, report);
    let keys = keys(path, written, report);
    let lifetime_path = format!("{path}.max_token_lifetime");
    let lifetime =
        duration(&lifetime_path, written.max_token_lifetime.as_deref(), report).unwrap_or(DEFAULT_TOKEN_LIFETIME);
    if !(1..=MAX_TOKEN_LIFETIME).contains(&lifetime) {
        report.problem(lifetime_path, "must be more than nothing and at most 24h");
    } else if lifetime < SHORTEST_USEFUL_LIFETIME {
        report.warning(lifetime_path, "is shorter than the shortest life of a projected token, 10m");
    }
    let (mode, issuer) = identity?;
    let keys = keys.ok()?.unwrap_or_else(|| KeySource::Fetch { jwks_uri: default_jwks_uri(mode, &issuer) });
    Some(TrustedIssuer { mode, issuer, keys, max_token_lifetime: lifetime })
}

fn mode_and_issuer(path: &str, written: &IssuerDocument, report: &mut Report) -> Option<(Mode, String)> {
    let mode_path = format!("{path}.mode");
    let issuer_path = format!("{path}.issuer");
    if written.issuer.is_none() {
        report.missing(&issuer_path, "is required");
    }
    let Some(mode) = written.mode.as_deref() else {
        report.missing(&mode_path, "is required: gke-oidc or eks-oidc");
        return None;
    };
    let (mode, fits): (Mode, fn(&str) -> bool) = match mode.parse() {
        Ok(Mode::GkeOidc) => (Mode::GkeOidc, |issuer| parse_gke_issuer(issuer).is_some()),
        Ok(Mode::EksOidc) => (Mode::EksOidc, |issuer| parse_eks_issuer(issuer).is_some()),
        _ => {
            report.problem(mode_path, format!("`{}` is not one of gke-oidc, eks-oidc", shown(mode)));
            return None;
        }
    };
    let issuer = written.issuer.as_deref()?;
    if !fits(issuer) {
        let wanted = if mode == Mode::GkeOidc {
            "must be https://container.googleapis.com/v1/projects/<project>/locations/<location>/clusters/<cluster>"
        } else {
            "must be https://oidc.eks.<region>.amazonaws.com/id/<32 upper-case letters and digits>"
        };
        report.problem(issuer_path, format!("{wanted}; emulators sign with such an issuer and set jwks_uri"));
        return None;
    }
    Some((mode, issuer.to_owned()))
}

/// Keys as written, `None` when the default address is meant; an error when they are wrong and have been reported.
fn keys(path: &str, written: &IssuerDocument, report: &mut Report) -> Result<Option<KeySource>, ()> {
    let (jwks_path, uri_path) = (format!("{path}.jwks"), format!("{path}.jwks_uri"));
    let set = written.jwks.as_ref().map(|jwks| static_keys(&jwks_path, jwks, report));
    let uri = written.jwks_uri.as_ref().map(|uri| match check_url(uri, false) {
        Ok(()) => {
            let message =
                "replaces the issuer's own keys: whoever runs this address can make tokens of any ServiceAccount";
            report.warning(uri_path.clone(), message);
            Ok(KeySource::Fetch { jwks_uri: uri.clone() })
        }
        Err(message) => {
            report.problem(uri_path.clone(), message);
            Err(())
        }
    });
    match (set, uri) {
        (Some(_), Some(_)) => {
            report.problem(jwks_path, "cannot stand beside jwks_uri: keys come from one place");
            Err(())
        }
        (Some(keys), None) | (None, Some(keys)) => keys.map(Some),
        (None, None) => Ok(None),
    }
}

/// A static set without a usable key is a problem (CHECKS K8).
fn static_keys(path: &str, jwks: &Node, report: &mut Report) -> Result<KeySource, ()> {
    let jwks = serde_json::to_string(jwks).map_err(|error| report.problem(path, error.to_string()))?;
    match JwkSet::parse(jwks.as_bytes()) {
        Ok(_) => Ok(KeySource::Static { jwks }),
        Err(error) => {
            report.problem(path, error.to_string());
            Err(())
        }
    }
}
