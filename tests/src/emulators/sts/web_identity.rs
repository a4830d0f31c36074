//! The proof behind `AssumeRoleWithWebIdentity`: a token of an OIDC provider the role trusts, with
//! keys fetched from that provider as AWS fetches them.

use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use super::directory::WebIdentityTrust;
use super::wire::StsError;

const FETCH_TIME: Duration = Duration::from_secs(5);

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebIdentity {
    /// `iss`
    pub issuer: String,
    /// The audience that is a client id of the provider.
    pub audience: String,
    /// `sub`
    pub subject: String,
}

impl WebIdentity {
    /// Whether a trust policy lets this identity in.
    pub fn satisfies(&self, trust: &WebIdentityTrust) -> bool {
        let allowed = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => self.subject.starts_with(prefix),
            None => *pattern == self.subject,
        };
        self.issuer == trust.issuer && self.audience == trust.audience && trust.subjects.iter().any(allowed)
    }
}

#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    aud: Audiences,
    exp: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Many(Vec<String>),
}

/// Verifies `token` against the providers of `trusts`.
pub async fn verify(
    http: &reqwest::Client,
    trusts: &[WebIdentityTrust],
    token: &str,
    now: i64,
) -> Result<WebIdentity, StsError> {
    let unverified: Unverified = jsonwebtoken::dangerous::insecure_decode(token)
        .map_err(|_| {
            invalid("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
        })?
        .claims;
    let issuer = unverified.iss;
    let Some(provider) = trusts.iter().find(|trust| trust.issuer == issuer) else {
        return Err(invalid(&format!("No OpenIDConnect provider found in your account for {issuer}")));
    };
    let keys = fetch_keys(http, &provider.jwks_uri).await?;
    let claims = verify_signature(&keys, token)?;
    if claims.exp <= now {
        return Err(StsError::new(
            400,
            "ExpiredTokenException",
            format!("Token expired: current date/time {now} must be before the expiration date/time {}", claims.exp),
        ));
    }
    let audiences = match claims.aud {
        Audiences::One(audience) => vec![audience],
        Audiences::Many(audiences) => audiences,
    };
    let audience = audiences
        .into_iter()
        .find(|audience| trusts.iter().any(|t| t.issuer == issuer && t.audience == *audience))
        .ok_or_else(|| invalid("Incorrect token audience"))?;
    Ok(WebIdentity { issuer, audience, subject: claims.sub })
}

fn invalid(message: &str) -> StsError {
    StsError::new(400, "InvalidIdentityToken", message)
}

async fn fetch_keys(http: &reqwest::Client, address: &str) -> Result<JwkSet, StsError> {
    let fetch = async {
        let response = http.get(address).timeout(FETCH_TIME).send().await?;
        response.error_for_status()?.json().await
    };
    fetch.await.map_err(|_: reqwest::Error| {
        invalid("Couldn't retrieve verification key from your identity provider,  please reference AssumeRoleWithWebIdentity documentation for requirements")
    })
}

fn verify_signature(keys: &JwkSet, token: &str) -> Result<Claims, StsError> {
    let unverifiable = || invalid("No matching verification key could be found for the token provided");
    let header = jsonwebtoken::decode_header(token).map_err(|_| unverifiable())?;
    let key = header
        .kid
        .as_deref()
        .and_then(|kid| keys.find(kid))
        .and_then(|jwk| DecodingKey::from_jwk(jwk).ok())
        .ok_or_else(unverifiable)?;
    if ![Algorithm::RS256, Algorithm::ES256].contains(&header.alg) {
        return Err(unverifiable());
    }
    let mut validation = Validation::new(header.alg);
    // Both are checked by the caller, with AWS's own errors and the emulator's clock.
    validation.validate_exp = false;
    validation.validate_aud = false;
    jsonwebtoken::decode::<Claims>(token, &key, &validation)
        .map(|token| token.claims)
        .map_err(|_| invalid("Signature of the token provided could not be verified"))
}
