//! The code of an approval card: letters that stand among the arguments, which a person types to
//! approve, so that nothing is approved that was not on the screen.

use anyhow::Result;

use crate::environment;

/// Letters that are not taken for one another.
const LETTERS: &[u8; 23] = b"ABCDEFGHJKLMNPQRSTUVWXY";

/// Columns to the left of the code, at most.
const COLUMNS_MAX: usize = 40;

/// The code of one card, and where on the card it stands.
pub(crate) struct CardCode {
    letters: String,
    row: usize,
    column: usize,
}

/// What a person typed at a card.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CardWord<'a> {
    /// To approve, with the code.
    Yes,
    /// To approve, and later calls of the kind too, with the code.
    Always,
    /// To change the arguments first.
    Edit,
    /// To trust a folder, with the code.
    Trust,
    /// To go on from a restored log, with the code.
    Restore,
    /// To deny, and why.
    No(&'a str),
    /// To approve or to trust, without the code or with another one.
    NoCode,
    /// Nothing.
    Blank,
    /// Something else.
    Unknown,
}

impl CardCode {
    /// A fresh code at a place of its own.
    pub(crate) fn new() -> Result<Self> {
        let [a, b, c, d, row, column] = environment::random()?;
        let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).copied();
        let letters = [a, b, c, d].into_iter().filter_map(letter).map(char::from).collect();
        Ok(Self { letters, row: usize::from(row), column: usize::from(column) % COLUMNS_MAX })
    }

    /// The rows of the arguments with the code between two of them.
    pub(crate) fn among(&self, mut rows: Vec<String>) -> Vec<String> {
        let between = rows.len().saturating_sub(1).max(1);
        let at = (1 + self.row % between).min(rows.len());
        rows.insert(at, format!("    {}[code {}]", " ".repeat(self.column), self.letters));
        rows
    }

    /// The last line of a card.
    pub(crate) fn prompt(&self) -> String {
        format!("Type `yes {}` to approve, `n` to deny:", self.letters)
    }

    /// The last line of a card about the trust in a folder.
    pub(crate) fn trust_prompt(&self) -> String {
        format!("Type `trust {}` to trust this folder:", self.letters)
    }

    /// The last line of a card about a restored log.
    pub(crate) fn restore_prompt(&self) -> String {
        format!("Type `restore {}` to go on from it, `n` to change nothing:", self.letters)
    }

    /// What a word with the code looks like.
    pub(crate) fn with(&self, word: &str) -> String {
        format!("{word} {}", self.letters)
    }

    /// What was typed.
    pub(crate) fn read<'a>(&self, typed: &'a str) -> CardWord<'a> {
        let typed = typed.trim();
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let rest = rest.trim();
        let coded = rest.eq_ignore_ascii_case(&self.letters);
        match word.to_ascii_lowercase().as_str() {
            "" => CardWord::Blank,
            "yes" | "y" if coded => CardWord::Yes,
            "always" if coded => CardWord::Always,
            "trust" if coded => CardWord::Trust,
            "restore" if coded => CardWord::Restore,
            "yes" | "y" | "always" | "trust" | "restore" => CardWord::NoCode,
            "edit" if rest.is_empty() => CardWord::Edit,
            "n" | "no" => CardWord::No(rest),
            _ => CardWord::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_approves() {
        let code = CardCode { letters: "QWER".into(), row: 0, column: 3 };
        for (typed, word) in [
            ("yes QWER", CardWord::Yes),
            ("y qwer\n", CardWord::Yes),
            ("always QWER", CardWord::Always),
            ("trust qwer", CardWord::Trust),
            ("trust", CardWord::NoCode),
            ("restore qwer", CardWord::Restore),
            ("restore", CardWord::NoCode),
            ("y", CardWord::NoCode),
            ("yes", CardWord::NoCode),
            ("yes QWEX", CardWord::NoCode),
            ("yes QWER now", CardWord::NoCode),
            ("edit", CardWord::Edit),
            ("n", CardWord::No("")),
            ("no not on a Friday", CardWord::No("not on a Friday")),
            ("", CardWord::Blank),
            ("QWER", CardWord::Unknown),
        ] {
            assert_eq!(code.read(typed), word, "{typed:?}");
        }
        assert_eq!(code.prompt(), "Type `yes QWER` to approve, `n` to deny:");
        assert_eq!(code.trust_prompt(), "Type `trust QWER` to trust this folder:");
    }

    #[test]
    fn the_code_stands_among_the_arguments() {
        let rows = |n: usize| (0..n).map(|row| row.to_string()).collect::<Vec<_>>();
        for row in 0..7 {
            let code = CardCode { letters: "QWER".into(), row, column: 3 };
            for n in 1..5 {
                let shown = code.among(rows(n));
                let at = shown.iter().position(|row| row == "       [code QWER]").unwrap();
                assert_eq!(shown.len(), n + 1);
                assert!(at >= 1 && (n == 1 || at < n), "{shown:?}");
            }
        }
    }
}
