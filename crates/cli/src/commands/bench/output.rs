//! Records as a table, as CSV or as JSON.

use std::io::{self, Write};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value};

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A Markdown table of the main columns
    Md,
    /// Comma-separated values, all fields
    Csv,
    /// One list, all fields
    Json,
    /// One object a line, all fields
    Jsonl,
}

/// A column of the Markdown table: its heading, and the field or the text that it shows.
pub(super) type Column = (&'static str, fn(&Map<String, Value>) -> String);

/// One measurement: its fields by name, in order.
pub(super) type Record = Map<String, Value>;

/// The fields of a measurement.
///
/// # Errors
/// If it is no structure of named fields.
pub(super) fn record(measurement: &impl Serialize) -> Result<Record> {
    match serde_json::to_value(measurement)? {
        Value::Object(record) => Ok(record),
        other => anyhow::bail!("{other} is no record"),
    }
}

/// Prints records on stdout.
pub(super) fn print(format: Format, records: &[Record], columns: &[Column]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match format {
        Format::Md => write!(stdout, "{}", table(records, columns))?,
        Format::Csv => write!(stdout, "{}", csv(records))?,
        Format::Json => writeln!(stdout, "{}", serde_json::to_string_pretty(records)?)?,
        Format::Jsonl => {
            for record in records {
                writeln!(stdout, "{}", serde_json::to_string(record)?)?;
            }
        }
    }
    Ok(())
}

/// Prints one record as a JSON object.
pub(super) fn print_one(record: &Record) -> Result<()> {
    writeln!(io::stdout().lock(), "{}", serde_json::to_string_pretty(record)?)?;
    Ok(())
}

/// Columns as wide as their widest cell; all but the first are flush right.
fn table(records: &[Record], columns: &[Column]) -> String {
    let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let row = |record: &Record| columns.iter().map(|(_, cell)| cell(record)).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(records.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = format!("| {:<width$} |", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line += &format!(" {cell:>width$} |");
        }
        line + "\n"
    };
    let mut rule = format!("| {} |", "-".repeat(widths[0]));
    for width in &widths[1..] {
        rule += &format!(" {}: |", "-".repeat(width.saturating_sub(1)));
    }
    line(&rows[0]) + &rule + "\n" + &rows[1..].iter().map(line).collect::<String>()
}

/// A heading of all fields that occur, then one line a record. Lists are in quotes, separated by spaces.
fn csv(records: &[Record]) -> String {
    let mut fields: Vec<&str> = Vec::new();
    for record in records {
        for key in record.keys() {
            if !fields.contains(&key.as_str()) {
                fields.push(key);
            }
        }
    }
    let mut text = fields.join(",") + "\n";
    for record in records {
        let cells: Vec<String> = fields.iter().map(|field| csv_cell(record.get(*field))).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

fn csv_cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(values)) => {
            let cells: Vec<String> = values.iter().map(|value| csv_cell(Some(value))).collect();
            format!("\"{}\"", cells.join(" ").replace('"', "\"\""))
        }
        Some(Value::String(text)) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// A number of a record with so many decimals, or nothing if it has none.
pub(super) fn number(record: &Record, field: &str, decimals: usize) -> String {
    record
        .get(field)
        .and_then(Value::as_f64)
        .map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

/// A text of a record.
pub(super) fn text(record: &Record, field: &str) -> String {
    record.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Bytes of a record in MB, or nothing if it has none.
pub(super) fn megabytes(record: &Record, field: &str) -> String {
    let bytes = record.get(field).and_then(Value::as_f64);
    bytes.map_or_else(String::new, |bytes| format!("{:.1}", bytes / 1e6))
}

/// A share of a record in percent.
pub(super) fn percent(record: &Record, field: &str) -> String {
    record
        .get(field)
        .and_then(Value::as_f64)
        .map_or_else(String::new, |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records() -> Vec<Record> {
        let first = json!({"test": "pp512", "avg_ts": 25.125, "samples_ts": [25.0, 25.25], "device": "a, b"});
        let second = json!({"test": "tg64", "avg_ts": 4.0, "share": 0.5, "device": null});
        [first, second].map(|value| record(&value).unwrap()).into()
    }

    #[test]
    fn a_table_has_a_rule_and_aligned_cells() {
        let columns: [Column; 3] = [
            ("test", |record| text(record, "test")),
            ("tokens/s", |record| number(record, "avg_ts", 2)),
            ("share", |record| percent(record, "share")),
        ];
        let want = "\
| test  | tokens/s |  share |
| ----- | -------: | -----: |
| pp512 |    25.12 |        |
| tg64  |     4.00 | 50.0 % |
";
        assert_eq!(table(&records(), &columns), want);
    }

    #[test]
    fn csv_quotes_what_holds_a_comma_and_leaves_absent_fields_empty() {
        let want = "\
test,avg_ts,samples_ts,device,share
pp512,25.125,\"25.0 25.25\",\"a, b\",
tg64,4.0,,,0.5
";
        assert_eq!(csv(&records()), want);
    }
}
