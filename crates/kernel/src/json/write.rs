//! Decides how a text is written into the log: what needs no escape is copied whole.
//!
//! Most of a record is names and hashes. `serde_json` looks at each of their bytes; this writes
//! the same text at a fraction of the cost.

/// Appends a text in quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_inner(text, out);
    out.push(b'"');
}

/// Appends what stands between the quotes.
pub(crate) fn write_inner(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
        return;
    }
    out.reserve(bytes.len() + bytes.len() / 4 + 2 * BLOCK);
    let (blocks, rest) = bytes.as_chunks();
    blocks.iter().for_each(|block| write_block(block, out));
    rest.iter().for_each(|byte| write_byte(*byte, out));
}

/// Whether no byte needs an escape.
fn is_plain(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk() else {
        return !bytes.iter().any(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
    };
    let (blocks, _) = bytes.as_chunks();
    blocks.iter().all(|block| plain_bytes(block) == BLOCK) && plain_bytes(last) == BLOCK
}

/// Bytes that are looked at in one go.
const BLOCK: usize = 8;

/// One in each byte of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

/// How many of eight bytes come before the first that needs an escape.
pub(super) fn plain_bytes(block: &[u8; BLOCK]) -> usize {
    let word = u64::from_le_bytes(*block);
    place(quoted(word) | control(word))
}

/// The highest bit of each byte that is a quote or a backslash.
fn quoted(word: u64) -> u64 {
    let zero = |word: u64| !(((word & (EACH * 0x7f)) + EACH * 0x7f) | word);
    (zero(word ^ (EACH * 0x22)) | zero(word ^ (EACH * 0x5c))) & (EACH * 0x80)
}

/// The highest bit of each byte that is a control character.
fn control(word: u64) -> u64 {
    !(((word & (EACH * 0x7f)) + EACH * 0x60) | word) & (EACH * 0x80)
}

/// The first byte whose highest bit is found; eight when there is none.
fn place(found: u64) -> usize {
    usize::try_from(found.trailing_zeros() / 8).unwrap_or(0)
}

/// Appends eight bytes. Before each quote a backslash is put and the rest is written once more
/// behind it: that is cheaper than copying what lies between.
fn write_block(block: &[u8; BLOCK], out: &mut Vec<u8>) {
    let mut rest = u64::from_le_bytes(*block);
    if control(rest) != 0 {
        return block.iter().for_each(|byte| write_byte(*byte, out));
    }
    let mut found = quoted(rest);
    if found == 0 {
        return out.extend_from_slice(block);
    }
    let (mut wide, mut at, mut escapes) = ([0; 3 * BLOCK], 0, 0);
    put(&mut wide, at, rest);
    while found != 0 {
        let plain = place(found);
        (rest, found) = (rest >> (8 * plain), found >> (8 * plain));
        // This one is done; it is the lowest that was found.
        found &= found - 1;
        at += plain + 1;
        escapes += 1;
        if let Some(before) = wide.get_mut(at - 1) {
            *before = b'\\';
        }
        put(&mut wide, at, rest);
    }
    out.extend_from_slice(&wide);
    out.truncate(out.len() + BLOCK + escapes - wide.len());
}

fn put(wide: &mut [u8; 3 * BLOCK], at: usize, word: u64) {
    if let Some(place) = wide.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = word.to_le_bytes();
    }
}

fn write_byte(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        0x00..0x20 => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        _ => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str) {
        let mut written = b"before ".to_vec();
        write_text(text, &mut written);
        let expected = format!("before {}", serde_json::to_string(text).unwrap());
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn every_character_is_written_as_serde_json_writes_it() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        same(&all);
        for char in all.chars() {
            // The character stands alone, within eight bytes, and behind them.
            same(&char.to_string());
            same(&format!("0123{char}4567 and more"));
            same(&format!("01234567{char}"));
        }
        same("Żółć 📜 \u{2028}");
        same(&"\u{1}".repeat(1_000));
    }
}
