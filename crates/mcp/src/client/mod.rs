//! Decides how MCP servers are reached, and what of them is believed.
