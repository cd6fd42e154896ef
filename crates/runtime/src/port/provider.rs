//! Decides what a model must do: one reply to one plan.

use futures_util::future::BoxFuture;
use toolgate_kernel::event::{Finish, Usage};
use toolgate_kernel::next::Plan;

/// A call in a reply, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// The provider's id for it, which may be blank or a duplicate.
    pub alias: Option<String>,
    /// The name.
    pub name: String,
    /// The arguments as text.
    pub args: String,
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its words.
    pub text: String,
    /// The calls it wants made.
    pub calls: Vec<ReplyCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
}

/// Why there is no reply. The text is for the log and holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderFault {
    /// Trying again may help.
    #[error("the model did not answer: {0}")]
    Passing(String),
    /// Trying again will not help.
    #[error("the model cannot be used: {0}")]
    Final(String),
}

/// Sees a reply's text as it streams in. It stands beside the log.
pub type Tap<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A model.
pub trait Provider: Send + Sync {
    /// Its name, as the log quotes it.
    fn name(&self) -> &str;

    /// One reply.
    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>>;
}
