//! Decides what an MCP client gets to see and do here: what the gate allows.
