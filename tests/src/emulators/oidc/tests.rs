//! Tokens and key sets against `jsonwebtoken`, and the issuer's misbehaviour.

use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

use super::*;
use crate::emulators::fault::JwksShape;

fn start() -> OidcIssuer {
    OidcIssuer::start(IssuerConfig::default()).unwrap()
}

async fn fetch(address: &str) -> reqwest::Result<reqwest::Response> {
    let client = crate::emulators::http_client().timeout(Duration::from_secs(10)).build()?;
    client.get(address).send().await
}

fn verify(jwks: &Value, token: &str) -> Result<Value, String> {
    let jwks: JwkSet = serde_json::from_value(jwks.clone()).map_err(|e| e.to_string())?;
    let header = jsonwebtoken::decode_header(token).map_err(|e| e.to_string())?;
    let jwk = jwks.find(&header.kid.ok_or("no kid")?).ok_or("unknown kid")?;
    let key = DecodingKey::from_jwk(jwk).map_err(|e| e.to_string())?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.algorithms = vec![if matches!(jwk.algorithm, jsonwebtoken::jwk::AlgorithmParameters::RSA(_)) {
        Algorithm::RS256
    } else {
        Algorithm::ES256
    }];
    validation.set_audience(&["edge.example.com"]);
    jsonwebtoken::decode::<Value>(token, &key, &validation).map(|token| token.claims).map_err(|e| e.to_string())
}

async fn jwks_of(oidc: &OidcIssuer, issuer: &str) -> Value {
    let text = fetch(&oidc.jwks_uri(issuer)).await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_projected_token_is_verified_with_the_published_keys() {
    let oidc = start();
    let cluster = gke_issuer("acme-prod", "europe-west1", "runners");
    let jwks = jwks_of(&oidc, &cluster).await;
    let claims = verify(&jwks, &oidc.token(&TokenOptions::default())).unwrap();
    assert_eq!(claims["iss"], Value::from(cluster));
    assert_eq!(claims["sub"], "system:serviceaccount:rootpilot:runner");
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "runner-674f595ff9-q6w4q");
}

#[tokio::test]
async fn claims_are_those_of_a_kubelet_token() {
    let oidc = start();
    let token = oidc.token(&TokenOptions { warn_after: true, ..TokenOptions::default() });
    let header = jsonwebtoken::decode_header(&token).unwrap();
    assert_eq!((header.alg, header.typ), (Algorithm::RS256, None));
    let claims = payload(&token);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut names = keys(&claims);
    names.sort();
    assert_eq!(names, ["aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub"]);
    let mut names = keys(&claims["kubernetes.io"]);
    names.sort();
    assert_eq!(names, ["namespace", "node", "pod", "serviceaccount", "warnafter"]);
    assert_eq!(claims["aud"], serde_json::json!(["edge.example.com"]));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3_600);
    let again = payload(&oidc.token(&TokenOptions::default()));
    assert_eq!(again["kubernetes.io"]["pod"], claims["kubernetes.io"]["pod"]);
    assert_ne!(again["jti"], claims["jti"]);
    let other = TokenOptions { pod: "runner-2".to_owned(), ..TokenOptions::default() };
    assert_ne!(payload(&oidc.token(&other))["kubernetes.io"]["pod"]["uid"], claims["kubernetes.io"]["pod"]["uid"]);
}

fn payload(token: &str) -> Value {
    jsonwebtoken::dangerous::insecure_decode(token).unwrap().claims
}

#[tokio::test]
async fn both_shapes_and_both_algorithms() {
    let oidc = start();
    let gke = gke_issuer("acme-prod", "europe-west1-b", "c2");
    let eks = eks_issuer("eu-west-1", "EXAMPLED539D4633E53DE1B716D3041E");
    let china = eks_issuer("cn-north-1", "0123456789ABCDEF0123456789ABCDEF");
    assert_eq!(china, "https://oidc.eks.cn-north-1.amazonaws.com.cn/id/0123456789ABCDEF0123456789ABCDEF");
    assert!(oidc.jwks_uri(&gke).ends_with("/v1/projects/acme-prod/locations/europe-west1-b/clusters/c2/jwks"));
    assert!(oidc.jwks_uri(&eks).ends_with("/id/EXAMPLED539D4633E53DE1B716D3041E/keys"));
    oidc.add_issuer(&gke, KeyAlgorithm::ES256);
    oidc.add_issuer(&eks, KeyAlgorithm::RS256);
    for issuer in [&gke, &eks, &china] {
        let options = TokenOptions { issuer: Some(issuer.clone()), ..TokenOptions::default() };
        let claims = verify(&jwks_of(&oidc, issuer).await, &oidc.token(&options)).unwrap();
        assert_eq!(claims["iss"], Value::from(issuer.as_str()));
    }
    // Issuers with keys of their own do not answer for each other.
    let options = TokenOptions { issuer: Some(eks.clone()), ..TokenOptions::default() };
    let others = jwks_of(&oidc, &china).await;
    assert_eq!(verify(&others, &oidc.token(&options)), Err("unknown kid".to_owned()));
    let kid = oidc.signing_kid(&eks);
    assert!(kid.len() == 40 && kid.bytes().all(|b| b.is_ascii_hexdigit()), "{kid}");
    assert_eq!(oidc.signing_kid(&gke).len(), 43);
    let discovery = fetch(&format!("{}{}{DISCOVERY}", oidc.url(), issuer_path(&gke))).await.unwrap();
    let discovery: Value = serde_json::from_str(&discovery.text().await.unwrap()).unwrap();
    assert_eq!(
        (discovery["issuer"].as_str(), discovery["jwks_uri"].as_str()),
        (Some(&*gke), Some(&*format!("{gke}/jwks")))
    );
}

#[tokio::test]
async fn rotation_keeps_or_drops_old_keys() {
    let oidc = start();
    let issuer = gke_issuer("acme-prod", "europe-west1", "runners");
    let first = oidc.signing_kid(&issuer);
    let old = oidc.token(&TokenOptions::default());
    let second = oidc.rotate(&issuer, Rotation::default());
    assert_ne!(first, second);
    let new = oidc.token(&TokenOptions::default());
    let jwks = jwks_of(&oidc, &issuer).await;
    assert!(verify(&jwks, &old).is_ok() && verify(&jwks, &new).is_ok());
    assert_eq!(jsonwebtoken::decode_header(&new).unwrap().kid, Some(second.clone()));

    assert!(oidc.drop_key(&issuer, &first));
    assert!(!oidc.drop_key(&issuer, &first));
    let jwks = jwks_of(&oidc, &issuer).await;
    assert_eq!(verify(&jwks, &old), Err("unknown kid".to_owned()));
    assert!(verify(&jwks, &new).is_ok());
    let by_dropped = TokenOptions { sign_with: Some(first), ..TokenOptions::default() };
    assert_eq!(verify(&jwks, &oidc.token(&by_dropped)), Err("unknown kid".to_owned()));

    let ahead = Rotation { sign_with_new: false, algorithm: KeyAlgorithm::ES256, ..Rotation::default() };
    let third = oidc.rotate(&issuer, ahead);
    assert_eq!(oidc.signing_kid(&issuer), second);
    assert_eq!(oidc.jwks(&issuer)["keys"].as_array().unwrap().len(), 2);
    let by_third = TokenOptions { sign_with: Some(third), ..TokenOptions::default() };
    assert!(verify(&jwks_of(&oidc, &issuer).await, &oidc.token(&by_third)).is_ok());

    oidc.rotate(&issuer, Rotation { keep_previous: false, ..Rotation::default() });
    assert_eq!(verify(&jwks_of(&oidc, &issuer).await, &new), Err("unknown kid".to_owned()));
    let nobody = TokenOptions { sign_with: Some("x".to_owned()), ..TokenOptions::default() };
    assert_eq!(oidc.try_token(&nobody), Err(MintError::UnknownKey("x".to_owned())));
}

#[tokio::test]
async fn tokens_can_be_wrong_in_any_way() {
    let oidc = start();
    let issuer = gke_issuer("acme-prod", "europe-west1", "runners");
    let jwks = oidc.jwks(&issuer);
    let mint = |options: Value| oidc.token(&serde_json::from_value(options).unwrap());
    assert!(verify(&jwks, &mint(serde_json::json!({}))).is_ok());
    for kind in ["stranger", "flipped", "other_claims", "empty", "zero"] {
        let token = mint(serde_json::json!({"signature": kind}));
        assert!(verify(&jwks, &token).is_err(), "{kind}");
        assert_eq!(payload(&token)["iss"], Value::from(issuer.as_str()));
    }
    let confused = mint(serde_json::json!({"signature":"hmac_with_public_key","header":{"alg":"HS256"}}));
    assert_eq!(jsonwebtoken::decode_header(&confused).unwrap().alg, Algorithm::HS256);
    assert!(verify(&jwks, &confused).is_err());
    let none = mint(serde_json::json!({"signature":"empty","header":{"alg":"none","kid":null}}));
    assert!(none.ends_with('.'));
    assert!(verify(&jwks, &none).is_err());

    let patched = mint(serde_json::json!({
        "claims": {"jti": null, "nbf": null, "kubernetes.io": {"pod": null, "namespace": "kube-system"}, "extra": 1},
        "audience": ["a", "b"],
        "issued_at": 1_790_000_000,
        "lifetime": 60,
    }));
    let claims = payload(&patched);
    assert_eq!((&claims["jti"], &claims["nbf"], &claims["extra"]), (&Value::Null, &Value::Null, &Value::from(1)));
    assert_eq!(claims["kubernetes.io"]["pod"], Value::Null);
    assert_eq!(claims["kubernetes.io"]["namespace"], "kube-system");
    assert_eq!((claims["iat"].as_i64(), claims["exp"].as_i64()), (Some(1_790_000_000), Some(1_790_000_060)));

    let legacy = payload(&mint(serde_json::json!({"legacy": true})));
    assert_eq!(legacy["iss"], "kubernetes/serviceaccount");
    assert!(legacy.get("exp").is_none() && legacy.get("aud").is_none());
}

#[tokio::test]
async fn es256_signatures_have_the_jws_form() {
    let config = IssuerConfig { algorithm: KeyAlgorithm::ES256, ..IssuerConfig::default() };
    let oidc = OidcIssuer::start(config).unwrap();
    let issuer = gke_issuer("acme-prod", "europe-west1", "runners");
    let jwks = oidc.jwks(&issuer);
    assert_eq!((jwks["keys"][0]["kty"].as_str(), jwks["keys"][0]["alg"].as_str()), (Some("EC"), Some("ES256")));
    let token = oidc.token(&TokenOptions::default());
    assert!(verify(&jwks, &token).is_ok());
    // 64 octets, r and s, not DER.
    assert_eq!(token.rsplit('.').next().unwrap().len(), 86);
}

#[tokio::test]
async fn key_sets_come_in_every_shape() {
    let oidc = start();
    let issuer = gke_issuer("acme-prod", "europe-west1", "runners");
    let good = oidc.jwks(&issuer);
    let kid = oidc.signing_kid(&issuer);
    let shaped = async |shape: JwksShape| {
        oidc.set_fault(Fault::Jwks { shape });
        jwks_of(&oidc, &issuer).await
    };
    let many = shaped(JwksShape::ManyKeys).await;
    assert_eq!(many["keys"].as_array().unwrap().len(), 5_001);
    assert_eq!(many["keys"][5_000], good["keys"][0]);
    assert_eq!(shaped(JwksShape::UnknownKty).await["keys"][0]["kty"], "AKP");
    let twice = shaped(JwksShape::DuplicateKids).await;
    assert_eq!(
        (&twice["keys"][0]["kid"], &twice["keys"][1]["kid"]),
        (&Value::from(kid.as_str()), &Value::from(kid.as_str()))
    );
    assert_ne!(twice["keys"][0]["n"], twice["keys"][1]["n"]);
    assert!(shaped(JwksShape::NoAlg).await["keys"][0].get("alg").is_none());
    assert!(shaped(JwksShape::NoKid).await["keys"][0].get("kid").is_none());
    let malformed = shaped(JwksShape::MalformedBase64).await;
    assert!(malformed["keys"][0]["n"].as_str().unwrap().ends_with('*'));
    assert_eq!(malformed["keys"][1], good["keys"][0]);
    assert!(shaped(JwksShape::AllMalformed).await["keys"][0]["n"].as_str().unwrap().ends_with('*'));
    let private = shaped(JwksShape::PrivateMembers).await;
    assert!(["d", "p", "q"].iter().all(|member| private["keys"][0][member].is_string()));
    assert_eq!(shaped(JwksShape::Empty).await, serde_json::json!({"keys": []}));
    assert_eq!(shaped(JwksShape::Null).await, serde_json::json!({"keys": null}));
    assert!(shaped(JwksShape::NotAKeySet).await.get("keys").is_none());
    oidc.clear_faults();
    assert_eq!(jwks_of(&oidc, &issuer).await, good);
}

#[tokio::test]
async fn fetches_are_counted_and_faults_aimed_by_path() {
    let oidc = start();
    let one = gke_issuer("acme-prod", "europe-west1", "one");
    let two = gke_issuer("acme-prod", "europe-west1", "two");
    oidc.set_fault(FaultPlan::from(Fault::status(500)).on_path("clusters/two"));
    let status = async |issuer: &str| fetch(&oidc.jwks_uri(issuer)).await.unwrap().status().as_u16();
    assert_eq!((status(&one).await, status(&two).await, status(&two).await), (200, 500, 500));
    assert_eq!((oidc.fetches(&oidc.jwks_path(&one)), oidc.fetches(&oidc.jwks_path(&two))), (1, 2));
    assert_eq!(oidc.fetch_count(), 3);
    let not_found = fetch(&format!("{}/nothing/here", oidc.url())).await.unwrap();
    assert_eq!(not_found.status(), 404);
    oidc.forget_fetches();
    assert_eq!((oidc.fetch_count(), oidc.fetches(&oidc.jwks_path(&two))), (0, 0));
}

#[tokio::test]
async fn transport_faults_hold_for_key_sets_too() {
    let oidc = start();
    let issuer = gke_issuer("acme-prod", "europe-west1", "runners");
    let uri = oidc.jwks_uri(&issuer);
    let with = async |fault: Fault| {
        oidc.set_fault(fault);
        fetch(&uri).await
    };
    assert_eq!(with(Fault::Throttle).await.unwrap().status(), 429);
    let redirect = Fault::Redirect { location: "http://127.0.0.1:1/keys".to_owned(), status: 302 };
    assert_eq!(with(redirect).await.unwrap().status(), 302);
    let html = with(Fault::Html).await.unwrap();
    assert_eq!(html.status(), 200);
    assert!(html.text().await.unwrap().contains("<html>"));
    let huge = with(Fault::Huge { bytes: 2_000_000 }).await.unwrap().text().await.unwrap();
    assert!(huge.len() > 2_000_000);
    assert_eq!(serde_json::from_str::<Value>(&huge).unwrap(), oidc.jwks(&issuer));
    assert!(with(Fault::CloseMidBody).await.unwrap().text().await.is_err());
    assert!(with(Fault::Reset).await.is_err());
    oidc.set_fault(Fault::Hang);
    assert!(tokio::time::timeout(Duration::from_millis(300), fetch(&uri)).await.is_err());
}

#[tokio::test]
async fn caching_is_told_as_ordered() {
    let oidc = start();
    let uri = oidc.jwks_uri(&gke_issuer("acme-prod", "europe-west1", "runners"));
    let cache_control = async || {
        let headers = fetch(&uri).await.unwrap().headers().clone();
        headers.get("cache-control").map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(cache_control().await.as_deref(), Some("public, max-age=3600"));
    oidc.set_cache_control(Some("max-age=1"));
    assert_eq!(cache_control().await.as_deref(), Some("max-age=1"));
    oidc.set_cache_control(None);
    assert_eq!(cache_control().await, None);
}

#[tokio::test]
async fn everything_is_ordered_over_http_too() {
    let oidc = start();
    let issuer = eks_issuer("eu-west-1", "EXAMPLED539D4633E53DE1B716D3041E");
    let order = async |path: &str, body: Value| -> Value {
        let client = crate::emulators::http_client().build().unwrap();
        let request = client.post(format!("{}/_control/{path}", oidc.url())).body(body.to_string());
        let text = request.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let made = order("issuers", serde_json::json!({"issuer": issuer})).await;
    assert_eq!(made["jwks_path"], "/id/EXAMPLED539D4633E53DE1B716D3041E/keys");
    let first = oidc.signing_kid(&issuer);
    let rotated = order("rotate", serde_json::json!({"issuer": issuer, "rotation": {"keep_previous": true}})).await;
    assert_eq!(rotated["kid"], Value::from(oidc.signing_kid(&issuer)));
    assert_eq!(order("drop", serde_json::json!({"issuer": issuer, "kid": first})).await, serde_json::json!({}));
    let minted = order("token", serde_json::json!({"issuer": issuer, "lifetime": 600})).await;
    assert!(verify(&jwks_of(&oidc, &issuer).await, minted["token"].as_str().unwrap()).is_ok());
    order("cache", serde_json::json!({"cache_control": "max-age=60"})).await;
    order("clock", serde_json::json!({"offset_seconds": -7_200})).await;
    let old = order("token", serde_json::json!({"issuer": issuer})).await;
    assert!(verify(&oidc.jwks(&issuer), old["token"].as_str().unwrap()).unwrap_err().contains("Expired"));
    assert!(order("token", serde_json::json!({"lifetme": 600})).await["error"].is_string());
    let fetches = fetch(&format!("{}/_control/fetches", oidc.url())).await.unwrap().text().await.unwrap();
    let fetches: Value = serde_json::from_str(&fetches).unwrap();
    assert_eq!(fetches["paths"]["/id/EXAMPLED539D4633E53DE1B716D3041E/keys"], 1);
}
