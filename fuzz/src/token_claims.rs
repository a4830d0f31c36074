//! Claims behind a good signature (CHECKS K1 to K7): `header`, a line feed, `payload`. An identity is what another reader sees in the
//! payload, within its times, for our audience, from an issuer of the policy.

use pollster::block_on;
use protocol::Mode;
use serde_json::Value;
use verifier::encoding::b64url;
use verifier::evidence::kubernetes_oidc::{LEEWAY, Ports, parse_eks_issuer, parse_gke_issuer, verify};
use verifier::evidence::{KubernetesPrincipal, Principal, VerifiedIdentity};
use verifier::jose::KeySources;
use verifier::ports::JwksMemory as _;
use verifier::trace::Trace;

use crate::world::{AUDIENCE, NOW, World, outside};

/// Header and payload of a token that is signed.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Some(at) = input.iter().position(|octet| *octet == b'\n') else { return false };
    let (header, payload) = (&input[..at], &input[at + 1..]);
    let token = format!("{}.{}.{}", b64url(header), b64url(payload), b64url(&[7; 64]));
    let proven = [Mode::GkeOidc, Mode::EksOidc].map(|mode| {
        let identity = identity(&token, mode).ok()?;
        let Principal::Kubernetes(principal) = identity.principal() else { panic!("another kind of principal") };
        assert_eq!(principal.mode, mode);
        holds(&serde_json::from_slice(payload).unwrap(), principal, &identity);
        Some(())
    });
    // CHECKS K3: an issuer belongs to one mode.
    assert!(proven.iter().flatten().count() <= 1);
    proven.iter().any(Option::is_some)
}

fn identity(token: &str, mode: Mode) -> Result<VerifiedIdentity, verifier::Denial> {
    World::with(|world| {
        let outside = outside();
        let keys = KeySources { cache: outside.jwks_cache(), store: &outside, http: &outside };
        let ports = Ports { keys, signatures: &outside };
        let result = block_on(verify(token, mode, world.policy.oidc(), AUDIENCE, NOW, &ports, &mut Trace::on()));
        // CHECKS K3: no request but to the key set of an issuer whose grammar is right.
        for request in outside.http.sent() {
            let url = &request.url;
            let gke = url.strip_suffix("/jwks").is_some_and(|issuer| parse_gke_issuer(issuer).is_some());
            let eks = url.strip_suffix("/keys").is_some_and(|issuer| parse_eks_issuer(issuer).is_some());
            assert!(gke || eks, "{url}");
        }
        result
    })
}

fn holds(claims: &Value, principal: &KubernetesPrincipal, identity: &VerifiedIdentity) {
    // CHECKS K3.
    assert_eq!(claims["iss"], principal.issuer.as_str());
    match principal.mode {
        Mode::GkeOidc => {
            let issuer = parse_gke_issuer(&principal.issuer).unwrap();
            assert!(matches!(issuer.project, "acme-prod" | "wild-prod"), "{issuer:?}");
        }
        _ => assert!(parse_eks_issuer(&principal.issuer).is_some()),
    }
    // CHECKS K5; RFC 7519 section 2 allows fractions of a second, which are cut off.
    let ours = match &claims["aud"] {
        Value::Array(audiences) => audiences.iter().any(|audience| audience == AUDIENCE),
        audience => audience == AUDIENCE,
    };
    assert!(ours, "{}", claims["aud"]);
    #[expect(clippy::cast_precision_loss, reason = "seconds of this century are exact")]
    let now = NOW.secs() as f64;
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    let leeway = LEEWAY as f64;
    let [exp, iat] = ["exp", "iat"].map(|name| claims[name].as_f64().unwrap().floor());
    assert!(exp + leeway >= now && iat - leeway <= now && iat >= 0.0 && exp - iat <= 3_600.0, "{iat} {exp}");
    assert!(claims.get("nbf").is_none_or(|nbf| nbf.as_f64().unwrap().floor() - leeway <= now));
    // CHECKS K6.
    let (namespace, name) = (&principal.namespace, &principal.service_account);
    assert!(
        !namespace.is_empty() && !name.is_empty() && !principal.pod_name.is_empty() && !principal.pod_uid.is_empty()
    );
    assert_eq!(claims["sub"], format!("system:serviceaccount:{namespace}:{name}"));
    let bound = &claims["kubernetes.io"];
    assert_eq!(bound["namespace"], namespace.as_str());
    assert_eq!(bound["serviceaccount"]["name"], name.as_str());
    assert_eq!(bound["pod"]["name"], principal.pod_name.as_str());
    assert_eq!(bound["pod"]["uid"], principal.pod_uid.as_str());
    // CHECKS K7: remembered for longer than the token can be used.
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    let until = identity.evidence().until.secs() as f64;
    assert!(until > exp + leeway, "{until} {exp}");
}
