//! JSON objects that are nothing but objects.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A JSON object. The array form, which serde reads into a struct as well, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::admin::MintRequest;
    use crate::{Attestation, EnrollRequest};

    #[test]
    fn arrays_are_no_objects() {
        assert_eq!(serde_json::from_str::<Object<MintRequest>>("{}").unwrap(), Object(MintRequest::default()));
        let error = serde_json::from_str::<Object<MintRequest>>("[]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: sequence, expected a JSON object"), "{error}");
        for attestation in [r#"["gke-oidc","x",null,null,null,null,null,null]"#, r#"["gke-oidc","x"]"#, "[]"] {
            assert!(serde_json::from_str::<Attestation<'_>>(attestation).is_err(), "{attestation}");
        }
    }

    #[test]
    fn texts_are_borrowed_and_faults_found_inside() {
        let json = r#"{"csr":"A","attestation":{"mode":"gke-oidc","token":"x"}}"#;
        let Object(request) = serde_json::from_str::<Object<EnrollRequest<'_>>>(json).unwrap();
        assert!(matches!(request.csr, Cow::Borrowed("A")));
        let twice = json.replace(r#""csr":"A""#, r#""csr":"A","csr":"B""#);
        let error = serde_json::from_str::<Object<EnrollRequest<'_>>>(&twice).unwrap_err().to_string();
        assert!(error.contains("duplicate field `csr`"), "{error}");
    }
}
