//! Decides which token a request to a server has: the one that is kept, renewed before it is over.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::HeaderValue;
use toolgate_http::{HttpFault, Transport, after};
use toolgate_kernel::redact::Redactor;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::port::Clock;

use super::address::Guard;
use super::exchange::{Sent, ask};
use super::fault::OauthFault;
use super::permit::{Given, Permit};

/// Milliseconds before a renewal that failed is tried again.
const AGAIN_MS: u64 = 10_000;

/// Milliseconds in which another process gives the pen back: it asks no longer than that.
const PEN_MS_MAX: u64 = 20_000;

/// Milliseconds between two looks whether it did.
const LOOK_MS: u64 = 20;

/// Where the permit of one server is kept. Nobody else can read it there.
pub trait Permits: Send + Sync {
    /// The permit, if there is one.
    fn load(&self) -> Option<Permit>;
    /// Keeps a permit in place of the one before.
    fn save(&self, permit: &Permit);
    /// The pen to change it, without waiting; nothing while another process has it. Only permits
    /// that several processes share need one.
    fn pen(&self) -> Option<Pen> {
        Some(Box::new(()))
    }
}

/// Whoever has it changes the permit, until it is dropped.
pub type Pen = Box<dyn Send>;

/// Keeps the token of one server fresh.
pub struct Keeper {
    /// The address of the server; a permit for another is not used.
    server: String,
    http: Arc<Transport>,
    permits: Box<dyn Permits>,
    clock: Arc<dyn Clock>,
    held: Mutex<Option<Held>>,
    /// Is told every token: the server may repeat them.
    redactor: Mutex<Redactor>,
    /// One renewal at a time: a token that renews can often be used once.
    renewing: tokio::sync::Mutex<()>,
    /// Whether somebody does.
    at_it: AtomicBool,
    /// Whether somebody waits to write down what was missed.
    noting: AtomicBool,
    /// When and why the token could not be renewed, where another login would not help. For a while
    /// nobody waits for that again.
    lapse: Mutex<Option<(Timestamp, HttpFault)>>,
}

struct Held {
    permit: Permit,
    header: HeaderValue,
    /// When it is renewed.
    renew: Option<Timestamp>,
}

impl Held {
    fn new(permit: Permit) -> Option<Self> {
        let header = HeaderValue::from_str(&format!("Bearer {}", permit.access.reveal()));
        let mut header = header.ok()?;
        header.set_sensitive(true);
        let renew = permit.times.map(|(renew, _)| renew);
        Some(Self { permit, header, renew })
    }
}

impl Keeper {
    /// A keeper for the server at this address.
    pub fn new(
        server: &str,
        http: Arc<Transport>,
        permits: Box<dyn Permits>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (held, redactor) = (Mutex::default(), Mutex::default());
        let (renewing, at_it, noting) =
            (tokio::sync::Mutex::default(), AtomicBool::default(), AtomicBool::default());
        let (server, lapse) = (server.to_owned(), Mutex::default());
        Self { server, http, permits, clock, held, redactor, renewing, at_it, noting, lapse }
    }

    /// Whether another token is waited for.
    pub(in crate::client) fn is_renewing(&self) -> bool {
        self.at_it.load(Ordering::Acquire)
    }

    /// Looks whether there is a permit by now.
    pub(in crate::client) fn look(&self) {
        self.put(self.kept().and_then(Held::new));
    }

    /// Holds another permit, or none. What was held before is not forgotten: a server may repeat it.
    fn put(&self, new: Option<Held>) {
        if let Some(Held { permit, .. }) = &new {
            let redactor = self.redactor.lock().unwrap_or_else(PoisonError::into_inner);
            redactor.add_renewed(permit.secrets());
        }
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Tells a redactor the tokens, now and whenever they are renewed: the server may repeat them.
    pub(in crate::client) fn share_secrets(&self, redactor: &Redactor) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        redactor.add_renewed(held.iter().flat_map(|held| held.permit.secrets()));
        *self.redactor.lock().unwrap_or_else(PoisonError::into_inner) = redactor.clone();
    }

    fn kept(&self) -> Option<Permit> {
        self.permits.load().filter(|permit| permit.server == self.server)
    }

    /// What a request has as `Authorization`. Nothing where nobody logged in, or where the token is
    /// over and only another login helps; a fault where it cannot be renewed just now.
    pub(in crate::client) async fn header(
        self: &Arc<Self>,
    ) -> Result<Option<HeaderValue>, HttpFault> {
        let now = self.clock.now();
        match self.current(now) {
            None => Ok(None),
            Some(Some(header)) => Ok(Some(header)),
            Some(None) => self.another(now, None).await,
        }
    }

    fn lapse(&self) -> MutexGuard<'_, Option<(Timestamp, HttpFault)>> {
        self.lapse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token that is held; nothing inside where it must be renewed first.
    #[allow(clippy::option_option)]
    fn current(&self, now: Timestamp) -> Option<Option<HeaderValue>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref()?;
        let fresh = held.renew.is_none_or(|renew| now < renew);
        Some(fresh.then(|| held.header.clone()))
    }

    /// Another token than one that the server refused, if there is one to be had.
    pub(in crate::client) async fn instead_of(
        self: &Arc<Self>,
        refused: &HeaderValue,
    ) -> Result<Option<HeaderValue>, HttpFault> {
        self.another(self.clock.now(), Some(refused.clone())).await
    }

    /// The token of a login since, if there was one: a server that missed rights may find them in
    /// it.
    pub(in crate::client) fn since(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        let new = Held::new(self.kept()?).filter(|new| new.header != *refused)?;
        let header = new.header.clone();
        self.put(Some(new));
        Some(header)
    }

    /// Another token than the refused one. Whoever stops waiting does not lose it: what renews can
    /// often be used once, so a renewal that was begun is brought to its end and kept.
    async fn another(
        self: &Arc<Self>,
        now: Timestamp,
        refused: Option<HeaderValue>,
    ) -> Result<Option<HeaderValue>, HttpFault> {
        let this = Arc::clone(self);
        let renewal = tokio::spawn(async move {
            let _one = this.renewing.lock().await;
            let good = |header: &HeaderValue| refused.as_ref() != Some(header);
            // Somebody else may have done it meanwhile.
            match this.current(now)?.filter(good) {
                Some(header) => Some(header),
                None => {
                    this.at_it.store(true, Ordering::Release);
                    let renewed = this.renew().await.filter(good);
                    this.at_it.store(false, Ordering::Release);
                    renewed
                }
            }
        });
        match renewal.await.ok().flatten() {
            None => self.lapse().as_ref().map_or(Ok(None), |(_, fault)| Err(fault.clone())),
            header => Ok(header),
        }
    }

    /// Renews the token that is kept. One process at a time does, and the others use what it got.
    async fn renew(&self) -> Option<HeaderValue> {
        let now = self.clock.now();
        let again = |(at, _): &(Timestamp, HttpFault)| now < at.plus_ms(AGAIN_MS);
        let recent = self.lapse().as_ref().is_some_and(again);
        let mut pen = None;
        if !recent {
            *self.lapse() = None;
            pen = self.pen().await;
        }
        // Waiting for the pen took its time.
        let now = self.clock.now();
        let held = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.as_ref().map(|held| held.permit.clone())?
        };
        let Some(kept) = self.kept() else {
            // Somebody logged out.
            self.put(None);
            *self.lapse() = None;
            return None;
        };
        let before = kept.access.clone();
        // One that could not be written lasts longer than the one that is kept.
        let over = |permit: &Permit| permit.times.map(|(_, over)| over);
        let permit = if over(&held) > over(&kept) { held.clone() } else { kept };
        let fresh = permit.times.is_none_or(|(renew, _)| now < renew);
        if permit.access != held.access && fresh {
            return self.hold(permit);
        }
        if pen.is_none() {
            let what = "another process that renews the token";
            let late = HttpFault::Unready { what, ms: PEN_MS_MAX };
            self.lapse().get_or_insert((now, late));
            return self.bear(permit, now);
        }
        let renewed = self.renewed(&permit, now).await;
        // A person may have logged in or out meanwhile, and does not wait for the pen.
        match self.kept() {
            None => {
                self.put(None);
                None
            }
            Some(kept) if kept.access != before => self.hold(kept),
            Some(_) => match renewed {
                Ok(renewed) => {
                    self.permits.save(&renewed);
                    self.hold(renewed)
                }
                Err(fault) => {
                    *self.lapse() = passing(fault).map(|fault| (now, fault));
                    self.bear(permit, now)
                }
            },
        }
    }

    /// The pen to change the permit; nothing where another process keeps it for too long.
    async fn pen(&self) -> Option<Pen> {
        let deadline = after(tokio::time::Instant::now(), PEN_MS_MAX);
        loop {
            if let Some(pen) = self.permits.pen() {
                return Some(pen);
            }
            let look = after(tokio::time::Instant::now(), LOOK_MS);
            if look > deadline {
                return None;
            }
            tokio::time::sleep_until(look).await;
        }
    }

    fn hold(&self, permit: Permit) -> Option<HeaderValue> {
        let new = Held::new(permit)?;
        let header = new.header.clone();
        self.put(Some(new));
        Some(header)
    }

    /// Goes on with a token that could not be renewed, while it lasts.
    fn bear(&self, permit: Permit, now: Timestamp) -> Option<HeaderValue> {
        let over = permit.times.map(|(_, over)| over);
        let mut new = Held::new(permit)?;
        if over.is_some_and(|over| over <= now) {
            return None;
        }
        new.renew = over.map(|over| over.min(now.plus_ms(AGAIN_MS)));
        let header = new.header.clone();
        self.put(Some(new));
        Some(header)
    }

    async fn renewed(&self, permit: &Permit, now: Timestamp) -> Result<Permit, OauthFault> {
        let refresh = permit.refresh.as_ref().ok_or(OauthFault::NoCode)?;
        let endpoint = Guard::of(&self.server)?;
        let endpoint = endpoint.endpoint("token endpoint", &permit.token_endpoint)?;
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal()),
            ("resource", &permit.resource),
        ];
        let (form, who) = permit.client.signed(&pairs)?;
        let told = ask(&self.http, &endpoint, Sent::Form(form, who.as_ref())).await?;
        Ok(permit.clone().with(Given::read(&told)?, now))
    }

    /// The server wants more than the token allows: the next login asks for it. Whoever was refused
    /// does not wait until that can be written down.
    pub(in crate::client) fn missed(self: &Arc<Self>, scopes: &[String]) {
        if self.with_missed(scopes).is_none() {
            return;
        }
        if let Some(pen) = self.permits.pen() {
            return self.write_missed(scopes, &pen);
        }
        // One who waits is enough: what others missed is heard of when they are refused again.
        if self.noting.swap(true, Ordering::AcqRel) {
            return;
        }
        let (this, scopes) = (Arc::clone(self), scopes.to_vec());
        tokio::spawn(async move {
            if let Some(pen) = this.pen().await {
                this.write_missed(&scopes, &pen);
            }
            this.noting.store(false, Ordering::Release);
        });
    }

    /// The permit with what was missed; nothing where it says so already.
    fn with_missed(&self, scopes: &[String]) -> Option<Permit> {
        let mut permit = self.kept()?;
        let known = |scope: &String| permit.scopes.contains(scope) || permit.missed.contains(scope);
        let new: Vec<String> = scopes.iter().filter(|scope| !known(scope)).cloned().collect();
        permit.missed.extend_from_slice(&new);
        (!new.is_empty()).then_some(permit)
    }

    /// It takes the pen, because whoever renews the permit meanwhile writes over it.
    fn write_missed(&self, scopes: &[String], _pen: &Pen) {
        if let Some(permit) = self.with_missed(scopes) {
            self.permits.save(&permit);
        }
    }
}

/// There is no other token after so long.
pub(in crate::client) fn late(ms: u64) -> HttpFault {
    HttpFault::Unready { what: "renewing the token", ms }
}

/// What keeps a token from being renewed for now. Anything else asks for another login.
fn passing(fault: OauthFault) -> Option<HttpFault> {
    let OauthFault::Unreachable { fault, .. } = fault else { return None };
    if let HttpFault::TimedOut { ms, .. } | HttpFault::Unready { ms, .. } = fault {
        return Some(late(ms));
    }
    Some(fault)
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper(hidden)")
    }
}
