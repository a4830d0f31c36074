//! Development CA and tokens, made once per checkout by `edgectl ca init` into `.dev/ca`, which git ignores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::progress::note;
use crate::{paths, process, tools};

/// What a verifier and its operator need.
pub struct Credentials {
    /// Bearer token of the admin routes.
    pub admin_token: String,
    /// Bearer token of `/v1/verify`.
    pub service_token: String,
    /// The worker's secrets, name to value, as `wrangler secret bulk` takes them.
    pub worker_secrets: PathBuf,
}

impl Credentials {
    /// Whether this checkout has any.
    pub fn are_made() -> bool {
        dir().is_dir()
    }

    /// Those of this checkout.
    pub fn load_or_make() -> Result<Self> {
        let _lock = tools::lock(&paths::scratch(), "credentials.lock")?;
        let dir = dir();
        if !dir.is_dir() {
            make(&dir)?;
            note(format_args!("development CA and tokens made in {}", dir.display()));
        }
        let token = |name: &str| -> Result<String> {
            let path = dir.join(name);
            let text = fs::read_to_string(&path).with_context(|| {
                format!("cannot read {}; remove {} to have it made anew", path.display(), dir.display())
            })?;
            Ok(text.trim().to_owned())
        };
        Ok(Self {
            admin_token: token("admin.token")?,
            service_token: token("service.token")?,
            worker_secrets: dir.join("worker-secrets.json"),
        })
    }
}

fn dir() -> PathBuf {
    paths::root().join(".dev/ca")
}

/// Into a folder beside first, so that a run that is cut short leaves nothing that looks whole.
fn make(dir: &Path) -> Result<()> {
    let parent = dir.parent().context("the folder has no parent")?;
    fs::create_dir_all(parent)?;
    let fresh = tempfile::Builder::new().prefix("ca-").tempdir_in(parent)?.keep();
    let mut edgectl = Command::new(paths::binary("edgectl"));
    edgectl.args(["ca", "init", "--organization", "RootPilot Edge development", "--out"]).arg(&fresh);
    process::capture(&mut edgectl)?;
    fs::rename(&fresh, dir).with_context(|| format!("cannot make {}", dir.display()))
}
