//! Decides what can still be read of a message that was cut off because it is too long: everything
//! before the cut, with what is open closed.

use super::message::{Head, Reply};

/// What a message that was cut off answers.
pub(super) fn cut_off(begin: &[u8]) -> Reply {
    let text = match std::str::from_utf8(begin) {
        Ok(text) => text,
        // The cut may go through a character.
        Err(fault) => {
            let whole = begin.get(..fault.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).unwrap_or_default()
        }
    };
    let mended = closed(text);
    match Head::read(&mended).and_then(|head| head.reply()) {
        Some(Reply::Result(result)) => Reply::Cut(result),
        Some(_) | None => Reply::Cut(String::new()),
    }
}

/// JSON that breaks off, with its strings, lists and objects closed. What has no value is left out.
fn closed(text: &str) -> String {
    let mut closers = Vec::new();
    // Where something whole ends, and how deep that is.
    let mut whole = (0, 0);
    // The string that is read: whether it is a name, after which a value comes.
    let mut in_string: Option<bool> = None;
    let mut escape = 0_usize;
    // Whether the next string is a name.
    let mut names = false;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(is_name) = in_string {
            match (escape, byte) {
                (0, b'\\') => escape = 1,
                (0, b'"') => {
                    in_string = None;
                    if !is_name {
                        whole = (at + 1, closers.len());
                    }
                }
                // A text can be cut anywhere but within an escape.
                (0, _) => {
                    if !is_name && text.is_char_boundary(at + 1) {
                        whole = (at + 1, closers.len() + 1);
                    }
                }
                (1, b'u') => escape = 5,
                (left, _) => escape = left - 1,
            }
            continue;
        }
        match byte {
            b'"' => in_string = Some(names && closers.last() == Some(&'}')),
            b'{' | b'[' => {
                closers.push(if byte == b'{' { '}' } else { ']' });
                names = byte == b'{';
                whole = (at + 1, closers.len());
            }
            b'}' | b']' => {
                closers.pop();
                whole = (at + 1, closers.len());
            }
            b',' => names = closers.last() == Some(&'}'),
            b':' => names = false,
            _ => {}
        }
    }
    let (end, depth) = whole;
    let mut out = text.get(..end).unwrap_or_default().to_owned();
    // A depth beyond what is open means that the text itself is.
    if depth > closers.len() {
        out.push('"');
    }
    out.extend(closers.iter().take(depth).rev());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_open_is_closed_wherever_it_is_cut() {
        let whole = r#"{"id":"tg-1","result":{"content":[{"type":"text","text":"a\u00e9\n\"é"},{"type":"text","text":"b"}],"n":[1,true]}}"#;
        for at in 1..=whole.len() {
            let begin = &whole.as_bytes()[..at];
            let text = String::from_utf8_lossy(begin);
            let mended = closed(text.trim_end_matches('\u{fffd}'));
            let read = serde_json::from_str::<serde_json::Value>(&mended);
            assert!(read.is_ok(), "{at}: {text} became {mended}");
        }
        assert_eq!(closed(whole), whole);
        assert_eq!(closed(r#"{"a":{"b":"xy"#), r#"{"a":{"b":"xy"}}"#);
        assert_eq!(closed(r#"{"a":1,"b"#), r#"{}"#);
        assert_eq!(closed(r#"{"a":"1","b":tr"#), r#"{"a":"1"}"#);
    }

    #[test]
    fn an_answer_that_was_cut_off_is_read_up_to_there() {
        let begin =
            r#"{"jsonrpc":"2.0","id":"tg-1","result":{"content":[{"type":"text","text":"AAé"#;
        let read = Reply::Cut(r#"{"content":[{"type":"text","text":"AA"}]}"#.to_owned());
        assert_eq!(cut_off(&begin.as_bytes()[..begin.len() - 1]), read);
        assert_eq!(cut_off(b"{\"jsonrpc\":\"2.0\",\"er"), Reply::Cut(String::new()));
        assert_eq!(cut_off(b"\xff"), Reply::Cut(String::new()));
    }
}
