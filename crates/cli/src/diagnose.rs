//! Decides how a finding is shown: as a compiler shows a mistake, or as one JSON value.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;
use toolgate_kernel::config::{Finding, Mistake, Severity, Span};

use crate::console::visible;
use crate::environment::no_colour;

/// Columns that a diagnostic takes.
const COLUMNS: usize = 80;

/// A file that was looked at.
pub(crate) struct File<'a> {
    /// How it is called.
    pub(crate) name: &'a str,
    /// What is in it, without its secrets.
    pub(crate) source: &'a str,
}

/// A finding as programs read it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    kind: &'static str,
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    severity: Severity,
    code: Mistake,
    message: &'a str,
    help: Option<&'a str>,
}

impl File<'_> {
    /// A finding as people read it.
    pub(crate) fn text(&self, finding: &Finding, colour: bool) -> String {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let code = code(finding.code);
        let lead = format!("{:?}[{code}]: ", finding.severity).len();
        let title = level.primary_title(wrapped(&visible(&finding.message), lead)).id(code);
        let mut group = match finding.span {
            Some(span) => {
                let range = self.range(span);
                let snippet = Snippet::source(self.source).path(self.name);
                title.element(snippet.annotation(AnnotationKind::Primary.span(range)))
            }
            None => title.element(annotate_snippets::Origin::path(self.name)),
        };
        if let Some(help) = &finding.help {
            let help = wrapped(&visible(help), "   = help: ".len());
            group = group.element(Level::HELP.message(help));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.term_width(COLUMNS).decor_style(DecorStyle::Ascii).render(&[group])
    }

    /// A finding as programs read it.
    pub(crate) fn line<'f>(&'f self, finding: &'f Finding) -> Line<'f> {
        let place = finding.span.map(|span| self.place(span));
        Line {
            kind: "finding",
            file: self.name,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            severity: finding.severity,
            code: finding.code,
            message: &finding.message,
            help: finding.help.as_deref(),
        }
    }

    /// The part of a stretch that is on its first line, in whole characters.
    fn range(&self, span: Span) -> std::ops::Range<usize> {
        let floor = |at: usize| self.source.floor_char_boundary(at.min(self.source.len()));
        let start = floor(span.start);
        let rest = self.source.get(start..).unwrap_or_default();
        let line = rest.find(['\n', '\r']).map_or(self.source.len(), |at| start + at);
        start..floor(span.end).clamp(start, line.max(start))
    }

    /// Line and column, both from one; columns are characters.
    fn place(&self, span: Span) -> (usize, usize) {
        let before = self.source.get(..self.range(span).start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before.get(start..).unwrap_or_default().chars().count() + 1)
    }
}

/// Whether diagnostics on the error output are in colour.
pub(crate) fn colour(out: &impl std::io::IsTerminal) -> bool {
    out.is_terminal() && !no_colour()
}

fn code(code: Mistake) -> String {
    serde_json::to_value(code)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// A sentence in lines that fit beside what stands before them.
fn wrapped(text: &str, lead: usize) -> String {
    let room = COLUMNS.saturating_sub(lead + 1).max(20);
    let (mut out, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}
