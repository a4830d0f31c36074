//! Rate limits by client address (PROTOCOL, Rate limits): calls before parsing, and refused attestations.
//!
//! The refusal binding can only be asked after a refusal; when it says no, the isolate itself answers that address 429 for a minute.

use std::cell::RefCell;
use std::net::IpAddr;

use protocol::Code;
use verifier::shelf::Shelf;
use verifier::{Denial, UnixTime};
use worker::Env;

use crate::request::Request;

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen(module = "/js/platform.mjs")]
    extern "C" {
        #[wasm_bindgen(catch)]
        pub async fn allows(env: &JsValue, binding: &str, key: &str) -> Result<JsValue, JsValue>;
    }
}

/// Seconds an address stays shut out after too many refusals.
const SHUT_OUT: i64 = 60;
/// Addresses remembered at most; past this the oldest ends are dropped first.
const ADDRESSES: usize = 4096;

/// Client address as the limits count it: IPv4 whole, IPv6 by /64.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientAddress(String);

thread_local! {
    static SHUT: RefCell<Shelf<UnixTime>> = const { RefCell::new(Shelf::new()) };
}

impl ClientAddress {
    /// From what the edge says; `None` where nothing does.
    pub fn of(request: &Request) -> Option<Self> {
        let text = request.header("cf-connecting-ip")?;
        Some(Self(match text.trim().parse::<IpAddr>().ok()?.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        }))
    }
}

/// The limits of one request.
#[derive(Debug)]
pub struct Limits<'a> {
    env: &'a Env,
    address: Option<ClientAddress>,
}

impl<'a> Limits<'a> {
    /// Limits for the address of `request`; none with `RATE_LIMITS=off` or without an address.
    pub fn of(request: &Request, env: &'a Env) -> Self {
        let off = env.var("RATE_LIMITS").is_ok_and(|value| value.to_string() == "off");
        Self { env, address: if off { None } else { ClientAddress::of(request) } }
    }

    /// Before anything is parsed: shut-out addresses, and calls of `unauthenticated` routes.
    pub async fn admit(&self, now: UnixTime, unauthenticated: bool) -> Result<(), Denial> {
        let Some(ClientAddress(address)) = &self.address else { return Ok(()) };
        let until = SHUT.with_borrow(|shut| shut.get(address).copied());
        if let Some(left) = until.map(|until| until.since(now)).filter(|left| *left > 0) {
            return Err(limited("too many refused attestations from this address", left));
        }
        if unauthenticated && !self.allows("RATE_LIMIT", address).await {
            return Err(limited("too many requests from this address", 10));
        }
        Ok(())
    }

    /// After a refusal.
    pub async fn refused(&self, now: UnixTime) {
        let Some(ClientAddress(address)) = &self.address else { return };
        if !self.allows("REFUSAL_LIMIT", address).await {
            SHUT.with_borrow_mut(|shut| shut_out(shut, address, now));
        }
    }

    /// Asks a binding; where there is none, or it fails, the call goes on.
    async fn allows(&self, limit: &str, address: &str) -> bool {
        binding::allows(self.env, limit, address).await.map_or(true, |allowed| allowed.is_truthy())
    }
}

fn shut_out(shut: &mut Shelf<UnixTime>, address: &str, now: UnixTime) {
    if shut.iter().len() >= ADDRESSES {
        shut.retain(|until| *until > now);
    }
    if shut.iter().len() >= ADDRESSES {
        let oldest = shut.iter().min_by_key(|(_, until)| **until).map(|(address, _)| address.to_owned());
        oldest.and_then(|address| shut.remove(&address));
    }
    shut.insert(address, now.plus(SHUT_OUT));
}

fn limited(detail: &str, seconds: i64) -> Denial {
    Denial { retry_after: Some(u32::try_from(seconds).unwrap_or(1).max(1)), ..Denial::new(Code::RateLimited, detail) }
}
