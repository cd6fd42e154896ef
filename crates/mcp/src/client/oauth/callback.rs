//! Decides whether an answer that the browser brings is the answer to our question: its state, and
//! whom it is from, are checked before its code is looked at (RFC 9207).

use super::fault::OauthFault;
use super::permit::word;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// What was asked, as far as the answer must fit it.
pub(super) struct Expected<'a> {
    pub(super) state: &'a str,
    pub(super) issuer: &'a str,
    /// Whether the server promised to say whom its answers are from.
    pub(super) says_issuer: bool,
}

/// The code of an answer.
pub(super) fn code(query: &str, expected: &Expected<'_>) -> Result<String, OauthFault> {
    let pairs = pairs(query).ok_or(OauthFault::NotOurs)?;
    // Something said twice is said by two.
    let one = |name: &str| {
        let mut found = pairs.iter().filter(|(known, _)| known == name);
        let first = found.next().map(|(_, value)| value.as_str());
        if found.next().is_some() { Err(OauthFault::NotOurs) } else { Ok(first) }
    };
    if one("state")? != Some(expected.state) {
        return Err(OauthFault::NotOurs);
    }
    match one("iss")? {
        Some(issuer) if issuer == expected.issuer => {}
        None if !expected.says_issuer => {}
        Some(_) | None => return Err(OauthFault::WrongSender),
    }
    if let Some(error) = one("error")? {
        return Err(OauthFault::Denied(word(error)));
    }
    let code = one("code")?.filter(|code| !code.is_empty());
    code.map(str::to_owned).ok_or(OauthFault::NoCode)
}

fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    if query.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    pairs.map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(query: &str, says_issuer: bool) -> Result<String, OauthFault> {
        let issuer = "https://auth.example.com/x";
        code(query, &Expected { state: "s t", issuer, says_issuer })
    }

    #[test]
    fn an_answer_is_ours_and_from_whom_we_asked_before_its_code_is_looked_at() {
        let iss = "iss=https%3A%2F%2Fauth.example.com%2Fx";
        let ok = |code: &str| Ok(code.to_owned());
        for (query, says, wanted) in [
            (format!("code=a%2Bb&state=s+t&{iss}"), true, ok("a+b")),
            ("code=c&state=s%20t".to_owned(), false, ok("c")),
            ("code=c&state=s%20t".to_owned(), true, Err(OauthFault::WrongSender)),
            ("code=c&state=s+t&iss=https://evil".to_owned(), false, Err(OauthFault::WrongSender)),
            (format!("code=c&state=s+t&{iss}%2F"), false, Err(OauthFault::WrongSender)),
            ("code=c&state=other".to_owned(), false, Err(OauthFault::NotOurs)),
            ("code=c".to_owned(), false, Err(OauthFault::NotOurs)),
            ("code=c&state=s+t&state=x".to_owned(), false, Err(OauthFault::NotOurs)),
            ("code=c&code=d&state=s+t".to_owned(), false, Err(OauthFault::NotOurs)),
            ("state=s+t&code=%zz".to_owned(), false, Err(OauthFault::NotOurs)),
            ("state=s+t&code=".to_owned(), false, Err(OauthFault::NoCode)),
            (
                "state=s+t&error=access_denied%0A<b>".to_owned(),
                false,
                Err(OauthFault::Denied("access_denied".to_owned())),
            ),
            // Whoever is not who was asked is not heard at all.
            ("state=s+t&error=x&iss=y".to_owned(), false, Err(OauthFault::WrongSender)),
        ] {
            assert_eq!(told(&query, says), wanted, "{query}");
        }
    }
}
