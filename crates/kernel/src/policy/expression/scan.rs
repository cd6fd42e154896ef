//! Refuses sources whose shape would be dangerous to parse, by one cheap pass over the characters.

use super::fault::ExpressionFault;
use super::{NESTING_MAX, OPERATORS_MAX};

/// Bounds nesting and operators, and refuses texts that are not closed.
pub(super) fn scan(source: &str) -> Result<(), ExpressionFault> {
    let mut shape = Shape { levels: vec![0], operators: 0 };
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '"' | '\'' => after_text(source, rest, Escapes::Kept)?,
            '/' if rest.starts_with("//") => after_line(rest),
            'a'..='z' | 'A'..='Z' | '_' => {
                let tail = rest.trim_start_matches(is_word);
                let word = rest.strip_suffix(tail).unwrap_or(rest);
                if word == "in" {
                    shape.operator()?;
                }
                match text_prefix(word) {
                    Some(escapes) if tail.starts_with(['"', '\'']) => {
                        after_text(source, tail, escapes)?
                    }
                    _ => tail,
                }
            }
            '0'..='9' => rest.trim_start_matches(|next| is_word(next) || next == '.'),
            _ => {
                shape.mark(first)?;
                let pair = ["||", "&&", "==", "!=", "<=", ">="]
                    .iter()
                    .find_map(|pair| rest.strip_prefix(pair));
                pair.unwrap_or_else(|| rest.strip_prefix(first).unwrap_or_default())
            }
        };
    }
    Ok(())
}

/// How deep and how long the expression is so far.
struct Shape {
    /// One entry per open bracket, holding the conditionals begun inside it.
    levels: Vec<usize>,
    operators: usize,
}

impl Shape {
    fn mark(&mut self, sign: char) -> Result<(), ExpressionFault> {
        match sign {
            '(' | '{' => self.open(),
            '[' => self.operator().and_then(|()| self.open()),
            ')' | ']' | '}' => {
                // A bracket too many is left to the parser.
                if self.levels.len() > 1 {
                    self.levels.pop();
                }
                Ok(())
            }
            ',' => {
                self.levels.last_mut().into_iter().for_each(|level| *level = 0);
                Ok(())
            }
            '?' => {
                self.levels.last_mut().into_iter().for_each(|level| *level += 1);
                self.operator().and_then(|()| self.check_depth())
            }
            '.' | '!' | '-' | '+' | '*' | '/' | '%' | '<' | '>' | '=' | '|' | '&' => {
                self.operator()
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self) -> Result<(), ExpressionFault> {
        self.levels.push(0);
        self.check_depth()
    }

    fn check_depth(&self) -> Result<(), ExpressionFault> {
        // The outermost level is no bracket.
        let depth = self.levels.len().saturating_sub(1) + self.levels.iter().sum::<usize>();
        if depth > NESTING_MAX { Err(ExpressionFault::TooNested) } else { Ok(()) }
    }

    fn operator(&mut self) -> Result<(), ExpressionFault> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX { Err(ExpressionFault::TooChained) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    Kept,
    Raw,
}

/// Whether `word`, written right before a quote, makes it a raw or byte text.
fn text_prefix(word: &str) -> Option<Escapes> {
    match word {
        "b" | "B" => Some(Escapes::Kept),
        "r" | "R" | "br" | "bR" | "Br" | "BR" => Some(Escapes::Raw),
        _ => None,
    }
}

/// What follows the text that `rest` opens with.
fn after_text<'a>(
    source: &str,
    rest: &'a str,
    escapes: Escapes,
) -> Result<&'a str, ExpressionFault> {
    let closes = ["\"\"\"", "'''", "\"", "'"];
    let close = closes.into_iter().find(|close| rest.starts_with(close)).unwrap_or("\"");
    let mut inside = rest.strip_prefix(close).unwrap_or_default();
    while let Some(next) = inside.chars().next() {
        if let Some(after) = inside.strip_prefix(close) {
            return Ok(after);
        }
        if close.len() == 1 && matches!(next, '\n' | '\r') {
            break;
        }
        let mut chars = inside.chars();
        chars.next();
        if next == '\\' && escapes == Escapes::Kept {
            chars.next();
        }
        inside = chars.as_str();
    }
    let (line, column) = place(source, rest);
    Err(ExpressionFault::Syntax { line, column, message: "this text is not closed".to_owned() })
}

fn after_line(rest: &str) -> &str {
    rest.split_once('\n').map_or("", |(_, after)| after)
}

fn is_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

/// The line and column, from one, at which `rest`, a tail of `source`, begins.
fn place(source: &str, rest: &str) -> (usize, usize) {
    let before = source.strip_suffix(rest).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}
