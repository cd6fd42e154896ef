//! Decides as which agent a session speaks, in which kind of conversation, and through which model.

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::Conversation;
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::{AgentId, SessionId};

use crate::environment::Flags;
use crate::project::{Place, block_on};
use crate::reading;

/// As whom a new session speaks.
#[derive(Args, Default)]
pub(crate) struct Speaks {
    /// Speak as this agent: its key under `agents` in toolgate.yaml, or the name it has now.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The kind of conversation the agent takes part in; a group when left out.
    #[arg(long, value_enum, requires = "agent", value_name = "KIND")]
    conversation: Option<Kind>,
}

/// A kind of conversation.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Several take part, and the agent is one of them.
    Group,
    /// One person and the agent.
    Direct,
}

/// The session whose agent counts, where there is one already.
pub(crate) enum Begun<'a> {
    /// None: it is a new one.
    No,
    /// This one.
    Session(&'a SessionId),
    /// The newest one whose id begins so.
    Newest(&'a str),
}

/// As whom a session speaks.
#[derive(Clone, Default)]
pub(crate) struct Speaker {
    pub(crate) agent: Option<AgentId>,
    pub(crate) conversation: Conversation,
}

impl Speaks {
    fn conversation(&self) -> Conversation {
        match (&self.agent, self.conversation) {
            (None, _) | (_, Some(Kind::Direct)) => Conversation::Direct,
            (Some(_), None | Some(Kind::Group)) => Conversation::Group,
        }
    }

    /// As whom a session speaks that is begun, or gone on with, and the model of that agent.
    pub(crate) fn speaker(
        &self,
        place: &Place,
        agent: &Agent,
        text: &AgentText,
        begun: &Begun<'_>,
    ) -> Result<(Speaker, Option<String>)> {
        if agent.agents.is_empty() && self.agent.is_none() {
            return Ok((Speaker::default(), None));
        }
        let (project, session) = look(place, begun)?;
        let asked = self.agent.as_deref().map(|name| agent.meant(&project, name)).transpose()?;
        let own = session.as_ref().and_then(|session| session.agent.clone());
        let conversation = self.conversation();
        let speaker = Speaker { agent: asked.clone(), conversation };
        // A session that goes on speaks as whom it was begun.
        let Some(id) = own.or(asked) else { return Ok((speaker, None)) };
        let Some(model) = agent.profile(&project, &id).and_then(|profile| profile.model) else {
            return Ok((speaker, None));
        };
        ensure!(
            text.models.contains_key(&model),
            "the agent {id} speaks through the model {model}, which is not declared under \
             `models` any more. Put it back, or name another one with --model"
        );
        Ok((speaker, Some(model)))
    }

    /// Refuses to go on with a session as somebody else, or in another kind of conversation.
    pub(crate) fn goes_on(&self, speaker: &Speaker, session: &Session) -> Result<()> {
        if self.agent.is_none() {
            return Ok(());
        }
        let kind = self.conversation.is_some_and(|_| speaker.conversation != session.conversation);
        if speaker.agent == session.agent && !kind {
            return Ok(());
        }
        bail!(
            "session {} speaks {}; leave --agent out, or begin another one",
            session.id,
            told(session)
        )
    }
}

/// As whom a session speaks, in words.
pub(crate) fn told(session: &Session) -> String {
    match &session.agent {
        None => "as no agent".to_owned(),
        Some(id) => format!("as {id} in a {} conversation", session.conversation.as_str()),
    }
}

/// The settings with an agent's model, where the command line names none.
pub(crate) fn with_model(flags: &Flags, model: Option<String>) -> Option<Flags> {
    let model = model.filter(|_| flags.settings().model.is_none())?;
    Some(flags.with_model(model))
}

/// The project, and the session that is gone on with, as far as there is a log.
fn look(place: &Place, begun: &Begun<'_>) -> Result<(Project, Option<Session>)> {
    if !place.home()?.join("log.db").exists() {
        return Ok((Project::default(), None));
    }
    let log = place.log()?;
    block_on(async {
        let store = log.store.as_ref();
        let project = reading::project(store).await?;
        let session = match begun {
            Begun::No => None,
            Begun::Session(id) => Some((*id).clone()),
            Begun::Newest(prefix) => {
                let ids = project.sessions.iter().filter(|id| id.as_str().starts_with(prefix));
                ids.max().cloned()
            }
        };
        // One that cannot be read is told of when it is gone on with.
        let session = match session {
            Some(id) => reading::session(store, &id).await.ok(),
            None => None,
        };
        Ok((project, session))
    })
}
