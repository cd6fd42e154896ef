//! Lists what can be typed in a conversation besides words, and what is told in answer.

use toolgate_kernel::event::Stage;

/// What can be typed besides words.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("/help", "what can be typed"),
    ("/phase", "the phase; with a name, move there"),
    ("/tools", "the tools of this phase"),
    ("/why", "why the last call was refused, or the model failed"),
    ("/image", "a picture for your next words: /image FILE"),
    ("/retry", "ask again after a failure"),
    ("/history", "what was said so far"),
    ("/new", "begin another conversation"),
    ("/quit", "leave; Ctrl-D does the same"),
];

/// How far a refused call came, for `/why`.
pub(super) fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Parse => "parsed",
        Stage::Resolve => "resolved",
        Stage::Validate => "validated",
        Stage::Judge => "judged",
        Stage::Answer => "answered",
    }
}
