//! Decides how it is told that a server failed: whether it can be reached, and whether a call may
//! have happened.

use toolgate_http::HttpFault;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::names::ServerName;

/// Why a server cannot be used now. No text in it holds a secret; what a server wrote is short and
/// has no control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// Nobody configured it.
    #[error("no server of this name is configured")]
    Unknown,
    /// Something that its configuration refers to is missing.
    #[error("{0}")]
    Lacking(String),
    /// Its program did not start.
    #[error("its program did not start: {0}")]
    NotStarted(String),
    /// Its program came to an end.
    #[error("its program ended{}", last_words(.0))]
    Ended(String),
    /// Its program failed before its first message, probably because of its sandbox.
    #[error("its sandbox probably refused {what}: {advice}{}", last_words(.words))]
    Denied {
        /// What was refused.
        what: String,
        /// What to write in the configuration.
        advice: String,
        /// What it wrote to its error output last.
        words: String,
    },
    /// It wrote too much that is no message.
    #[error("it wrote more than {max} lines that are no messages{}", last_words(.words))]
    Noisy {
        /// The bound.
        max: u64,
        /// What it wrote to its error output last.
        words: String,
    },
    /// It did not answer in time.
    #[error("{what} took more than {ms} ms{}", last_words(.words))]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        ms: u64,
        /// What it wrote to its error output last.
        words: String,
    },
    /// It does not answer any more.
    #[error("it did not answer several calls in a row and was stopped")]
    Hung,
    /// It is not reached over HTTP.
    #[error(transparent)]
    Http(#[from] HttpFault),
    /// Its address cannot be used.
    #[error("its url cannot be used: {0}")]
    Address(&'static str),
    /// A header cannot be sent.
    #[error("its header {0:?} cannot be sent: a name is letters, digits and -, a value one line")]
    Header(String),
    /// It wants to know who asks.
    #[error("it asks for authorization (status {status})")]
    Unauthorized {
        /// The status.
        status: u16,
        /// What it says about how to get one, as it came.
        challenge: Option<String>,
    },
    /// It wants a person to log in.
    #[error("it asks for authorization: run `toolgate mcp login {server}`")]
    WantsLogin {
        /// The server.
        server: ServerName,
        /// What it says about how to get it, as it came.
        challenge: Option<String>,
    },
    /// It wants more than the token allows.
    #[error("it asks for more rights ({scopes}): run `toolgate mcp login {server}` again")]
    WantsMore {
        /// The server.
        server: ServerName,
        /// What is missing.
        scopes: String,
    },
    /// It answered with a status that means nothing here.
    #[error("it answered with status {0}")]
    Status(u16),
    /// What it says is not the protocol.
    #[error("it does not keep to the protocol: {0}")]
    Protocol(String),
    /// It does not know the session any more.
    #[error("it has ended the session (status 404)")]
    SessionEnded,
    /// It answered the first question of the new revision with something else.
    #[error("it did not understand the first question, in neither revision: {0}")]
    Misunderstood(String),
    /// It wants messages sent to another server.
    #[error("it wants messages sent to another server than its own; that is refused")]
    Elsewhere,
    /// Its list of tools is larger than anything that is taken.
    #[error("its list has more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// It says that its list changed, and the list cannot be read again yet.
    #[error(
        "it says again and again that its tools changed; its list is read once in {ms} ms, and \
         nothing is called in between. Try again in a moment"
    )]
    Unsure {
        /// Milliseconds between two readings.
        ms: u64,
    },
    /// Its list of tools never ends.
    #[error("its list of tools comes back to a page that was read already")]
    Loop,
    /// It failed too often.
    #[error("it failed {failures} times in a row and is left alone; the last time: {last}")]
    Failed {
        /// How often.
        failures: u32,
        /// Why the last time.
        last: Box<ServerFault>,
    },
    /// Everything is being shut down.
    #[error("the connection is closed")]
    Closed,
}

impl ServerFault {
    /// The same in our own words, so that whoever calls can be told: nothing that the server wrote is
    /// in it, and not where it is. A person is told all of it.
    pub fn in_our_words(&self) -> String {
        match self {
            Self::Ended(_) => Self::Ended(String::new()).to_string(),
            Self::Noisy { max, .. } => Self::Noisy { max: *max, words: String::new() }.to_string(),
            Self::TimedOut { what, ms, .. } => {
                Self::TimedOut { what, ms: *ms, words: String::new() }.to_string()
            }
            Self::Denied { .. } => "its program ended, probably because of its sandbox".to_owned(),
            Self::Lacking(_) => "something is missing that its configuration refers to".to_owned(),
            Self::NotStarted(_) => "its program did not start".to_owned(),
            Self::Http(fault) => without_its_address(fault),
            Self::Header(_) => "one of its headers cannot be sent".to_owned(),
            Self::Protocol(_) => "it does not keep to the protocol".to_owned(),
            Self::Misunderstood(_) => {
                "it did not understand the first question, in neither revision".to_owned()
            }
            Self::WantsMore { server, .. } => {
                format!("it asks for more rights: run `toolgate mcp login {server}` again")
            }
            Self::Failed { failures, last } => {
                let last = last.in_our_words();
                format!(
                    "it failed {failures} times in a row and is left alone; the last time: {last}"
                )
            }
            Self::Unknown
            | Self::Hung
            | Self::Address(_)
            | Self::Unauthorized { .. }
            | Self::WantsLogin { .. }
            | Self::Status(_)
            | Self::SessionEnded
            | Self::Elsewhere
            | Self::TooMany { .. }
            | Self::Unsure { .. }
            | Self::Loop
            | Self::Closed => self.to_string(),
        }
    }
}

/// What went wrong over HTTP, without a word of where.
fn without_its_address(fault: &HttpFault) -> String {
    match fault {
        HttpFault::NoAddress { .. } => "its address was not found".to_owned(),
        HttpFault::Unreachable { .. } => "there is no connection to it".to_owned(),
        HttpFault::Tls { .. } => "it could not prove who it is".to_owned(),
        HttpFault::NoTls { .. } => "it speaks no TLS, and its address says so".to_owned(),
        HttpFault::OnlyTls { .. } => "it wants TLS, and its address says otherwise".to_owned(),
        HttpFault::NoRoots { .. } => "https cannot be used here".to_owned(),
        HttpFault::ClearText { .. } => "what is secret would travel in clear text".to_owned(),
        HttpFault::Forbidden { .. } => "its address must not be reached".to_owned(),
        HttpFault::Unready { .. }
        | HttpFault::TimedOut { .. }
        | HttpFault::CutOff
        | HttpFault::TooLarge { .. }
        | HttpFault::Redirected { .. }
        | HttpFault::Unreadable(_) => fault.to_string(),
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// The server never saw it.
    #[error("the call was not sent: {0}")]
    NotSent(ServerFault),
    /// The tool is not what it was when it was looked at, so the server never saw the call.
    #[error("the call was not sent: the tool is not what it was")]
    Changed,
    /// The server said no before it did anything.
    #[error("the server refused the call ({code}): {message}")]
    Refused {
        /// The code of the error, or the status.
        code: i64,
        /// What the server says; short, without control characters.
        message: String,
    },
    /// The server was gone before it answered. It may have happened.
    #[error("the server was gone before it answered, so nobody knows whether it happened: {0}")]
    Lost(ServerFault),
    /// The deadline passed. It may have happened, or still happen.
    #[error("no answer in {ms} ms; the call was cancelled, and may have happened")]
    TimedOut {
        /// How long was waited.
        ms: u64,
    },
    /// The server answered, with more than anything that is taken. Whether the call succeeded is not
    /// known.
    #[error("the answer has more than {max} bytes, so it is not known whether the call succeeded")]
    TooLarge {
        /// The bound.
        max: usize,
    },
    /// The server wants something from a person or a model before it goes on.
    #[error("the server asks for {0} before it goes on; that is refused")]
    WantsInput(&'static str),
    /// It happened, and what came back is not a result.
    #[error("what came back is no result: {0}")]
    Misfit(String),
}

impl CallFault {
    /// The same for whoever calls, without a word of where the server is.
    pub fn in_our_words(&self) -> String {
        match self {
            Self::NotSent(why) => format!("the call was not sent: {}", why.in_our_words()),
            Self::Lost(why) => {
                let why = why.in_our_words();
                format!(
                    "the server was gone before it answered, so nobody knows whether it happened: \
                     {why}"
                )
            }
            Self::Changed
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::WantsInput(_)
            | Self::Misfit(_) => self.to_string(),
        }
    }

    /// Whether the call may have had an effect.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Changed | Self::Refused { .. } => false,
            Self::Lost(_)
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::WantsInput(_)
            | Self::Misfit(_) => true,
        }
    }
}

/// What a server wrote, for a person to read: short, and without anything invisible.
pub(crate) fn shown(text: &str, chars_max: usize) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let seen = |c: &char| !toolgate_kernel::letters::is_hidden(*c);
    let all: String = text.trim().chars().filter(seen).map(visible).collect();
    if all.chars().nth(chars_max).is_none() {
        return all;
    }
    bounded_text(&all, u64::try_from(chars_max).unwrap_or(u64::MAX)).into_owned()
}

fn last_words(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; it wrote: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever calls learns what to make of a fault, and neither where a server is nor what it wrote.
    #[test]
    fn no_place_and_no_word_of_a_server_is_in_our_words() {
        let (host, reason) = ("db.internal.example:8443", "OBEY");
        let http = |fault: HttpFault| ServerFault::Http(fault);
        let host = || host.to_owned();
        let reason = || reason.to_owned();
        let faults = [
            http(HttpFault::NoAddress { host: host() }),
            http(HttpFault::Unreachable { host: host(), reason: reason() }),
            http(HttpFault::Tls { host: host(), reason: reason() }),
            http(HttpFault::NoTls { host: host(), how: "OBEY" }),
            http(HttpFault::OnlyTls { host: host() }),
            http(HttpFault::NoRoots { reason: reason() }),
            http(HttpFault::ClearText { host: host() }),
            http(HttpFault::Forbidden { host: host() }),
            http(HttpFault::Redirected { status: 302, to: Some(host()) }),
            ServerFault::NotStarted(format!("/opt/internal/{}", reason())),
            ServerFault::Ended(reason()),
            ServerFault::Denied { what: reason(), advice: reason(), words: reason() },
            ServerFault::Noisy { max: 1, words: reason() },
            ServerFault::TimedOut { what: "connecting", ms: 1, words: reason() },
            ServerFault::Protocol(reason()),
            ServerFault::Misunderstood(reason()),
            ServerFault::Header("x-internal-OBEY".to_owned()),
        ];
        for fault in faults {
            let failed = ServerFault::Failed { failures: 5, last: Box::new(fault.clone()) };
            for fault in [fault, failed] {
                let calls = [CallFault::NotSent(fault.clone()), CallFault::Lost(fault.clone())];
                let told = calls.map(|call| call.in_our_words());
                for told in told.into_iter().chain([fault.in_our_words()]) {
                    assert!(!told.contains("internal") && !told.contains("OBEY"), "{told}");
                }
            }
        }
    }
}
