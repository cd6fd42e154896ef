//! Who may decide in a project: the first person enrols themselves, and everyone else is refused what
//! their role does not allow.

use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::{Decided, Role};
use toolgate_kernel::event::{ProjectEvent, Said, StreamId};
use toolgate_kernel::fold::{ClientDelegation, Project};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_kernel::time::Timestamp;

use crate::authority::{Author, Signer};
use crate::port::StoreFault;
use crate::runtime::{Runtime, SayFault};

impl Runtime {
    /// Looks whether an author may decide something that only a person may, and which head of the log
    /// their decision seals.
    pub(crate) async fn vouch<'a, E: Decided>(
        &self,
        author: Author<'a>,
        stream: &StreamId,
        event: &E,
    ) -> Result<Author<'a>, SayFault> {
        if event.decision(stream, author.actor).is_none() {
            return Ok(author);
        }
        self.enrol(author).await?;
        let project = self.catch_up().await?;
        may_sign(&project, author, stream, std::slice::from_ref(event), self.clock.now())?;
        Ok(self.attested(author).await?)
    }

    /// The same author, with the head of the log as this process has checked it.
    pub(crate) async fn attested<'a>(&self, author: Author<'a>) -> Result<Author<'a>, StoreFault> {
        let head = match author.signer {
            Some(_) => self.store.tree_head().await?,
            None => None,
        };
        Ok(Author { head, ..author })
    }

    /// Makes a person's key known here, where none is known yet.
    pub async fn enrol(&self, author: Author<'_>) -> Result<(), SayFault> {
        if author.signer.is_none() {
            return Ok(());
        }
        self.decide(author, |project| {
            Ok::<_, SayFault>((enrolled(project, author, &[]).into_iter().collect(), ()))
        })
        .await
    }

    /// What the user of a client answers, with the delegation that covers it, where there is one. Each
    /// answer is counted in the project before it is said.
    pub(crate) async fn delegated(
        &self,
        session: &SessionId,
        actor: &Actor,
        said: Said,
    ) -> Result<Said, SayFault> {
        let Actor::ClientUser(client) = actor else { return Ok(said) };
        let Said::Answer(mut decision) = said else { return Ok(said) };
        let (call, tool) = (decision.call, decision.tool.clone());
        let question = decision.shown;
        let used = self
            .decide(&Actor::System, |project| {
                let now = self.clock.now().max(project.latest);
                let covers = |(_, found): &(&u64, &ClientDelegation)| {
                    found.covers(client, &tool, now) || seeded(Bug::ClientUserWithoutDelegation)
                };
                let found = project.delegations.iter().find(covers).map(|(seq, _)| *seq);
                let used = found.map(|delegation| ProjectEvent::DelegationUsed {
                    delegation,
                    session: session.clone(),
                    call,
                    tool: tool.clone(),
                    question,
                });
                Ok::<_, SayFault>((used.into_iter().collect(), found))
            })
            .await?;
        if used.is_none() && !seeded(Bug::ClientUserWithoutDelegation) {
            return Err(SayFault::NotDelegated(tool));
        }
        (decision.delegation, decision.allow) = (used, None);
        Ok(Said::Answer(decision))
    }
}

/// Makes the first person's key known, in the same append as what it signs, where that does not do it.
pub(crate) fn enrolled(
    project: &Project,
    author: Author<'_>,
    decided: &[ProjectEvent],
) -> Option<ProjectEvent> {
    let signer = author.signer.filter(|_| project.people.is_empty())?;
    let is_own = |event: &ProjectEvent| matches!(event, ProjectEvent::PersonEnrolled { key, .. } if *key == signer.key());
    (!decided.iter().any(is_own)).then(|| first_person(author.actor, signer))
}

/// The first person of a log may decide everything.
pub(crate) fn first_person(actor: &Actor, signer: &dyn Signer) -> ProjectEvent {
    let name = actor.name().map(ToString::to_string).unwrap_or_default();
    let (key, role, tools) = (signer.key(), Role::Owner, Vec::new());
    ProjectEvent::PersonEnrolled { key, name, role, tools }
}

/// Refuses what only an enrolled person may decide, for everyone else.
pub(crate) fn may_sign<E: Decided>(
    project: &Project,
    author: Author<'_>,
    stream: &StreamId,
    events: &[E],
    now: Timestamp,
) -> Result<(), SayFault> {
    for event in events {
        let Some(what) = event.decision(stream, author.actor) else { continue };
        if !what.is_bounded(now) {
            return Err(SayFault::Unbounded);
        }
        let Some(signer) = author.signer else { return Err(SayFault::Unsigned) };
        if project.people.is_empty() {
            continue;
        }
        let Some(person) = project.people.get(&signer.key()) else {
            return Err(SayFault::Stranger);
        };
        if !person.may(&what, project.seq) {
            return Err(SayFault::NotAllowed(person.role, what.role_needed()));
        }
    }
    Ok(())
}
