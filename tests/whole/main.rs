//! Tests of Countersign as a whole: what holds across crates, and what no crate can show alone.

mod floors;
mod forgery;
mod labels;
mod memory;
mod readme;
mod world;
