//! `gke-oidc` and `eks-oidc` from the wire to an identity, a refusal or a retry (CHECKS K).

mod checks;
mod keys;
mod support;
mod vectors;
