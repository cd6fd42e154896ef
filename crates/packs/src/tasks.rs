//! Decides how tasks are kept: numbered, open or done, shared by all sessions of the project.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::fold::Slot;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::Family;
use toolgate_kernel::tool::{ACTION, SpecRefusal};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Pack, Transaction};

use crate::domain::{Domain, answer, check_length, fitting, given, key, whole_and_parts};
use crate::text::counted;

const TEXT: &str = "## Tasks\n\n\
    `tasks` keeps what is to be done. It stays when the conversation begins anew.";

/// The number of the next task. It changes whenever a task does (ADR 0009).
const WHOLE: &str = "tasks";
const TITLE_CHARS_MAX: usize = 200;
const DETAILS_CHARS_MAX: usize = 4_000;
const TASKS_MAX: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The number of the task.
    id: Option<u64>,
    /// What is to be done, in at most 200 characters.
    title: Option<String>,
    /// What else there is to know, in at most 4000 characters; an empty text takes it away.
    details: Option<String>,
    /// The new status; of a list, which tasks it shows.
    status: Option<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Done,
}

#[derive(Clone, Serialize, Deserialize)]
struct Task {
    id: u64,
    title: String,
    details: Option<String>,
    status: Status,
    created_at: String,
    completed_at: Option<String>,
}

/// What is kept of all tasks together.
#[derive(Default, Serialize, Deserialize)]
struct Whole {
    last: u64,
    changes: u64,
}

/// The tool `tasks`.
pub fn tasks() -> Result<Pack, SpecRefusal> {
    let task = json!({ "id": 1, "title": "Check the quotes", "details": null, "status": "open",
        "created_at": "2026-11-15T18:00:00.000Z", "completed_at": null });
    Domain::new("tasks", "Keeps a list of tasks: create, update, complete, list.")
        .action("create", "Adds a task.", &["title"], create)
        .action("update", "Changes title, details or status.", &["id"], update)
        .action("complete", "Marks a task as done.", &["id"], complete)
        .action("list", "Shows the tasks, all or those with a status.", &[], list)
        .reads(&["list"])
        .touches(touches)
        .describe(|draft| {
            let answer = json!({ "type": "task_created", "task": task });
            let input = json!({ "action": "create", "title": "Check the quotes" });
            draft.example("A new task.", input, answer)
        })
        .pack(TEXT, |whole| whole_and_parts(whole, &["task"]))
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let access = if args.text(ACTION) == Some("list") { Access::Read } else { Access::Write };
    Ok(vec![(access, Key::parse(WHOLE)?)])
}

fn create(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut whole: Whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
    whole.last += 1;
    make_room(tx)?;
    let task = Task {
        id: whole.last,
        title: title(params.title.as_deref())?.unwrap_or_default(),
        details: details(params.details)?.unwrap_or_default(),
        status: Status::Open,
        created_at: tx.now().to_string(),
        completed_at: None,
    };
    keep(tx, whole, &task)?;
    answer("task_created", "", &json!({ "task": task }))
}

fn update(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut task = find(tx, params.id)?;
    let (title, details) = (title(params.title.as_deref())?, details(params.details)?);
    if title.is_none() && details.is_none() && params.status.is_none() {
        return Err(Fault::invalid("title, details or status is required for update action")
            .with("required_param", "title"));
    }
    task.title = title.unwrap_or(task.title);
    task.details = details.unwrap_or(task.details);
    if let Some(status) = params.status.filter(|status| *status != task.status) {
        task.status = status;
        task.completed_at = (status == Status::Done).then(|| tx.now().to_string());
    }
    let whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
    keep(tx, whole, &task)?;
    answer("task_updated", "", &json!({ "task": task }))
}

fn complete(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut task = find(tx, params.id)?;
    if task.status == Status::Done {
        return Err(Fault::failed(format!("Task {} is done already", task.id)).with("id", task.id));
    }
    (task.status, task.completed_at) = (Status::Done, Some(tx.now().to_string()));
    let whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
    keep(tx, whole, &task)?;
    answer("task_completed", "", &json!({ "task": task }))
}

fn list(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut tasks = all(tx)?;
    tasks.retain(|task| params.status.is_none_or(|status| task.status == status));
    let total = tasks.len();
    let (shown, left) = fitting(tx, tasks)?;
    let message = match left {
        0 => format!("{}.", counted(total, "task")),
        left => format!("{total} tasks; {left} of them are not shown."),
    };
    answer("task_list", &message, &json!({ "tasks": shown, "total": total }))
}

/// Every task, by number.
fn all(tx: &Transaction) -> Result<Vec<Task>, Fault> {
    let family = Family::parse("task").map_err(|refusal| Fault::failed(refusal.to_string()))?;
    let read = |(_, slot): (String, Slot)| serde_json::from_value(slot.value());
    let tasks: Result<Vec<Task>, _> = tx.list(&family)?.into_iter().map(read).collect();
    let mut tasks = tasks.map_err(|error| Fault::failed(format!("A task is broken: {error}.")))?;
    tasks.sort_by_key(|task| task.id);
    Ok(tasks)
}

fn find(tx: &Transaction, id: Option<u64>) -> Result<Task, Fault> {
    let id = id.unwrap_or_default();
    let task = tx.load(&key(&format!("task:{id}"))?)?;
    task.ok_or_else(|| Fault::failed(format!("There is no task {id}")).at("id").with("id", id))
}

/// Gives the place of the task that was done first to a new one. The log has it for ever.
fn make_room(tx: &mut Transaction) -> Result<(), Fault> {
    let tasks = all(tx)?;
    if tasks.len() < TASKS_MAX {
        return Ok(());
    }
    let done = tasks.iter().filter(|task| task.status == Status::Done);
    let Some(first) = done.min_by(|a, b| a.completed_at.cmp(&b.completed_at)) else {
        return Err(Fault::failed(format!("{TASKS_MAX} tasks are open. Complete some first.")));
    };
    tx.remove(&key(&format!("task:{}", first.id))?)
}

fn keep(tx: &mut Transaction, mut whole: Whole, task: &Task) -> Result<(), Fault> {
    whole.changes += 1;
    tx.put(&key(WHOLE)?, &whole)?;
    tx.put(&key(&format!("task:{}", task.id))?, task)
}

fn title(text: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(title) = given(text) else { return Ok(None) };
    check_length("title", title, TITLE_CHARS_MAX)?;
    Ok(Some(title.to_owned()))
}

/// The details as they shall be: `None` keeps them, `Some(None)` takes them away.
fn details(text: Option<String>) -> Result<Option<Option<String>>, Fault> {
    let Some(details) = text else { return Ok(None) };
    check_length("details", &details, DETAILS_CHARS_MAX)?;
    Ok(Some(Some(details).filter(|details| !details.trim().is_empty())))
}
