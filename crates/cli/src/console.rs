//! Decides what a person sees: plain lines that fit eighty columns, nothing secret.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use toolgate_kernel::event::{CallRefused, Ending, Event, Outcome};
use toolgate_runtime::Driver;

/// Columns that a line may take.
const COLUMNS: usize = 80;

/// Whether something could not be printed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line. Whoever stops reading does not stop the work; what is lost for another reason
/// is told at the end.
pub(crate) fn say(line: &str) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{line}")
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
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    say(&serde_json::to_string(value)?);
    Ok(())
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
        return say(&serde_json::json!({ "error": causes }).to_string());
    }
    for (at, text) in causes.iter().enumerate() {
        hint(&format!("{}{text}", if at == 0 { "error: " } else { "  because: " }));
    }
}

/// A hint beside the output proper.
pub(crate) fn hint(line: &str) {
    // Nobody may be there to read it.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

/// Tells of a configuration that is another one than at the last start.
pub(crate) fn replaced_config(driver: &Driver) {
    if let Some(before) = driver.replaced_config() {
        let now = driver.agent().fingerprint;
        hint(&format!(
            "The configuration changed since the last start: it was {}, it is {}.",
            before.short(),
            now.short()
        ));
    }
}

/// One line per call: done, failed or refused, and why.
pub(crate) fn call_line(event: &Event) -> Option<String> {
    let (mark, envelope) = if let Event::CallSettled(settled) = event {
        let mark = match settled.outcome {
            Outcome::Done if settled.envelope.ok => "✓",
            Outcome::Done | Outcome::Failed => "✗",
            Outcome::Unknown => "?",
        };
        (mark, &settled.envelope)
    } else if let Event::CallRefused(CallRefused { envelope, .. }) = event {
        ("⊘", envelope)
    } else {
        return None;
    };
    let code = envelope.code().map(|code| format!("{code}: ")).unwrap_or_default();
    Some(fit(&format!(
        "  {mark} {} — {code}{}",
        visible(&envelope.tool),
        visible(&envelope.message)
    )))
}

/// How a session ended, in words.
pub(crate) fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "Completed",
        Ending::Stopped => "Stopped",
        Ending::DeadlineExceeded => "Out of time",
        Ending::BudgetExceeded => "Out of budget",
        Ending::TurnsExceeded => "Out of turns",
        Ending::ModelFailed => "The model failed",
        Ending::Stalled => "The model did nothing",
    }
}

/// Cuts a line so that it fits.
pub(crate) fn fit(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    line.chars().take(COLUMNS - 1).chain(['…']).collect()
}

/// Text of a model with what cannot be seen, or would act on a terminal, made visible.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{180e}')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{e0000}'..='\u{e007f}');
        match c {
            '\n' => out.push(' '),
            c if hidden => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\u{202e}b\u{1b}[2Jc"), "a<U+202E>b<U+001B>[2Jc");
        assert_eq!(fit(&"x".repeat(90)).chars().count(), 80);
    }
}
