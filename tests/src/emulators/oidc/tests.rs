//! Tokens and key sets against `jsonwebtoken`, and the issuer's misbehaviour.

use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

use super::*;

fn start() -> OidcIssuer {
    OidcIssuer::start(IssuerConfig::default()).unwrap()
}

async fn fetch(address: &str) -> reqwest::Result<reqwest::Response> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(10))
        .build()?;
    client.get(address).send().await
}

fn verify(jwks: &Value, token: &str) -> Result<Value, String> {
    let jwks: JwkSet = serde_json::from_value(jwks.clone()).map_err(|e| e.to_string())?;
    let header = jsonwebtoken::decode_header(token).map_err(|e| e.to_string())?;
    let jwk = jwks
        .find(&header.kid.ok_or("no kid")?)
        .ok_or("unknown kid")?;
    let key = DecodingKey::from_jwk(jwk).map_err(|e| e.to_string())?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.algorithms = vec![if matches!(
        jwk.algorithm,
        jsonwebtoken::jwk::AlgorithmParameters::RSA(_)
    ) {
        Algorithm::RS256
    } else {
        Algorithm::ES256
    }];
    validation.set_audience(&["edge.example.com"]);
    jsonwebtoken::decode::<Value>(token, &key, &validation)
        .map(|token| token.claims)
        .map_err(|e| e.to_string())
}

async fn jwks_of(oidc: &OidcIssuer, issuer: &str) -> Value {
    let text = fetch(&oidc.jwks_uri(issuer))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
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
    assert_eq!(
        claims["kubernetes.io"]["pod"]["name"],
        "runner-674f595ff9-q6w4q"
    );
}
