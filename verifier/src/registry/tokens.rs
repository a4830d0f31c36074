//! Bootstrap tokens: mint, list, revoke. Their use is an enrolment's.

use std::time::Duration;

use protocol::admin::{AuditType, MintRequest, MintedToken, Page, TokenItem};
use protocol::{Code, Mode};

use super::audit::{self, Event};
use super::page::{Paging, id_cursor, is_id};
use super::store::{Store, Token};
use super::{AdminContext, Outcome, PageQuery};
use crate::evidence::{Principal, bootstrap_token};
use crate::ports::Entropy;
use crate::{Denial, UnixTime};

/// Life of a token unless asked otherwise, seconds.
const TTL_DEFAULT: i64 = 3_600;
/// Longest life of a token, seconds.
const TTL_MAX: i64 = 30 * 86_400;
/// Most uses of a token.
const MAX_USES: u32 = 1_000_000;
/// Longest description, characters.
const DESCRIPTION_MAX: usize = 256;
/// Characters of a token's public part.
pub const ID_LENGTH: usize = 16;

/// `POST …/tokens`. The answer holds the secret; the record does not.
pub fn mint(
    store: &mut dyn Store,
    context: &AdminContext,
    request: &MintRequest,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Outcome<MintedToken> {
    let (ttl, max_uses) = match check(request) {
        Ok(checked) => checked,
        Err(denial) => return audit::refuse(store, context, AuditType::TokenMint, None, denial, now),
    };
    let new = bootstrap_token::mint(&context.tenant, entropy)?;
    let token = Token {
        id: new.claim.id,
        secret_sha256: new.claim.secret_sha256,
        description: request.description.clone(),
        created_at: now,
        expires_at: now.plus(ttl),
        max_uses,
        uses: 0,
        revoked: false,
    };
    store.put_token(&token)?;
    event(AuditType::TokenMint, context, &token.id).write(store, now)?;
    Ok(Ok(MintedToken {
        id: token.id,
        token: new.token,
        tenant: context.tenant.clone(),
        expires_at: token.expires_at.to_rfc3339(),
        max_uses,
    }))
}

/// Seconds and uses asked for, or `malformed_request`: a matter of form, which comes before anything that a policy or a record says.
pub fn check(request: &MintRequest) -> Result<(i64, u32), Denial> {
    let ttl = match request.ttl.as_deref() {
        None => TTL_DEFAULT,
        Some(text) => humantime::parse_duration(text)
            .ok()
            .filter(|ttl| ttl.subsec_nanos() == 0 && *ttl >= Duration::from_secs(1))
            .and_then(|ttl| i64::try_from(ttl.as_secs()).ok())
            .filter(|ttl| *ttl <= TTL_MAX)
            .ok_or_else(|| Denial::malformed("ttl must be a duration such as \"1h\", from 1s to 30d"))?,
    };
    let max_uses = request.max_uses.unwrap_or(1);
    if !(1..=MAX_USES).contains(&max_uses) {
        return Err(Denial::malformed(format!("max_uses must be 1 to {MAX_USES}")));
    }
    if request.description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_MAX) {
        return Err(Denial::malformed(format!("description must have at most {DESCRIPTION_MAX} characters")));
    }
    Ok((ttl, max_uses))
}

/// `GET …/tokens`.
pub fn list(store: &dyn Store, tenant: &str, query: &PageQuery) -> Outcome<Page<TokenItem>> {
    let checked = Paging::new(query)
        .and_then(|paging| Ok((paging, paging.cursor.map(|cursor| id_cursor(cursor, ID_LENGTH)).transpose()?)));
    let (paging, after) = match checked {
        Ok(checked) => checked,
        Err(denial) => return Ok(Err(denial)),
    };
    let tokens = store.tokens(after, paging.fetch())?;
    Ok(Ok(paging.page(tokens, |token| token.id.clone(), |token| item(tenant, token))))
}

fn item(tenant: &str, token: Token) -> TokenItem {
    TokenItem {
        id: token.id,
        tenant: tenant.to_owned(),
        description: token.description,
        created_at: token.created_at.to_rfc3339(),
        expires_at: token.expires_at.to_rfc3339(),
        max_uses: token.max_uses,
        uses: token.uses,
        revoked: token.revoked,
    }
}

/// `DELETE …/tokens/{id}`. Runners that enrolled with it keep their certificates.
pub fn revoke(store: &mut dyn Store, context: &AdminContext, id: &str, now: UnixTime) -> Outcome<()> {
    let token = if is_id(id, ID_LENGTH) { store.token(id)? } else { None };
    let Some(token) = token else {
        let unknown = Denial::new(Code::NotFound, "No such bootstrap token.");
        return audit::refuse(store, context, AuditType::TokenRevoke, Some(id), unknown, now);
    };
    revoke_known(store, context, token, now)?;
    Ok(Ok(()))
}

pub(super) fn revoke_known(
    store: &mut dyn Store,
    context: &AdminContext,
    token: Token,
    now: UnixTime,
) -> Result<(), super::Fault> {
    event(AuditType::TokenRevoke, context, &token.id).write(store, now)?;
    if !token.revoked {
        store.put_token(&Token { revoked: true, ..token })?;
    }
    Ok(())
}

/// What an operator does to the token `id`.
pub(super) fn event(kind: AuditType, context: &AdminContext, id: &str) -> Event {
    let identity = Principal::Bootstrap { token_id: id.to_owned() }.identity();
    Event::new(kind, &context.request_id).about(Mode::BootstrapToken, &identity).by(&context.actor)
}
