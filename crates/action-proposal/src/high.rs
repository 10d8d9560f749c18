use countersign_core::ImpactClass;

/// Which impacts count as high: money, privacy and irreversible always, and what the operator adds. None can be taken
/// away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighImpacts {
    write: bool,
    read: bool,
    external: bool,
    compute: bool,
}

impl HighImpacts {
    /// Adds one more class.
    #[must_use]
    pub const fn with(mut self, impact: ImpactClass) -> Self {
        match impact {
            ImpactClass::Read => self.read = true,
            ImpactClass::Write => self.write = true,
            ImpactClass::External => self.external = true,
            ImpactClass::Compute => self.compute = true,
            // High already, as whatever may come is.
            ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible | _ => {}
        }
        self
    }

    /// Says whether the class counts as high.
    #[must_use]
    pub const fn contains(&self, impact: ImpactClass) -> bool {
        match impact {
            ImpactClass::Read => self.read,
            ImpactClass::Write => self.write,
            ImpactClass::External => self.external,
            ImpactClass::Compute => self.compute,
            ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible | _ => true,
        }
    }
}

impl FromIterator<ImpactClass> for HighImpacts {
    fn from_iter<I: IntoIterator<Item = ImpactClass>>(impacts: I) -> Self {
        impacts.into_iter().fold(Self::default(), Self::with)
    }
}
