//! Changes of the project's state that belong together, made one after another on a copy of it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toolgate_kernel::event::Change;
use toolgate_kernel::fold::State;
use toolgate_kernel::key::Key;

use super::error::CatalogueError;

/// Layout of everything that the catalogue keeps.
const LAYOUT: u16 = 1;

/// Changes of the state, each seen by the ones after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateEdits {
    state: State,
    changes: Vec<Change>,
}

impl StateEdits {
    /// No change yet.
    pub fn of(state: &State) -> Self {
        Self { state: state.clone(), changes: Vec::new() }
    }

    /// The state with the changes so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The changes, in order.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// What is kept under a key.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, CatalogueError> {
        load(&self.state, key)
    }

    /// Puts a value under a key.
    pub fn put(&mut self, key: &str, value: &impl Serialize) -> Result<(), CatalogueError> {
        let value = serde_json::to_value(value).map_err(|error| unreadable(key, &error))?;
        self.change(Change::Put { key: parsed(key)?, value, v: LAYOUT })
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) -> Result<(), CatalogueError> {
        self.change(Change::Remove { key: parsed(key)? })
    }

    fn change(&mut self, change: Change) -> Result<(), CatalogueError> {
        let applied = self.state.apply(&change);
        applied.map_err(|error| CatalogueError::new("STATE_UNREADABLE", error.to_string()))?;
        self.changes.push(change);
        Ok(())
    }
}

/// What is kept under a key of a state.
pub(super) fn load<T: DeserializeOwned>(
    state: &State,
    key: &str,
) -> Result<Option<T>, CatalogueError> {
    let Some(slot) = state.get(&parsed(key)?) else { return Ok(None) };
    serde_json::from_value(slot.value()).map(Some).map_err(|error| unreadable(key, &error))
}

fn parsed(key: &str) -> Result<Key, CatalogueError> {
    Key::parse(key).map_err(|error| CatalogueError::new("STATE_UNREADABLE", error.to_string()))
}

fn unreadable(key: &str, error: &serde_json::Error) -> CatalogueError {
    CatalogueError::new("STATE_UNREADABLE", format!("{key} cannot be read: {error}"))
}
