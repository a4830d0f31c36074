//! What the demo saw, as tables for people and as one line of JSON.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::json;

/// Identities are long: what makes the table wider than this is broken at a slash.
const TABLE_WIDTH: u16 = 140;

/// A runner that enrolled.
#[derive(Serialize)]
pub struct Enrolled {
    pub mode: &'static str,
    pub identity: String,
    pub tenant: String,
    pub runner_id: String,
    pub not_after: String,
}

/// A refusal that was provoked.
#[derive(Serialize)]
pub struct Refusal {
    pub case: &'static str,
    pub status: u16,
    pub code: String,
    pub reason: Option<String>,
}

/// Everything seen, and what did not hold.
#[derive(Default)]
pub struct Report {
    modes: Vec<Enrolled>,
    refusals: Vec<Refusal>,
    broken: Vec<String>,
}

impl Report {
    pub fn enrolled(&mut self, enrolled: Enrolled) {
        self.modes.push(enrolled);
    }

    pub fn refused(&mut self, refusal: Refusal) {
        self.refusals.push(refusal);
    }

    /// Notes that something did not hold.
    pub fn broken(&mut self, what: impl Into<String>) {
        let what = what.into();
        eprintln!("    DOES NOT HOLD: {what}");
        self.broken.push(what);
    }

    pub fn holds(&self) -> bool {
        self.broken.is_empty() && !self.modes.is_empty() && !self.refusals.is_empty()
    }

    /// One line.
    pub fn json(&self) -> String {
        json!({"ok": self.holds(), "modes": self.modes, "refusals": self.refusals}).to_string()
    }

    pub fn text(&self) -> String {
        let mut modes = table(["mode", "identity proven", "tenant", "runner id", "certificate end"]);
        modes.add_rows(
            self.modes
                .iter()
                .map(|row| [row.mode, &row.identity, &row.tenant, &row.runner_id, &row.not_after].map(str::to_owned)),
        );
        if let Some(identity) = modes.column_mut(1) {
            identity.set_delimiter('/');
        }
        let mut refusals = table(["refused", "status", "code", "reason"]);
        refusals.add_rows(self.refusals.iter().map(|row| {
            let reason = row.reason.clone().unwrap_or_else(|| "-".to_owned());
            [row.case.to_owned(), row.status.to_string(), row.code.clone(), reason]
        }));
        let outcome = if self.holds() {
            "Everything held.".to_owned()
        } else {
            format!("This did not hold:\n  {}", self.broken.join("\n  "))
        };
        format!("\n{modes}\n\n{refusals}\n\n{outcome}\n")
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_width(TABLE_WIDTH);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.enrolled(Enrolled {
            mode: "gke-oidc",
            identity: format!("{}#system:serviceaccount:rootpilot:runner", crate::ready_policy::GKE_ISSUER),
            tenant: "acme".to_owned(),
            runner_id: "abcdefghijklmnopqrstuvwxyz".to_owned(),
            not_after: "2026-01-01T00:00:00Z".to_owned(),
        });
        report.refused(Refusal {
            case: "unmapped identity",
            status: 403,
            code: "identity_not_mapped".to_owned(),
            reason: None,
        });
        report
    }

    #[test]
    fn the_line_has_the_contract_s_fields() {
        let line: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(line["ok"], true);
        assert_eq!(line["modes"][0].as_object().unwrap().len(), 5);
        assert_eq!(
            line["refusals"][0],
            json!({"case": "unmapped identity", "status": 403, "code": "identity_not_mapped", "reason": null})
        );
    }

    #[test]
    fn tables_fit_a_wide_terminal() {
        let text = report().text();
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(TABLE_WIDTH)), "{text}");
    }

    #[test]
    fn what_does_not_hold_is_told() {
        let mut report = report();
        assert!(report.text().ends_with("Everything held.\n"));
        report.broken("openssl refuses the certificate");
        assert!(!report.holds());
        assert!(report.text().contains("openssl refuses"));
    }

    #[test]
    fn an_empty_report_does_not_hold() {
        assert!(!Report::default().holds());
    }
}
