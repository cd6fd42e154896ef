//! Decides how the person at the terminal is asked: shown exactly what would run, then yes or no.

use std::io::{BufRead, IsTerminal};
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Answer;
use toolgate_runtime::port::{Pause, Person, Question, Response, Word};

use crate::console::{hint, visible};

/// Whoever sits at the terminal.
pub(crate) struct AtTerminal {
    name: Arc<str>,
    /// Makes the screen ready for a question.
    ready: Ready,
}

/// What is done before a question is put, once there is a screen.
pub(crate) type Ready = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

impl AtTerminal {
    /// The person at the terminal; nobody when input or output is a pipe.
    pub(crate) fn here(ready: Ready) -> Option<Arc<dyn Person>> {
        let attended = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let name = std::env::var("USER").ok().filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or_else(|| "person".to_owned()).as_str().into();
        attended.then(|| Arc::new(Self { name, ready }) as Arc<dyn Person>)
    }

    fn ready(&self) {
        if let Some(ready) = self.ready.get() {
            ready();
        }
    }
}

impl Person for AtTerminal {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        Box::pin(async move {
            self.ready();
            let args = serde_json::to_string_pretty(&question.args).unwrap_or_default();
            hint(&format!(
                "\n{} wants your word ({}).",
                question.policy,
                visible(&question.reason)
            ));
            hint("This would run, and nothing else:");
            hint(&format!("  {}", question.tool));
            args.lines().for_each(|line| hint(&format!("  {}", visible(line))));
            hint("Run it? Type yes, or anything else for no:");
            let line = line().await?;
            let yes = line.trim().eq_ignore_ascii_case("yes");
            let answer = if yes { Answer::Approve } else { Answer::Deny };
            Some(Response {
                who: Actor::Human(Arc::clone(&self.name)),
                answer,
                note: String::new(),
            })
        })
    }

    fn go_on<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        Box::pin(async move {
            self.ready();
            hint(&format!("\nThe phase changed to {}.", pause.phase));
            if !pause.summary.trim().is_empty() {
                hint(&format!("The model says: {}", visible(&pause.summary)));
            }
            hint("Press Enter to go on, or type what the model should know first:");
            let feedback = line().await?;
            Some(Word { who: Actor::Human(Arc::clone(&self.name)), feedback })
        })
    }
}

/// The next line from the terminal; nothing when it was closed.
async fn line() -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // Reading a terminal blocks, and nobody can say for how long.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        drop(sender.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line)));
    });
    receiver.await.ok().flatten()
}
