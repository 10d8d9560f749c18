//! Tests of Countersign as a whole: properties across crates that no crate can show alone.

mod floors;
mod forgery;
mod labels;
mod memory;
mod readme;
mod surfaces;
mod world;
