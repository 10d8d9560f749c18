//! Runs the built binary, verb by verb, as a shell would.

mod ask;
mod audit;
mod bench;
mod check;
mod desk;
mod general;
mod json;
mod keys;
mod registry;
mod token;
