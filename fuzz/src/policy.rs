//! Policy documents (PROTOCOL, Policy; CHECKS S2, K3, A4): a refusal says what and where, and what is accepted means the same when it is
//! written back, names known regions only, and trusts issuers of the right grammar at addresses that are https or loopback.

use protocol::Mode;
use verifier::appraisal::{KeySource, Policy, PolicyDocument};
use verifier::aws::endpoint::Endpoint;
use verifier::aws::partition;
use verifier::evidence::bootstrap_token::is_tenant_id;
use verifier::evidence::kubernetes_oidc::{parse_eks_issuer, parse_gke_issuer};
use verifier::jose::JwkSet;

/// A document as JSON.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(document) = serde_json::from_slice::<PolicyDocument>(input) else { return false };
    let policy = match Policy::compile(document) {
        Ok(policy) => policy,
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
            return false;
        }
    };
    let written = serde_json::to_string(policy.document()).unwrap();
    assert_eq!(Policy::compile(serde_json::from_str(&written).unwrap()).as_ref(), Ok(&policy), "{written}");
    assert!(!policy.audience().is_empty() && !policy.trust_domain().is_empty());
    assert!(policy.tenants().all(is_tenant_id));
    let sts = policy.aws_sts();
    assert!(sts.regions.iter().all(|region| partition::is_known_region(region)));
    assert!(sts.endpoints.iter().all(|(region, url)| sts.regions.contains(region) && Endpoint::parse(url).is_ok()));
    for issuer in &policy.oidc().issuers {
        let fits = match issuer.mode {
            Mode::GkeOidc => parse_gke_issuer(&issuer.issuer).is_some(),
            Mode::EksOidc => parse_eks_issuer(&issuer.issuer).is_some(),
            other => panic!("{other:?}"),
        };
        assert!(fits && issuer.issuer != policy.audience(), "{issuer:?}");
        assert!((1..=86_400).contains(&issuer.max_token_lifetime), "{issuer:?}");
        match &issuer.keys {
            KeySource::Fetch { jwks_uri } => {
                assert!(jwks_uri.starts_with("https://") || jwks_uri.starts_with("http://"), "{jwks_uri}");
            }
            KeySource::Static { jwks } => assert!(JwkSet::parse(jwks.as_bytes()).is_ok()),
        }
    }
    true
}
