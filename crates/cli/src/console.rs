//! Decides how anything is printed: lines that fit the terminal, nothing secret, nothing that acts on it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use console::{measure_text_width, style, truncate_str};
use serde::Serialize;
use toolgate_kernel::config::{ConfigDifference, read};
use toolgate_kernel::event::Ending;
use toolgate_runtime::Driver;

use crate::visible::visible_after;

/// Columns that a line takes when nobody can say how wide the terminal is.
const COLUMNS: usize = 80;

/// Lines of the smallest terminal that is reckoned with.
const ROWS: usize = 24;

/// Whether something could not be printed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether a program reads the output proper, and everything but JSON is printed beside it.
static BESIDE: AtomicBool = AtomicBool::new(false);

/// From here on nothing but JSON is printed on the output proper.
pub(crate) fn json_only() {
    BESIDE.store(true, Ordering::Relaxed);
}

/// Prints a line.
pub(crate) fn say(line: &str) {
    put(&format!("{line}\n"));
}

/// Prints a part of a line.
pub(crate) fn put(text: &str) {
    if BESIDE.load(Ordering::Relaxed) {
        // Nobody may be there to read it.
        return drop(std::io::stderr().lock().write_all(text.as_bytes()));
    }
    output(text);
}

/// Prints on the output proper. Whoever stops reading does not stop the work; what is lost for
/// another reason is told at the end.
fn output(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether everything that was said was printed.
pub(crate) fn all_said() -> bool {
    !LOST.load(Ordering::Relaxed)
}

/// Prints one JSON value on one line.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => output(&format!("{line}\n")),
        Err(_) => LOST.store(true, Ordering::Relaxed),
    }
}

/// Prints a text of several lines, two columns in, wrapped where the terminal ends.
pub(crate) fn paragraph(text: &str) {
    visible_lines(text).lines().for_each(|line| hanging(&format!("  {line}"), 2));
}

/// Prints a line, wrapped where the terminal ends; what follows hangs some columns in.
pub(crate) fn hanging(line: &str, indent: usize) {
    wrapped(line, indent, columns()).iter().for_each(|line| say(line));
}

/// A line in as many as it takes, broken between words; what follows hangs some columns in.
pub(crate) fn wrapped(line: &str, indent: usize, columns: usize) -> Vec<String> {
    let (mut lines, mut out, mut empty) = (Vec::new(), String::new(), true);
    for word in words(line, columns.saturating_sub(indent)) {
        if !empty && width(&out) + width(word.trim_end()) > columns {
            lines.push(out.trim_end().to_owned());
            out = " ".repeat(indent);
        }
        out.push_str(&word);
        empty &= word.trim().is_empty();
    }
    lines.push(out.trim_end().to_owned());
    lines
}

/// Prints a line of which nothing is left out.
pub(crate) fn whole(line: &str, indent: usize) {
    whole_lines(line, indent).iter().for_each(|line| say(line));
}

/// A line of which nothing is left out: it goes on in the next one where a terminal ends, and is one
/// line for whoever else reads it.
pub(crate) fn whole_lines(line: &str, indent: usize) -> Vec<String> {
    match console::Term::stdout().is_term() {
        true => wrapped(line, indent, columns()),
        false => vec![line.to_owned()],
    }
}

/// The words of a line with the spaces after them; one that is too long for a line comes in parts.
pub(crate) fn words(line: &str, columns: usize) -> Vec<String> {
    let mut words = Vec::new();
    for word in line.split_inclusive(' ') {
        let mut part = String::new();
        // Colours take no columns, and are not cut.
        let whole = word.contains('\u{1b}') || width(word.trim_end()) <= columns;
        for c in word.chars() {
            if !whole && width(&part) >= columns.max(1) {
                words.push(std::mem::take(&mut part));
            }
            part.push(c);
        }
        words.push(part);
    }
    words
}

/// Prints why a command did not work, cause by cause; as one JSON value for who asked for JSON.
pub(crate) fn complain(error: &anyhow::Error, as_json: bool) {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // A cause that repeats a sentence before it says nothing new.
        if !causes.iter().any(|said| said.contains(&text)) {
            causes.push(text);
        }
    }
    if as_json {
        return json(&serde_json::json!({ "error": causes }));
    }
    for (at, text) in causes.iter().enumerate() {
        tell(&format!("{}{text}", if at == 0 { "error: " } else { "  because: " }));
    }
}

/// Sentences beside the output proper: broken between words where a terminal ends, and as they are
/// for whoever else reads them.
pub(crate) fn tell(text: &str) {
    let terminal = console::Term::stderr();
    if !terminal.is_term() {
        return hint(text);
    }
    let columns = terminal.size_checked().map_or(COLUMNS, |(_, columns)| usize::from(columns));
    for line in text.split('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        wrapped(line, indent + 2, columns.clamp(40, 100)).iter().for_each(|line| hint(line));
    }
}

/// A hint beside the output proper.
pub(crate) fn hint(line: &str) {
    // Nobody may be there to read it.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

/// Tells of a configuration that is another one than at the last start.
pub(crate) fn replaced_config(driver: &Driver) {
    let Some(before) = driver.replaced_config() else { return };
    let (was, now) = (before.config.short(), driver.agent().fingerprint.short());
    hint(&format!("The configuration changed since the last start: it was {was}, it is {now}."));
    let source = driver.agent().source.as_deref();
    if let (Some(before), Some(after)) = (&before.text, source) {
        config_difference(before, &after.masked_text).iter().for_each(|line| hint(line));
    }
}

/// How two configurations differ, key by key, from their texts without secrets.
pub(crate) fn config_difference(before: &str, after: &str) -> Vec<String> {
    let text = |bytes: &str| read(bytes.as_bytes()).text;
    let difference = ConfigDifference::between(&text(before), &text(after)).to_string();
    let lines = difference.lines().map(|line| format!("  {}", visible(line)));
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// How a session ended, in words.
pub(crate) fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "Completed",
        Ending::Stopped => "Stopped",
        Ending::DeadlineExceeded => "Out of time",
        Ending::BudgetExceeded => "Out of budget",
        Ending::TurnsExceeded => "Out of turns",
        Ending::IterationsExceeded => "Out of iterations",
        Ending::Stalled => "The model did nothing",
        Ending::NoToolCalls => "No tool was called (NO_TOOL_CALLS)",
        Ending::ToolError => "A tool failed (TOOL_ERROR)",
        Ending::Refused => "The model declined",
        Ending::Truncated => "The last reply ran out of room",
        Ending::Rejected => "The reply was not accepted",
    }
}

/// Columns of the terminal, between forty and a hundred.
pub(crate) fn columns() -> usize {
    let found = console::Term::stdout().size_checked();
    found.map_or(COLUMNS, |(_, columns)| usize::from(columns).clamp(40, 100))
}

/// Lines as a terminal breaks them, nothing left out, and how many of them it shows at once.
pub(crate) fn on_screen(lines: &[String]) -> (Vec<String>, usize) {
    let found = console::Term::stderr().size_checked().filter(|(rows, _)| *rows > 0);
    let (rows, columns) = found.map_or((ROWS, COLUMNS), |(r, c)| (r.into(), c.into()));
    let mut broken = Vec::new();
    for line in lines {
        let (mut row, mut taken) = (String::new(), 0);
        for c in line.chars() {
            let more = width(c.encode_utf8(&mut [0; 4]));
            if taken + more > columns {
                broken.push(std::mem::take(&mut row));
                taken = 0;
            }
            row.push(c);
            taken += more;
        }
        broken.push(row);
    }
    (broken, rows)
}

/// Cuts a line so that it fits, by what a terminal shows of it.
pub(crate) fn fit(line: &str) -> String {
    truncate_str(line, columns(), "…").into_owned()
}

/// The columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    measure_text_width(text)
}

/// A text in the background, where the terminal can show that.
pub(crate) fn dim(text: &str) -> String {
    style(text).dim().to_string()
}

/// A text in the foreground, where the terminal can show that.
pub(crate) fn bold(text: &str) -> String {
    style(text).bold().to_string()
}

/// A mark in its colour, where the terminal can show that: done, failed, refused.
pub(crate) fn mark(mark: char) -> String {
    let shown = style(mark);
    let coloured = match mark {
        '✓' => shown.green(),
        '✗' => shown.red(),
        _ => shown.yellow(),
    };
    coloured.to_string()
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Text of a model on one line, with what cannot be seen, or would act on a terminal, made visible.
pub(crate) fn visible(text: &str) -> String {
    visible_lines(text).replace('\n', " ")
}

/// The same with its lines kept.
pub(crate) fn visible_lines(text: &str) -> String {
    visible_after(&mut None, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\u{202e}b\u{1b}[2Jc\nd"), "a<U+202E>b<U+001B>[2Jc d");
        assert_eq!(width(&fit(&"x".repeat(200))), columns());
        assert_eq!(
            width(&fit(&"字".repeat(200))),
            columns() - columns().is_multiple_of(2) as usize
        );
    }

    #[test]
    fn a_line_is_broken_between_words() {
        assert_eq!(wrapped("error: one two three", 2, 12), ["error: one", "  two three"]);
        assert_eq!(wrapped("short", 2, 12), ["short"]);
        let long = "error: ".to_owned() + &"x".repeat(30);
        let lines = wrapped(&long, 2, 20);
        assert!(lines.iter().all(|line| width(line) <= 20), "{lines:?}");
    }

    #[test]
    fn long_words_come_in_parts() {
        assert_eq!(words("a bcdef g", 3), ["a ", "bcd", "ef ", "g"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
