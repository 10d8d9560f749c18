use countersign_core::ImpactClass;

/// Impacts that count as high: always money, privacy and irreversible, and those that the operator adds. None can be
/// removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighImpacts {
    write: bool,
    read: bool,
    external: bool,
    compute: bool,
}

impl HighImpacts {
    /// Adds a class.
    #[must_use]
    pub const fn with(mut self, impact: ImpactClass) -> Self {
        match impact {
            ImpactClass::Read => self.read = true,
            ImpactClass::Write => self.write = true,
            ImpactClass::External => self.external = true,
            ImpactClass::Compute => self.compute = true,
            // High already, as any future class is.
            ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible | _ => {}
        }
        self
    }

    /// Returns `true` if the class counts as high.
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
