//! Decides what the model is told about planning: one text, with one paragraph for the mindset.

use toolgate_kernel::config::Strategy;

const HEADER: &str = "## Planning\n\n\
    You can keep a plan for this session: one objective and a numbered list of steps.";

const BODY: &str = "\
Make a plan when the work takes more than a few calls; a simple request needs none.

- `planning_setup_plan` begins a plan with its objective and first steps. It replaces the plan \
there was, and numbering starts at 1 again.
- `planning_add_step` puts more steps at the end. Steps cannot be removed and keep their numbers.
- `planning_update_step` changes the title or the status of one step: `pending`, `in_progress` or \
`done`. Mark a step when you begin it, and again as soon as it is finished.
- `planning_read_plan` shows the plan. Read it whenever you are not sure what is left.

The plan is completed once every step is done. A completed plan can only be replaced.";

/// The text of the section.
pub(super) fn text(strategy: Strategy) -> String {
    match mindset(strategy) {
        None => format!("{HEADER}\n\n{BODY}"),
        Some(mindset) => format!("{HEADER}\n\n{mindset}\n\n{BODY}"),
    }
}

fn mindset(strategy: Strategy) -> Option<&'static str> {
    match strategy {
        Strategy::React => None,
        Strategy::PlanActReflect => Some(
            "Write down the whole plan before you act. Then take one step at a time, and \
                 after each step ask yourself what its result means for the steps that are left. \
                 Correct those steps before you go on.",
        ),
        Strategy::GoalDecomposeRouteSynthesise => Some(
            "Begin by saying the goal in your own words. Cut it into parts that can be solved \
                 one by one, and choose for each part the tool or the approach that suits it \
                 best. When every part is solved, put the results together and check that they \
                 answer the goal as a whole.",
        ),
    }
}
