//! Decides what of a Rust file is code: comments, texts and test modules are blanked, lines stay.

/// The code of a file, line by line as in the file, with everything else blanked.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// The code that is in the product: without what is under `#[cfg(test)]`.
pub(crate) fn product_code(source: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code(source);
    while let Some(start) = code.find(MARK) {
        let item = start + MARK.len();
        let end = item_end(&code[item..]).map_or(code.len(), |length| item + length);
        let blank: String =
            code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// The lines on which a word stands alone, counted from one.
pub(crate) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let lines = code.lines().enumerate();
    lines.filter(|(_, line)| has_word(line, word)).map(|(at, _)| at + 1).collect()
}

/// Whether `word` stands in the line and is no part of a longer name.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let (first, last) = (word.starts_with(in_name), word.ends_with(in_name));
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(in_name);
        let after = line[at + word.len()..].chars().next().is_some_and(in_name);
        !(first && before || last && after)
    })
}

/// Where the comment or text that starts at `at` ends; `at` itself when none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let in_name = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next(1) == '/' => until(chars, at, |c, i| c[i] == '\n'),
        '/' if next(1) == '*' => block_end(chars, at),
        '"' => text_end(chars, at + 1),
        'r' | 'b' | 'c' if !in_name => raw_end(chars, at),
        // A quote begins a character when one closes it; otherwise it is a lifetime.
        '\'' if next(1) == '\\' => until(chars, at + 3, |c, i| c[i] == '\'') + 1,
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn until(chars: &[char], from: usize, stop: impl Fn(&[char], usize) -> bool) -> usize {
    (from..chars.len()).find(|at| stop(chars, *at)).unwrap_or(chars.len())
}

fn block_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    chars.len()
}

fn text_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#` and their like.
fn raw_end(chars: &[char], start: usize) -> usize {
    let letters = until(chars, start, |c, i| !matches!(c[i], 'r' | 'b' | 'c'));
    let quote = until(chars, letters, |c, i| c[i] != '#');
    let raw = chars[start..letters].contains(&'r');
    if letters - start > 2 || chars.get(quote) != Some(&'"') || (!raw && quote > letters) {
        return start;
    }
    if !raw {
        return text_end(chars, quote + 1);
    }
    let hashes = quote - letters;
    let closes = |c: &[char], i: usize| {
        c[i] == '"' && c[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (until(chars, quote + 1, closes) + 1 + hashes).min(chars.len())
}

/// The length of the item that follows an attribute: up to its `;` or its closing brace.
fn item_end(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && c == '}' {
                    return Some(at + 1);
                }
            }
            ';' if depth == 0 => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn comments_texts_and_tests_are_no_code() {
    let source = r##"
//! Instant in a doc.
fn a<'x>(b: &'x str) -> char { /* Instant /* nested */ Instant */ let c = "Instant \" Instant"; '"' }
const R: &str = r#"Instant " Instant"#; const B: &[u8] = b"Instant"; const C: char = '\'';
#[cfg(test)]
#[allow(unused)]
mod tests { fn f() { Instant::now(); } }
#[cfg(test)]
mod more;
fn real() -> Instant { instant(InstantLike) } // Instant
"##;
    assert_eq!(lines_with(&product_code(source), "Instant"), [10]);
    assert_eq!(lines_with(&code(source), "Instant"), [7, 10]);
    assert_eq!(source.lines().count(), product_code(source).lines().count());
}
