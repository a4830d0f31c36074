//! Decision trace: what each check compared, for `/v1/verify` (PROTOCOL, Verify). Costs nothing when off.

use protocol::{Mode, TraceEntry, TraceOutcome};

use crate::Denial;
use crate::checks::Check;
use crate::evidence::Principal;

/// Collects passed checks while an appraisal runs, and what became known of the caller.
#[derive(Debug, Default)]
pub struct Trace {
    entries: Option<Vec<TraceEntry>>,
    /// What became known, also when the appraisal ends in a refusal.
    pub subject: Subject,
}

/// What became known of the caller. An identity is here only once it is proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Mode that the evidence claims.
    pub mode: Option<Mode>,
    /// Canonical identity.
    pub identity: Option<String>,
    /// What stands behind the runner.
    pub instance: Option<String>,
    /// Tenant.
    pub tenant: Option<String>,
    /// Runner id.
    pub runner_id: Option<String>,
}

impl Subject {
    /// Notes a proven identity.
    pub fn learn(&mut self, principal: &Principal) {
        self.identity = Some(principal.identity());
        self.instance = Some(principal.instance());
    }

    /// The tenant of a proven identity. What a bootstrap token merely names is not known to be one.
    pub fn proven_tenant(&self) -> Option<&str> {
        self.tenant.as_deref().filter(|_| self.identity.is_some())
    }
}

impl Trace {
    /// Records nothing: enrolment and renewal.
    pub fn off() -> Self {
        Self::default()
    }

    /// Records every check.
    pub fn on() -> Self {
        Self { entries: Some(Vec::with_capacity(16)), ..Self::default() }
    }

    /// `check` passed; `compared` gives (expected, actual) without secrets and runs only when the trace is on.
    pub fn pass(&mut self, check: Check, compared: impl FnOnce() -> (String, String)) {
        if self.entries.is_some() {
            self.record(check, compared());
        }
    }

    fn record(&mut self, check: Check, compared: (String, String)) {
        self.entries.get_or_insert_default().push(entry(check, TraceOutcome::Pass, Some(compared)));
    }

    /// The whole trace of an appraisal of `mode`: what passed, what refused, what was not reached.
    pub fn finish(self, mode: Mode, denial: Option<&Denial>) -> Vec<TraceEntry> {
        let mut entries = self.entries.unwrap_or_default();
        if let Some(Denial { check: Some(check), compared, detail, .. }) = denial {
            let compared = compared.clone();
            let mut failed = entry(*check, TraceOutcome::Fail, compared);
            failed.actual.get_or_insert_with(|| detail.clone());
            entries.push(failed);
        }
        for check in Check::of_mode(mode) {
            if !entries.iter().any(|entry| entry.check == check.id()) {
                entries.push(entry(*check, TraceOutcome::Skipped, None));
            }
        }
        entries
    }
}

/// What is wrong with the trace of a refusal (PROTOCOL, Verify): each check of the mode once and in order, passed before the one that
/// refused and skipped after it.
#[cfg(any(test, feature = "suites"))]
pub fn fault(mode: Mode, denial: &Denial, trace: &[TraceEntry]) -> Option<String> {
    let mut before = true;
    let wanted = Check::of_mode(mode).iter().map(|check| {
        let outcome = if Some(*check) == denial.check {
            before = false;
            TraceOutcome::Fail
        } else if before {
            TraceOutcome::Pass
        } else {
            TraceOutcome::Skipped
        };
        (check.id(), outcome)
    });
    let wanted: Vec<_> = wanted.collect();
    let told: Vec<_> = trace.iter().map(|entry| (entry.check.as_str(), entry.outcome)).collect();
    (told != wanted).then(|| format!("{denial:?}: {told:?}"))
}

fn entry(check: Check, outcome: TraceOutcome, compared: Option<(String, String)>) -> TraceEntry {
    let (expected, actual) = compared.unzip();
    TraceEntry { check: check.id().to_owned(), name: check.name().to_owned(), outcome, expected, actual }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PROTOCOL, Verify: null where unknown.
    #[test]
    fn a_tenant_is_told_once_an_identity_is_proven() {
        let mut subject = Subject { tenant: Some("acme".to_owned()), ..Subject::default() };
        assert_eq!(subject.proven_tenant(), None);
        subject.learn(&Principal::Bootstrap { token_id: "a".to_owned() });
        assert_eq!(subject.proven_tenant(), Some("acme"));
    }
}
