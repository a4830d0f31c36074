//! The state directory: atomic files, one owner, nothing ever deleted that was not understood.
//!
//! | file | what | mode |
//! |---|---|---|
//! | `identity.json` | the truth: everything about the present certificate, chain and roots included | 0600 |
//! | `key.pem` | key of the present certificate | 0600 |
//! | `certificate.pem`, `trust-bundle.pem` | chain and roots for other programs, written from `identity.json` | 0644 |
//! | `pending-key.pem` | a key whose CSR was or will be sent | 0600 |
//! | `last-failure.json` | what the running runner met last, until it is over; for `runner status` | 0644 |
//! | `lock` | held while a runner works here | 0600 |
//! | `set-aside-<time>/` | what could not be used | 0700 |
//!
//! Invariants: a key is on disk before its CSR leaves the machine; `identity.json` is replaced in one rename, and names the key that
//! it belongs to, which is `key.pem`, or after a crash `pending-key.pem`; the two exports follow and are repaired when they differ.

mod files;

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::Mode;
use serde::{Deserialize, Serialize};

use crate::failure::{Class, Failure};
use crate::identity::{Identity, VERSION};
use crate::key::Key;
use crate::output::one_line;

pub use files::{CERTIFICATE, IDENTITY, KEY, LOCK, PENDING_KEY, TRUST_BUNDLE};
use files::{EXPORT, LAST_FAILURE, SECRET};

/// What the directory holds, as far as it can be used.
#[derive(Debug, Default)]
pub struct State {
    /// The present certificate; its key is `key`.
    pub identity: Option<Identity>,
    /// Key of the present certificate, or of the last one.
    pub key: Option<Key>,
    /// Key of a request that was not answered yet.
    pub pending: Option<Key>,
    /// What cannot be used, and why.
    pub faults: Vec<Fault>,
}

/// Files that cannot be used, and the sentence that says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Names within the directory.
    pub files: Vec<&'static str>,
    /// What is wrong with them.
    pub what: String,
}

/// The directory, locked for this process.
#[derive(Debug)]
pub struct IdentityStore {
    dir: PathBuf,
    _lock: File,
}

impl IdentityStore {
    /// Makes the directory where it is missing (0700) and locks it.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        files::make_dir(dir)?;
        let lock = files::lock(dir)?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the state, sets aside what cannot be used or belongs elsewhere, and says so in the log.
    pub fn load(&mut self, control_plane_url: &str, mode: Mode) -> Result<State, Failure> {
        let mut state = read_for(&self.dir, control_plane_url, mode)?;
        for fault in &state.faults {
            let place = files::set_aside(&self.dir, &fault.files)?;
            tracing::warn!("state in {}: {}; moved to {}", self.dir.display(), fault.what, place.display());
        }
        self.repair(&mut state)?;
        Ok(state)
    }

    /// Finishes what a crash interrupted: the key takes its place, the exports follow `identity.json`.
    fn repair(&self, state: &mut State) -> Result<(), Failure> {
        let Some(identity) = &state.identity else { return Ok(()) };
        if state.pending.as_ref().is_some_and(|pending| pending.spki_sha256() == identity.key_sha256) {
            files::rename(&self.dir, PENDING_KEY, KEY)?;
            state.pending = None;
        }
        self.export(identity)
    }

    fn export(&self, identity: &Identity) -> Result<(), Failure> {
        for (name, content) in [(CERTIFICATE, &identity.certificate), (TRUST_BUNDLE, &identity.trust_bundle)] {
            let present = files::read(&self.dir, name).ok().flatten();
            if present.is_none_or(|present| present.as_slice() != content.as_bytes()) {
                files::replace(&self.dir, name, content.as_bytes(), EXPORT)?;
            }
        }
        Ok(())
    }

    /// Keeps what went wrong where `runner status` finds it. Failing to is no failure.
    pub fn note_failure(&self, failure: &LastFailure) {
        let noted =
            serde_json::to_vec_pretty(failure).ok().map(|json| files::replace(&self.dir, LAST_FAILURE, &json, EXPORT));
        if let Some(Err(failure)) = noted {
            tracing::debug!("{failure}");
        }
    }

    /// Stores a new key before its CSR is sent.
    pub fn store_pending(&mut self, key: &Key) -> Result<(), Failure> {
        let pem = key.to_pem().map_err(|error| Failure::configuration(error.to_string()))?;
        files::replace(&self.dir, PENDING_KEY, pem.as_bytes(), SECRET)?;
        files::sync_dir(&self.dir)
    }

    /// Stores a new certificate, and gives its key the place of the present one.
    pub fn commit(&mut self, identity: &Identity, key: &Key) -> Result<(), Failure> {
        let json = serde_json::to_vec_pretty(identity).map_err(|error| Failure::configuration(error.to_string()))?;
        files::replace(&self.dir, IDENTITY, &json, SECRET)?;
        let pending = files::key(&self.dir, PENDING_KEY)?.and_then(Result::ok);
        match pending {
            Some(pending) if pending.spki_sha256() == key.spki_sha256() => files::rename(&self.dir, PENDING_KEY, KEY)?,
            // The attestation was made with the present key: what was pending before it is over.
            _ => files::remove(&self.dir, PENDING_KEY)?,
        }
        self.export(identity)?;
        files::remove(&self.dir, LAST_FAILURE)?;
        files::sync_dir(&self.dir)
    }
}

/// What the runner met last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// When.
    pub time: Timestamp,
    /// Whose move it is.
    pub class: Class,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hints: Vec<String>,
    /// What the runner does.
    pub then: String,
}

/// Reads the last failure, where there is one that can be read.
pub fn last_failure(dir: &Path) -> Option<LastFailure> {
    files::read(dir, LAST_FAILURE).ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

/// Reads the state without changing anything, for any number of readers.
pub fn read(dir: &Path) -> Result<State, Failure> {
    let mut state = State::default();
    let strange = files::ALL.into_iter().filter(|name| files::is_no_file(dir, name));
    state.faults.extend(strange.map(|name| Fault { files: vec![name], what: format!("{name} is not a file") }));
    let mut take_key = |name: &'static str| -> Result<Option<Key>, Failure> {
        Ok(match files::key(dir, name)? {
            Some(Ok(key)) => Some(key),
            Some(Err(error)) => {
                state.faults.push(Fault { files: vec![name], what: format!("{name} is {error}") });
                None
            }
            None => None,
        })
    };
    let key = take_key(KEY)?;
    let pending = take_key(PENDING_KEY)?;
    state.key = key;
    state.pending = pending;
    match identity(dir)? {
        None => {}
        Some(Err(what)) => state.faults.push(Fault { files: vec![IDENTITY, CERTIFICATE], what }),
        Some(Ok(identity)) => adopt(identity, &mut state),
    }
    Ok(state)
}

/// The same for a control plane and mode: state that belongs to another is a fault, and nothing of it is used.
pub fn read_for(dir: &Path, control_plane_url: &str, mode: Mode) -> Result<State, Failure> {
    let state = read(dir)?;
    let foreign = state.identity.as_ref().and_then(|identity| foreign(identity, control_plane_url, mode));
    Ok(match foreign {
        Some(fault) => State { faults: state.faults.into_iter().chain([fault]).collect(), ..State::default() },
        None => state,
    })
}

/// Gives the certificate the key that it belongs to.
fn adopt(identity: Identity, state: &mut State) {
    let belongs = |key: &Option<Key>| key.as_ref().is_some_and(|key| key.spki_sha256() == identity.key_sha256);
    if belongs(&state.pending) {
        state.key.clone_from(&state.pending);
    }
    if belongs(&state.key) {
        state.identity = Some(identity);
    } else {
        let what = format!("the key of the certificate of runner {} is not there", one_line(&identity.runner_id));
        state.faults.push(Fault { files: vec![IDENTITY, CERTIFICATE], what });
    }
}

fn identity(dir: &Path) -> Result<Option<Result<Identity, String>>, Failure> {
    let Some(bytes) = files::read(dir, IDENTITY)? else { return Ok(None) };
    let read = || -> Result<Identity, String> {
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("{IDENTITY} is damaged ({error})"))?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            return Err(format!("{IDENTITY} is not of this version of the runner"));
        }
        let identity: Identity =
            serde_json::from_value(value).map_err(|error| format!("{IDENTITY} is damaged ({error})"))?;
        let leaf = identity.leaf().map_err(|error| format!("{IDENTITY} is damaged ({error})"))?;
        if leaf.key_sha256 != identity.key_sha256 {
            return Err(format!("{IDENTITY} is damaged (its certificate is for another key)"));
        }
        Ok(identity)
    };
    Ok(Some(read()))
}

/// State of another control plane or mode: its certificate would never become what the configuration asks for.
fn foreign(identity: &Identity, control_plane_url: &str, mode: Mode) -> Option<Fault> {
    let files = vec![IDENTITY, CERTIFICATE, TRUST_BUNDLE, KEY, PENDING_KEY];
    let was = one_line(&identity.control_plane_url);
    if identity.control_plane_url != control_plane_url {
        let what = format!("it belongs to the control plane {was}, not to {control_plane_url}");
        return Some(Fault { files, what });
    }
    if identity.mode != mode {
        let what = format!("it was attested by {}, and RUNNER_ATTESTATION_MODE is now {mode}", identity.mode);
        return Some(Fault { files, what });
    }
    None
}

/// Whether a runner works in the directory now.
pub fn is_locked(dir: &Path) -> bool {
    files::is_locked(dir)
}

/// Name of a set-aside folder.
fn set_aside_name(now: Timestamp) -> String {
    format!("set-aside-{}", now.strftime("%Y%m%dT%H%M%S%3fZ"))
}
