//! A spent proposal comes only from spending a verified one.
use countersign::action_proposal::SpentProposal;

fn forge(other: SpentProposal) -> SpentProposal {
    SpentProposal { ..other }
}

fn main() {}
