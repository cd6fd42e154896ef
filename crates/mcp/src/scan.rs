//! Decides what of a tool's description and schemas is suspicious: hidden text, orders to the
//! model, other tools' names, and schemas that cannot be checked.

use std::collections::BTreeSet;

use toolgate_kernel::pin::Definition;

/// Whether a character is not seen, or changes what is seen.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' | '\u{180b}'..='\u{180d}' | '\u{115f}' | '\u{1160}' | '\u{3164}')
}

/// What a look at a definition came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// Nothing speaks against it.
    Clean,
    /// A person should look at it, because of these.
    Flagged(Vec<String>),
    /// It cannot be used, because of this.
    Excluded(String),
}

/// Looks at a definition. `others` are the names of tools that are not this server's.
pub fn scan(name: &str, definition: &Definition, others: &BTreeSet<String>) -> Scanned {
    let mut why = Vec::new();
    if definition.about.chars().any(is_hidden) {
        why.push("its description has characters that are not seen".to_owned());
    }
    let names = |other: &&String| *other != name && definition.about.contains(other.as_str());
    why.extend(others.iter().find(names).map(|other| format!("it speaks of the tool {other}")));
    if definition.about.len() > 4_096 {
        return Scanned::Excluded("its description has more than 4096 bytes".to_owned());
    }
    if why.is_empty() { Scanned::Clean } else { Scanned::Flagged(why) }
}
