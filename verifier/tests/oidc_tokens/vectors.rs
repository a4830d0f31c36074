//! `tests/vectors/oidc-tokens`, over the native signature back end.

use std::path::PathBuf;

use pollster::block_on;
use protocol::Mode;
use verifier::rust_crypto::RustCrypto;
use verifier::suites::oidc::{EKS, GKE, run};

pub fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/oidc-tokens");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn every_case_holds() {
    let index = String::from_utf8(file("index.json")).unwrap();
    let outcomes = block_on(run(&RustCrypto, &index, |name| Some(file(name)))).unwrap();
    assert!(outcomes.len() >= 55);
    let faults: Vec<String> = outcomes.iter().filter_map(verifier::suites::oidc::Outcome::fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");

    // Exactly the identity the token names, in every accepted case.
    for outcome in &outcomes {
        let Some(principal) = outcome.principal() else { continue };
        let eks = outcome.case.issuer == EKS;
        assert_eq!(principal.mode, if eks { Mode::EksOidc } else { Mode::GkeOidc });
        assert_eq!(principal.issuer, if eks { EKS } else { GKE });
        assert_eq!((&*principal.namespace, &*principal.service_account), ("runners", "runner"));
        assert_eq!(principal.pod_name, "runner-674f595ff9-q6w4q");
        assert_eq!(principal.pod_uid, "413b22ca-4833-48d9-b6db-76219d583173");
    }

    // Where both answers are defensible, ours.
    let pinned: Vec<(&str, Option<&str>)> = outcomes
        .iter()
        .filter(|outcome| outcome.case.expect == "either")
        .map(|outcome| (outcome.case.id.as_str(), outcome.refusal()))
        .collect();
    assert_eq!(
        pinned,
        [("nbf_future_30s", None), ("jwk_padded", None), ("hdr_typ_at", Some("token_malformed"))],
        "leeway of 30 s inclusive; padded key parameters let pass; tokens of another kind refused"
    );
}

/// The same token twice is the same use, an ECDSA twin of it too, another token is another use (CHECKS K7).
#[test]
fn uses_are_told_apart() {
    let index = String::from_utf8(file("index.json")).unwrap();
    let outcomes = block_on(run(&RustCrypto, &index, |name| Some(file(name)))).unwrap();
    let digest = |id: &str| {
        let outcome = outcomes.iter().find(|outcome| outcome.case.id == id).unwrap();
        outcome.result.as_ref().unwrap().evidence().digest.clone()
    };
    // All cases carry one jti of one issuer.
    assert_eq!(digest("gke_ok"), digest("gke_ok_second_key"));
    assert_eq!(digest("gke_ok"), digest("es_high_s_twin"));
}
