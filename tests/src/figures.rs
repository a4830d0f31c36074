//! Figures of a measurement: medians, and numbers as people read them.

use std::time::Duration;

use serde_json::Value;

/// The middle one; the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Rounded to `digits` decimals: raw floats only pretend to be exact.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// The same for all.
pub fn all_rounded(values: &[f64], digits: i32) -> Vec<f64> {
    values.iter().map(|value| rounded(*value, digits)).collect()
}

/// Milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A figure for people: thousands separated, two decimals at most.
pub fn shown(value: &Value, unit: &str) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::Array(items) => items.iter().map(|item| shown(item, "")).collect::<Vec<_>>().join("; "),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), figure),
        other => other.as_str().map_or_else(|| other.to_string(), str::to_owned),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

fn figure(number: f64) -> String {
    let digits = if number.abs() >= 1000.0 { 0 } else { 2 };
    let text = rounded(number, digits).to_string();
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut separated = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && digit != '-' {
            separated.push(',');
        }
        separated.push(digit);
    }
    fraction.map_or(separated.clone(), |fraction| format!("{separated}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(figure(8123.4), "8,123");
        assert_eq!(figure(1_234_567.0), "1,234,567");
        assert_eq!(figure(0.987_6), "0.99");
        assert_eq!(shown(&json!([0, 0, 0]), ""), "0; 0; 0");
        assert_eq!(shown(&json!(null), "ms"), "");
        assert_eq!(shown(&json!(2.5), "ms"), "2.5 ms");
    }
}
