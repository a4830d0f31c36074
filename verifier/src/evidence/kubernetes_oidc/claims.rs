//! Claims of a bound ServiceAccount token, as they are read; what they must be is decided where they are used (CHECKS K5, K6).

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use crate::jose::{Claim, FromJson, Value, members};

type Text = Claim<Box<str>>;

/// Payload of a token. Owned, so that it outlives the wait for keys and signature; every text is small.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claims {
    pub(super) iss: Text,
    pub(super) sub: Text,
    pub(super) aud: Claim<Audience>,
    pub(super) exp: Claim<i64>,
    pub(super) iat: Claim<i64>,
    pub(super) nbf: Claim<i64>,
    pub(super) jti: Text,
    pub(super) kubernetes: Claim<Kubernetes>,
    /// A claim that only tokens of ServiceAccount secrets have.
    pub(super) legacy: bool,
}

/// `aud`: a text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Audience(pub(super) Vec<Box<str>>);

/// `kubernetes.io`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kubernetes {
    pub(super) namespace: Text,
    pub(super) pod: Claim<Named>,
    pub(super) service_account: Claim<Named>,
    /// The token is bound to a secret.
    pub(super) secret: bool,
}

/// An object of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Named {
    pub(super) name: Text,
    pub(super) uid: Text,
}

impl<'de> FromJson<'de> for Claims {
    fn other() -> Self {
        Self::default()
    }

    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut claims = Self::default();
        members(&mut map, |name, map| {
            match name {
                "iss" => claims.iss = map.next_value::<Value<_>>()?.0,
                "sub" => claims.sub = map.next_value::<Value<_>>()?.0,
                "aud" => claims.aud = map.next_value::<Value<_>>()?.0,
                "exp" => claims.exp = map.next_value::<Value<_>>()?.0,
                "iat" => claims.iat = map.next_value::<Value<_>>()?.0,
                "nbf" => claims.nbf = map.next_value::<Value<_>>()?.0,
                "jti" => claims.jti = map.next_value::<Value<_>>()?.0,
                "kubernetes.io" => claims.kubernetes = map.next_value::<Value<_>>()?.0,
                _ => {
                    if name.starts_with("kubernetes.io/") {
                        claims.legacy = true;
                    }
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(claims)
    }
}

impl<'de> FromJson<'de> for Claim<Audience> {
    fn other() -> Self {
        Self::Wrong
    }

    fn text(text: Cow<'de, str>) -> Self {
        Self::Is(Audience(vec![text.into()]))
    }

    fn array<A: SeqAccess<'de>>(mut elements: A) -> Result<Self, A::Error> {
        let mut audience = Some(Vec::new());
        while let Some(Value(element)) = elements.next_element::<Value<Text>>()? {
            match (element, &mut audience) {
                (Claim::Is(text), Some(texts)) => texts.push(text),
                _ => audience = None,
            }
        }
        Ok(audience.map_or(Self::Wrong, |texts| Self::Is(Audience(texts))))
    }
}

impl<'de> FromJson<'de> for Claim<Kubernetes> {
    fn other() -> Self {
        Self::Wrong
    }

    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut claim = Kubernetes::default();
        members(&mut map, |name, map| {
            match name {
                "namespace" => claim.namespace = map.next_value::<Value<_>>()?.0,
                "pod" => claim.pod = map.next_value::<Value<_>>()?.0,
                "serviceaccount" => claim.service_account = map.next_value::<Value<_>>()?.0,
                "secret" => {
                    claim.secret = true;
                    return Ok(false);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self::Is(claim))
    }
}

impl<'de> FromJson<'de> for Claim<Named> {
    fn other() -> Self {
        Self::Wrong
    }

    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut named = Named::default();
        members(&mut map, |name, map| {
            match name {
                "name" => named.name = map.next_value::<Value<_>>()?.0,
                "uid" => named.uid = map.next_value::<Value<_>>()?.0,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self::Is(named))
    }
}
