//! What holds of the transforms: the tables of document 003, the printed forms, and properties.

mod printed;
mod tables;
