//! Makes a call that a person approved, where nobody else drives its session.

use anyhow::Result;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::{Session, Waiting};
use toolgate_runtime::Driver;
use toolgate_store::Rival;

use crate::card::Card;
use crate::console::{self, hint, say, visible};
use crate::environment::Flags;
use crate::exit::{self, Exit};
use crate::project::Place;
use crate::servers::Servers;
use crate::trust::TrustedCrew;

/// Makes the approved call here, unless another process has the session and does it.
pub(super) async fn make_call(place: &Place, card: &Card, config: Option<Digest>) -> Result<Exit> {
    let trusted = place.trusted_crew(&Flags::default()).await?;
    let TrustedCrew { mut crew, text, access } = trusted;
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    servers
        .around_until_told(async {
            let held = opened.hold(&card.session, Rival::Respected);
            let _hold = match held {
                Err(error) if exit::of(&error) == Exit::Busy => {
                    hint("Another process has the session; it makes the call at its next step.");
                    return Ok(Exit::Done);
                }
                held => held?,
            };
            let runtime = opened.runtime.clone();
            let mut driver = Driver::resume(runtime, crew, card.session.clone()).await?;
            if driver.session().ended.is_some() {
                hint(
                    "Another process had the session, and it has ended since; `toolgate sessions show` \
                     tells what became of the call.",
                );
                return Ok(Exit::Done);
            }
            driver.settle_open().await?;
            let made = driver.take_up_approved().await?;
            let session = driver.session();
            if made.is_empty() {
                console::paragraph(nothing_made(card, config, &session));
                return Ok(Exit::Failed);
            }
            for (call, answered) in &made {
                let envelope = &answered.envelope;
                let mark = console::mark(if envelope.ok { '✓' } else { '✗' });
                match session.waiting.get(call) {
                    // It is another question by now, so the yes is not for it.
                    Some(anew) => {
                        console::hanging(&format!("{mark} {call} {}", asked_anew(card, anew)), 2);
                        hint(&format!("Look at it again: toolgate approvals show {call}"));
                    }
                    None => {
                        say(&console::fit(&format!("{mark} {call} {}", visible(&envelope.message))))
                    }
                }
            }
            let fine = made.iter().all(|(_, answered)| answered.envelope.ok);
            Ok(if fine { Exit::Done } else { Exit::Failed })
        })
        .await
}

/// Why no call was made of a yes.
fn nothing_made(card: &Card, config: Option<Digest>, session: &Session) -> &'static str {
    if session.waiting.contains_key(&card.call) {
        "Nothing ran: the session did not take your yes for this call. Look at it again with \
         `toolgate approvals list`."
    } else if session.config != config {
        "The configuration is another one than when it was put off, so your yes is for something \
         else. Nothing ran. Whoever wants it calls it again, and you are asked anew."
    } else {
        "Nothing ran here: another process took your yes first, or the call had waited too long. \
         `toolgate sessions show` tells what became of it."
    }
}

/// Why a yes was not enough for a call that was made of it.
fn asked_anew(card: &Card, anew: &Waiting) -> String {
    match (&card.phase, &anew.phase) {
        (Some(then), Some(now)) if then != now => format!(
            "did not run: your yes was for phase {then}, and the session is in phase {now}. It waits \
             for your word again."
        ),
        _ => "did not run: the tool, or the rule that asks, is another one than when you were asked. \
              It waits for your word again."
            .to_owned(),
    }
}
