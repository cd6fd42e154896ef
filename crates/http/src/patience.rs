//! Decides how long a server is waited for. Every wait ends, and none is switched off by a zero.

use std::time::Duration;

use tokio::time::Instant;

use crate::sse::RESPONSE_BYTES_MAX;

/// How long a server is waited for, and how much is taken from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Milliseconds to find the address of the server.
    pub dns_ms_max: u64,
    /// Milliseconds to connect, TLS included.
    pub connect_ms_max: u64,
    /// Milliseconds to the first byte of the answer; by itself as long as the whole.
    pub first_byte_ms_max: Option<u64>,
    /// Milliseconds without a byte; by itself half the whole.
    pub idle_ms_max: Option<u64>,
    /// Milliseconds for one request altogether; by itself 120,000, and 600,000 for a server on a
    /// private address, where a model may run on a slow machine.
    pub request_ms_max: Option<u64>,
    /// Bytes of an answer.
    pub answer_bytes_max: u64,
}

/// A request to a server on a public address.
const PUBLIC_MS: u64 = 120_000;
/// A request to a server on a private address.
const PRIVATE_MS: u64 = 600_000;

impl Default for Patience {
    fn default() -> Self {
        Self {
            dns_ms_max: 5_000,
            connect_ms_max: 10_000,
            first_byte_ms_max: None,
            idle_ms_max: None,
            request_ms_max: None,
            answer_bytes_max: u64::try_from(RESPONSE_BYTES_MAX).unwrap_or(u64::MAX),
        }
    }
}

/// A wait that would never end, or never begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is 0: every wait must end and none is switched off; leave it out for the default")]
pub struct PatienceRefusal(&'static str);

impl Patience {
    /// Refuses zero.
    pub fn check(&self) -> Result<(), PatienceRefusal> {
        let given = [
            ("dns_ms_max", Some(self.dns_ms_max)),
            ("connect_ms_max", Some(self.connect_ms_max)),
            ("first_byte_ms_max", self.first_byte_ms_max),
            ("idle_ms_max", self.idle_ms_max),
            ("request_ms_max", self.request_ms_max),
            ("answer_bytes_max", Some(self.answer_bytes_max)),
        ];
        match given.into_iter().find(|(_, given)| *given == Some(0)) {
            Some((name, _)) => Err(PatienceRefusal(name)),
            None => Ok(()),
        }
    }

    /// Milliseconds for one request altogether.
    pub fn request_ms(&self, private: bool) -> u64 {
        self.request_ms_max.unwrap_or(if private { PRIVATE_MS } else { PUBLIC_MS })
    }

    pub(super) fn first_byte_ms(&self, private: bool) -> u64 {
        self.first_byte_ms_max.unwrap_or_else(|| self.request_ms(private))
    }

    pub(super) fn idle_ms(&self, private: bool) -> u64 {
        self.idle_ms_max.unwrap_or_else(|| (self.request_ms(private) / 2).max(1))
    }
}

/// A moment some milliseconds after another; a moment far away where the sum cannot be told.
pub fn after(moment: Instant, ms: u64) -> Instant {
    /// A year, longer than anything is waited for.
    const FAR_MS: u64 = 365 * 24 * 3_600_000;
    moment + Duration::from_millis(ms.min(FAR_MS))
}
