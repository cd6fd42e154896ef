//! Translates a pattern of ECMA-262 into the syntax of the `regex` crate.
//!
//! The grammar is that of the `u` flag. Text outside of it is refused, with one exception: an escape
//! of ASCII punctuation, such as `\-` or `\@`. It is valid without the flag only, and then the whole
//! pattern is read in units of UTF-16, so it is taken where that makes no difference.
//! Annex B (octal escapes, lone braces, `[\w-.]`) and what cannot be matched in linear time
//! (lookaround, backreferences) is refused.
//!
//! Every character of the output is either syntax written here or a literal in the form `\x{..}`, so
//! nothing gains a meaning that it has to the `regex` crate alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use super::class::{self, ClassSet};
use super::escape::{self, Escape};

/// The pattern in the syntax of the `regex` crate, or nothing where it cannot be said exactly.
pub(super) fn translate(source: &str) -> Option<String> {
    let mut translator = Translator::new(source);
    translator.pattern()?;
    let Translator { out, open_groups, mode, .. } = translator;
    // Read in units of UTF-16, the pattern would mean something else.
    let split = mode.needs_utf16 && mode.sees_astral;
    (open_groups == 0 && !split).then_some(out)
}

/// The characters of a pattern that are not read yet.
pub(super) type Source<'a> = Peekable<Chars<'a>>;

/// What decides whether a pattern means the same with and without the `u` flag.
#[derive(Debug, Default)]
pub(super) struct UnitMode {
    /// It is valid only without the flag, where a character beyond U+FFFF is two units.
    pub(super) needs_utf16: bool,
    /// Something in it could match one of those two units.
    pub(super) sees_astral: bool,
}

/// What was read last, which decides whether a quantifier may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A part that can be repeated.
    Atom,
    /// An assertion, a quantifier, or the begin of an alternative.
    Other,
}

struct Translator<'a> {
    rest: Source<'a>,
    out: String,
    open_groups: usize,
    group_names: BTreeSet<String>,
    mode: UnitMode,
    last: Last,
}

impl<'a> Translator<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            rest: source.chars().peekable(),
            out: String::with_capacity(source.len() * 6),
            open_groups: 0,
            group_names: BTreeSet::new(),
            mode: UnitMode::default(),
            last: Last::Other,
        }
    }

    fn pattern(&mut self) -> Option<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => {
                    let set = class::bracketed(&mut self.rest, &mut self.mode)?;
                    self.set(&set);
                }
                '.' => self.set(&class::dot()),
                '(' => self.group()?,
                ')' => {
                    self.open_groups = self.open_groups.checked_sub(1)?;
                    self.emit(")", Last::Atom);
                }
                '|' => self.emit("|", Last::Other),
                '^' => self.emit("^", Last::Other),
                '$' => self.emit("$", Last::Other),
                '*' | '+' | '?' | '{' => self.quantifier(c)?,
                ']' | '}' => return None,
                _ => self.literal(c),
            }
        }
        Some(())
    }

    fn emit(&mut self, text: &str, last: Last) {
        self.out.push_str(text);
        self.last = last;
    }

    fn literal(&mut self, c: char) {
        self.mode.sees_astral |= u32::from(c) > 0xFFFF;
        class::write_char(&mut self.out, c);
        self.last = Last::Atom;
    }

    fn set(&mut self, set: &ClassSet) {
        self.mode.sees_astral |= set.sees_astral();
        set.write(&mut self.out);
        self.last = Last::Atom;
    }

    fn escape(&mut self) -> Option<()> {
        match escape::outside_class(&mut self.rest, &mut self.mode)? {
            Escape::Char(point) => match char::from_u32(point) {
                Some(c) => self.literal(c),
                // Half of a surrogate pair: no text has one, so nothing matches.
                None => self.set(&ClassSet::lone_surrogate()),
            },
            Escape::Set(set) => self.set(&set),
            // Without `u`, the class of word characters is that of ASCII, as in ECMA-262.
            Escape::Boundary => self.emit(r"(?-u:\b)", Last::Other),
        }
        Some(())
    }

    /// All groups become plain ones: there are no backreferences, so their text is not needed.
    fn group(&mut self) -> Option<()> {
        if self.rest.next_if_eq(&'?').is_some() {
            match self.rest.next()? {
                ':' => {}
                '<' => self.group_name()?,
                _ => return None,
            }
        }
        self.open_groups += 1;
        self.emit("(?:", Last::Other);
        Some(())
    }

    /// A name in ASCII, once; `(?<=` and `(?<!` have none.
    fn group_name(&mut self) -> Option<()> {
        let mut name = String::new();
        loop {
            match self.rest.next()? {
                '>' => break,
                c if c.is_ascii_alphabetic() || c == '_' || c == '$' => name.push(c),
                c if c.is_ascii_digit() && !name.is_empty() => name.push(c),
                _ => return None,
            }
        }
        (!name.is_empty() && self.group_names.insert(name)).then_some(())
    }

    fn quantifier(&mut self, first: char) -> Option<()> {
        if self.last != Last::Atom {
            return None;
        }
        match first {
            '{' => self.counted()?,
            _ => self.out.push(first),
        }
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.last = Last::Other;
        Some(())
    }

    /// `{2}`, `{2,}` or `{2,3}`. Anything else in braces is valid in Annex B only.
    fn counted(&mut self) -> Option<()> {
        let least = self.number()?;
        write!(self.out, "{{{least}").ok()?;
        if self.rest.next_if_eq(&',').is_some() {
            self.out.push(',');
            if self.rest.peek() != Some(&'}') {
                let most = self.number().filter(|most| *most >= least)?;
                write!(self.out, "{most}").ok()?;
            }
        }
        self.rest.next_if_eq(&'}')?;
        self.out.push('}');
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = self.rest.next_if(char::is_ascii_digit)?.to_digit(10)?;
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            number = number.checked_mul(10)?.checked_add(digit.to_digit(10)?)?;
        }
        Some(number)
    }
}
