//! Prints the public interface of each crate whose rustdoc JSON is named: the file, then a line for each public item.
//! Members that a trait gives to each of its implementations are left out. `xtask api` makes lists of the lines.

use std::error::Error;

use public_api::{Builder, PublicItem};

/// A derived implementation of no use to a host.
const STRUCTURAL: &str = "impl core::marker::StructuralPartialEq for";

fn main() -> Result<(), Box<dyn Error>> {
    for file in std::env::args().skip(1) {
        println!("{file}");
        let api =
            Builder::from_rustdoc_json(&file).omit_blanket_impls(true).omit_auto_trait_impls(true).build()?;
        let lines: Vec<(&PublicItem, String)> = api.items().map(|item| (item, item.to_string())).collect();
        let is_trait_impl = |line: &str| line.starts_with("impl") && line.contains(" for ");
        let impls: Vec<_> =
            lines.iter().filter(|(_, line)| is_trait_impl(line)).map(|(item, _)| item.id()).collect();
        for (item, line) in &lines {
            let is_own = item.parent_id().is_none_or(|parent| !impls.contains(&parent));
            if is_own && !line.starts_with(STRUCTURAL) {
                println!("{line}");
            }
        }
    }
    Ok(())
}
