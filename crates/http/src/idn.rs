//! Decides which names of servers with letters beyond ASCII are taken: those whose every part is of
//! one script. They are always used, and shown, as the network has them: `xn--…`.

/// Letters that go together in one part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    Han,
    Kana,
    Hangul,
}

/// The name as the network has it; nothing for one that is not taken.
pub(super) fn to_ascii(host: &str) -> Option<String> {
    let parts: Option<Vec<String>> = host.split('.').map(part).collect();
    Some(parts?.join("."))
}

fn part(text: &str) -> Option<String> {
    let lower: String = text.chars().flat_map(char::to_lowercase).collect();
    if lower.is_ascii() {
        return Some(lower);
    }
    one_script(&lower).then_some(())?;
    Some(format!("xn--{}", punycode(&lower)?))
}

/// Whether all letters go together. What has no script of these, such as a digit in a circle, a
/// sign that takes no room or a letter made of two, is refused: it may read like another name.
fn one_script(text: &str) -> bool {
    let mut found: Vec<Script> = Vec::new();
    for c in text.chars() {
        if c.is_ascii_digit() || c == '-' {
            continue;
        }
        match script(c) {
            Some(script) if !found.contains(&script) => found.push(script),
            Some(_) => {}
            None => return false,
        }
    }
    // Japanese and Korean are written with Chinese letters too.
    let alone = found.len() == 1;
    alone
        || matches!(&found[..], [Script::Han, Script::Kana | Script::Hangul])
        || matches!(&found[..], [Script::Kana | Script::Hangul, Script::Han])
}

fn script(c: char) -> Option<Script> {
    Some(match c {
        'a'..='z' | '\u{df}'..='\u{f6}' | '\u{f8}'..='\u{148}' | '\u{14a}'..='\u{17e}' => {
            Script::Latin
        }
        '\u{3ac}'..='\u{3ce}' => Script::Greek,
        '\u{430}'..='\u{45f}' | '\u{491}' => Script::Cyrillic,
        '\u{5d0}'..='\u{5ea}' => Script::Hebrew,
        '\u{620}'..='\u{63f}' | '\u{641}'..='\u{64a}' => Script::Arabic,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' => Script::Han,
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}' => Script::Kana,
        '\u{ac00}'..='\u{d7a3}' => Script::Hangul,
        _ => return None,
    })
}

/// RFC 3492, without a separator where no letter is of ASCII.
fn punycode(text: &str) -> Option<String> {
    const BASE: u32 = 36;
    let plain: String = text.chars().filter(char::is_ascii).collect();
    let mut out = plain.clone();
    if !plain.is_empty() {
        out.push('-');
    }
    let (mut handled, mut delta, mut bias) = (u32::try_from(plain.len()).ok()?, 0_u32, 72_u32);
    let (mut next, first, total) = (0x80_u32, handled, u32::try_from(text.chars().count()).ok()?);
    while handled < total {
        let least = text.chars().map(u32::from).filter(|c| *c >= next).min()?;
        delta = delta.checked_add((least - next).checked_mul(handled.checked_add(1)?)?)?;
        next = least;
        for c in text.chars().map(u32::from) {
            if c < next {
                delta = delta.checked_add(1)?;
            }
            if c != next {
                continue;
            }
            let (mut rest, mut place) = (delta, BASE);
            loop {
                let least = place.saturating_sub(bias).clamp(1, 26);
                if rest < least {
                    break;
                }
                out.push(digit(least + (rest - least) % (BASE - least))?);
                rest = (rest - least) / (BASE - least);
                place += BASE;
            }
            out.push(digit(rest)?);
            bias = adapted(delta, handled + 1, handled == first);
            delta = 0;
            handled += 1;
        }
        delta = delta.checked_add(1)?;
        next = next.checked_add(1)?;
    }
    Some(out)
}

fn digit(value: u32) -> Option<char> {
    let value = u8::try_from(value).ok()?;
    match value {
        0..=25 => Some(char::from(b'a' + value)),
        26..=35 => Some(char::from(b'0' + value - 26)),
        _ => None,
    }
}

fn adapted(delta: u32, handled: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / handled;
    let mut steps = 0;
    while delta > 455 {
        delta /= 35;
        steps += 36;
    }
    steps + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_script_are_taken_as_the_network_has_them() {
        for (host, ascii) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("münchen.de", "xn--mnchen-3ya.de"),
            ("пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("한국.example", "xn--3e0b707e.example"),
            ("straße.example", "xn--strae-oqa.example"),
            ("παράδειγμα.δοκιμή", "xn--hxajbheg2az3al.xn--jxalpdlp"),
        ] {
            assert_eq!(to_ascii(host).as_deref(), Some(ascii), "{host}");
        }
    }

    #[test]
    fn names_that_may_read_like_others_are_refused() {
        for host in [
            "ex\u{430}mple.com",                 // a Cyrillic letter among Latin ones
            "loc\u{ad}alhost",                   // a hyphen that is not shown
            "\u{2460}\u{2461}\u{2466}.\u{2460}", // digits in circles
            "127\u{3002}0\u{3002}0\u{3002}1",    // another kind of full stop
            "u\u{308}.example",                  // a letter made of two
            "\u{ff41}.example",                  // a wide letter
            "a\u{200d}b.example",
        ] {
            assert_eq!(to_ascii(host), None, "{host}");
        }
    }
}
