/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same on every platform.
#[derive(Clone, Debug)]
pub(in crate::tests) struct Rng(pub(in crate::tests) u64);

impl Rng {
    pub(in crate::tests) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub(in crate::tests) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(in crate::tests) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    pub(in crate::tests) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
