//! Orders of the issuer: tokens, rotation, issuers, caching.

use axum::Router;
use axum::response::Json;
use axum::routing::post;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::keys::{KeyAlgorithm, Rotation};
use super::token::TokenOptions;
use super::{State, jwks_path};
use crate::emulators::control::{BadOrder, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerOrder {
    issuer: String,
    #[serde(default)]
    algorithm: KeyAlgorithm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RotateOrder {
    issuer: Option<String>,
    #[serde(default)]
    rotation: Rotation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DropOrder {
    issuer: Option<String>,
    kid: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheOrder {
    cache_control: Option<String>,
}

/// - `POST /_control/token` [`TokenOptions`] → `{"token"}`
/// - `POST /_control/issuers` `{"issuer","algorithm"}` → `{"jwks_path"}`: keys of its own
/// - `POST /_control/rotate` `{"issuer","rotation":{"algorithm","keep_previous","sign_with_new"}}` → `{"kid"}`
/// - `POST /_control/drop` `{"issuer","kid"}`
/// - `POST /_control/cache` `{"cache_control":"max-age=60"}`, null sends none
pub(super) fn routes(state: &State) -> Router {
    let (token, issuers, rotate) = (state.clone(), state.clone(), state.clone());
    let (drop, cache) = (state.clone(), state.clone());
    let default_issuer =
        |state: &State, issuer: Option<String>| issuer.unwrap_or_else(|| state.default_issuer.to_string());
    Router::new()
        .route(
            "/_control/token",
            post(async move |body: Bytes| {
                let options: TokenOptions = read(&body)?;
                let minted = token.token(&options).map_err(|e| BadOrder(e.to_string()))?;
                Ok::<_, BadOrder>(Json(json!({"token": minted})))
            }),
        )
        .route(
            "/_control/issuers",
            post(async move |body: Bytes| {
                let order: IssuerOrder = read(&body)?;
                issuers.add_issuer(&order.issuer, order.algorithm);
                Ok::<_, BadOrder>(Json(json!({"jwks_path": jwks_path(&order.issuer)})))
            }),
        )
        .route(
            "/_control/rotate",
            post(async move |body: Bytes| {
                let order: RotateOrder = read(&body)?;
                let issuer = default_issuer(&rotate, order.issuer);
                let kid = rotate.rotate(&issuer, order.rotation);
                Ok::<_, BadOrder>(Json(json!({"kid": kid})))
            }),
        )
        .route(
            "/_control/drop",
            post(async move |body: Bytes| {
                let order: DropOrder = read(&body)?;
                let issuer = default_issuer(&drop, order.issuer);
                if !drop.drop_key(&issuer, &order.kid) {
                    return Err(BadOrder(format!("no published key {}", order.kid)));
                }
                Ok::<_, BadOrder>(Json(json!({})))
            }),
        )
        .route(
            "/_control/cache",
            post(async move |body: Bytes| {
                let order: CacheOrder = read(&body)?;
                *cache.cache_control.lock() = order.cache_control;
                Ok::<_, BadOrder>(Json(json!({})))
            }),
        )
}
