//! What an operator does on a fresh verifier, through the real `edgectl`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::credentials::Credentials;
use crate::{http, paths, process};

/// An operator with the development tokens.
pub struct Operator<'a> {
    /// Address of the verifier.
    pub url: &'a str,
    /// Admin token.
    pub admin_token: &'a str,
}

/// What became of the ready policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyPolicy {
    /// It is in force.
    InForce,
    /// Somebody put another one in force, which stays.
    Replaced,
}

impl<'a> Operator<'a> {
    /// An operator of the verifier at `url`.
    pub fn new(url: &'a str, credentials: &'a Credentials) -> Self {
        Self { url, admin_token: &credentials.admin_token }
    }

    fn edgectl(&self) -> Command {
        let mut command = Command::new(paths::binary("edgectl"));
        command.env("EDGECTL_URL", self.url).env("EDGECTL_TOKEN", self.admin_token);
        command
    }

    /// Puts `text` in force unless a policy is there that did not come from here. The state directory remembers what did.
    pub fn apply_ready_policy(&self, text: &str, state: &Path) -> Result<ReadyPolicy> {
        let (file, memory) = (state.join("policy.toml"), state.join("policy-applied.json"));
        if let Some(current) = self.policy()? {
            let ours = fs::read(&memory).ok().and_then(|old| serde_json::from_slice::<Value>(&old).ok());
            if ours.as_ref() != Some(&current) {
                return Ok(ReadyPolicy::Replaced);
            }
            if fs::read_to_string(&file).is_ok_and(|old| old == text) {
                return Ok(ReadyPolicy::InForce);
            }
        }
        fs::write(&file, text)?;
        process::capture(self.edgectl().args(["policy", "apply"]).arg(&file))?;
        let current = self.policy()?.context("a policy was applied and none is in force")?;
        fs::write(memory, current.to_string())?;
        Ok(ReadyPolicy::InForce)
    }

    fn policy(&self) -> Result<Option<Value>> {
        let answer = http::get(&format!("{}/v1/admin/policy", self.url), Some(self.admin_token))?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            status => anyhow::bail!("the policy cannot be read: {status} {}", answer.body),
        }
    }

    /// Mints a bootstrap token for one use.
    pub fn mint(&self, tenant: &str) -> Result<String> {
        let text = process::capture(self.edgectl().args(["token", "mint", tenant, "--output", "json"]))?;
        let minted: Value = serde_json::from_str(&text).context("edgectl token mint")?;
        let token = minted["token"].as_str().context("edgectl token mint gave no token")?;
        ensure!(token.starts_with("rpbt_"), "edgectl token mint gave {token:?}");
        Ok(token.to_owned())
    }
}
