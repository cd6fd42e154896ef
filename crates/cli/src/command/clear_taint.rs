//! `toolgate approvals clear-taint`: a person says that what was read is no danger.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use toolgate_kernel::event::{ProjectEvent, Said};
use toolgate_kernel::fold::{CallOrigin, Project};
use toolgate_kernel::names::{Family, SessionId};
use toolgate_runtime::SayFault;

use crate::console::{say, visible};
use crate::credential;
use crate::exit::Exit;
use crate::person::{self, Nobody};
use crate::project::{Place, block_on};
use crate::reading;

#[derive(Args)]
pub(super) struct ClearTaintArgs {
    /// The session.
    session: Option<String>,
    /// A family of state, such as `note` or `file`, that untrusted content was written into; in place of
    /// a session.
    #[arg(long = "family", value_name = "FAMILY", conflicts_with = "session")]
    families: Vec<String>,
    /// Why it is no danger; it goes into the log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(super) fn run(place: &Place, what: &ClearTaintArgs) -> Result<Exit> {
    match (&what.session, what.families.as_slice()) {
        (Some(session), _) => clear_session(place, session, &what.reason),
        (None, []) => bail!("name a session, or a family of state with --family"),
        (None, families) => clear_families(place, families, &what.reason),
    }
}

fn clear_session(place: &Place, session: &str, reason: &str) -> Result<Exit> {
    let wanted = SessionId::parse(session)?;
    let (seen_to, session) = block_on(async {
        let log = place.log()?;
        // Words that the session has not heard yet are no records that a person looked at.
        let seen_to = reading::session(log.store.as_ref(), &wanted).await?.seq;
        Ok((seen_to, reading::caught_up(&log, &wanted).await?))
    })?;
    let seen = session.flow.seen_by(CallOrigin::Outside);
    let mut shown = vec![format!("Session {wanted}")];
    shown.extend(seen.private().map(|source| format!("  private since {source}")));
    shown.extend(seen.untrusted().map(|source| format!("  untrusted since {source}")));
    ensure!(shown.len() > 1, "session {wanted} has read nothing that the rule of two looks at");
    shown.push("The rule of two would no longer take it into account.".to_owned());
    person::attended().then_some(()).ok_or(Nobody)?;
    shown.iter().for_each(|line| say(&visible(line)));
    block_on(async {
        if !person::confirm("clear", "do this").await? {
            say("Nothing was cleared.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        let said = Said::ClearTaint { reason: reason.to_owned(), seen: seen_to };
        place.open()?.runtime.say(&wanted, person.author(&shown), said).await?;
        say(&format!(
            "The rule of two begins anew in {wanted}, unless it has read something since you looked."
        ));
        Ok(Exit::Done)
    })
}

fn clear_families(place: &Place, families: &[String], reason: &str) -> Result<Exit> {
    let families: Vec<Family> =
        families.iter().map(|name| Family::parse(name)).collect::<Result<_, _>>()?;
    let project = block_on(async {
        let log = place.log()?;
        reading::project(log.store.as_ref()).await
    })?;
    let mut shown = Vec::new();
    for family in &families {
        let write = project.untrusted.get(family).with_context(|| {
            format!("{family} is not marked: nothing untrusted was written into it")
        })?;
        shown.push(format!("{family}: written by {} in session {}", write.call, write.session));
    }
    shown.push("Reading these would no longer count as reading untrusted content.".to_owned());
    person::attended().then_some(()).ok_or(Nobody)?;
    shown.iter().for_each(|line| say(&visible(line)));
    block_on(async {
        if !person::confirm("clear", "do this").await? {
            say("Nothing was cleared.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        let event =
            ProjectEvent::FamiliesCleared { families: families.clone(), reason: reason.to_owned() };
        let opened = place.open()?;
        let is_as_shown = |now: &Project| {
            families.iter().all(|family| now.untrusted.get(family) == project.untrusted.get(family))
        };
        let decide = |now: &Project| match is_as_shown(now) {
            true => Ok((vec![event.clone()], ())),
            false => Err(SayFault::Busy),
        };
        opened.runtime.decide(person.author(&shown), decide).await?;
        say("The mark is gone.");
        Ok(Exit::Done)
    })
}
